{{/* Labels of everything the chart makes. Names are fixed: a cluster has one Fairway. */}}
{{- define "fairway.labels" -}}
app.kubernetes.io/name: fairway
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* By which the operator's pods are found. */}}
{{- define "fairway.selector" -}}
app.kubernetes.io/name: fairway
app.kubernetes.io/component: operator
{{- end }}

{{- define "fairway.scheme" -}}
{{- if .Values.tls.secretName }}https{{ else }}http{{ end }}
{{- end }}
