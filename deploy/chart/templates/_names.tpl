{{/* Labels of all objects of the chart. Names are fixed: a cluster has one Fairway. */}}
{{- define "fairway.labels" -}}
app.kubernetes.io/name: fairway
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Selector of the operator's pods. */}}
{{- define "fairway.selector" -}}
app.kubernetes.io/name: fairway
app.kubernetes.io/component: operator
{{- end }}

{{- define "fairway.scheme" -}}
{{- if .Values.tls.secretName }}https{{ else }}http{{ end }}
{{- end }}
