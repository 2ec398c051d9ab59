// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Treatment is what Fairway does with a field of a pod template.
type Treatment string

// The treatments.
const (
	FieldHonoured Treatment = "honoured" // Fairway decides by it what kube-scheduler would
	FieldPassed   Treatment = "passed"   // it is in the pod: the kubelet and others act on it, and no scheduler does
	FieldReplaced Treatment = "replaced" // Fairway writes its own value
	FieldIgnored  Treatment = "ignored"  // it stays in the pod, and placement does not look at it
	FieldRefused  Treatment = "refused"  // a job with it is refused
)

// PodField is what Fairway does with a field of a pod template. Fairway binds pods
// itself, so what kube-scheduler would look at has to be looked at here, or refused.
//
// +kubebuilder:object:generate=false
type PodField struct {
	Path      string // of JSON names, from the pod's spec
	Treatment Treatment
	Note      string // how; of a refused field why, and what to do instead
	// OwnOnly refuses the field only in Fairway's own kinds: other controllers may have
	// their reasons for it.
	OwnOnly bool
}

// PodFields is every field of a pod's spec. The API server's rules against refused
// fields (tools/trimcrds) and docs/kubernetes/pod-fields.md are made from it.
var PodFields = []PodField{
	{Path: "activeDeadlineSeconds", Treatment: FieldPassed, Note: "the kubelet ends the pod; a job that this ended is not retried"},
	{Path: "affinity.nodeAffinity", Treatment: FieldHonoured, Note: "required terms; preferred terms are ignored"},
	{Path: "affinity.podAffinity", Treatment: FieldIgnored, Note: "preferred terms"},
	{Path: "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution", Treatment: FieldRefused, Note: "Fairway does not place by other pods; use nodeSelector, or widest to keep a gang together"},
	{Path: "affinity.podAntiAffinity", Treatment: FieldIgnored, Note: "preferred terms"},
	{Path: "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", Treatment: FieldRefused, Note: "Fairway does not place by other pods; use nodeSelector, or gpusPerPod for one pod on each node"},
	{Path: "automountServiceAccountToken", Treatment: FieldPassed},
	{Path: "containers", Treatment: FieldHonoured, Note: "requests of all resources, and host ports (the kubelet checks what is left of these for pods of other controllers); GPU requests are replaced by the job's own"},
	{Path: "dnsConfig", Treatment: FieldPassed},
	{Path: "dnsPolicy", Treatment: FieldPassed},
	{Path: "enableServiceLinks", Treatment: FieldPassed},
	{Path: "ephemeralContainers", Treatment: FieldRefused, Note: "Kubernetes creates no pod with them; use kubectl debug on a running pod"},
	{Path: "evictionResponders", Treatment: FieldPassed},
	{Path: "hostAliases", Treatment: FieldPassed},
	{Path: "hostIPC", Treatment: FieldPassed},
	{Path: "hostNetwork", Treatment: FieldPassed, Note: "its ports count as host ports"},
	{Path: "hostPID", Treatment: FieldPassed},
	{Path: "hostUsers", Treatment: FieldPassed},
	{Path: "hostname", Treatment: FieldReplaced, Note: "in a gang of several pods that meets by DNS"},
	{Path: "hostnameOverride", Treatment: FieldPassed},
	{Path: "imagePullSecrets", Treatment: FieldPassed},
	{Path: "initContainers", Treatment: FieldHonoured, Note: "as containers; GPU requests are removed"},
	{Path: "nodeName", Treatment: FieldRefused, Note: "Fairway chooses the nodes; use nodeSelector or affinity", OwnOnly: true},
	{Path: "nodeSelector", Treatment: FieldHonoured},
	{Path: "os", Treatment: FieldPassed, Note: "the kubelet refuses pods of another system"},
	{Path: "overhead", Treatment: FieldHonoured},
	{Path: "preemptionPolicy", Treatment: FieldIgnored, Note: "Fairway's policy decides who makes room"},
	{Path: "priority", Treatment: FieldIgnored, Note: "the API server fills it in from priorityClassName"},
	{Path: "priorityClassName", Treatment: FieldHonoured, Note: "as the job's priority, if spec.priority is not set"},
	{Path: "readinessGates", Treatment: FieldPassed},
	{Path: "resourceClaims", Treatment: FieldRefused, Note: "Fairway does not allocate devices by claims (DRA); request GPUs with gpus, and other devices as resources of a container"},
	{Path: "resources", Treatment: FieldHonoured},
	{Path: "restartPolicy", Treatment: FieldReplaced, Note: "by Never: a gang restarts as a whole"},
	{Path: "runtimeClassName", Treatment: FieldHonoured, Note: "the node selector, the tolerations and, for pods that Fairway creates, the overhead of the RuntimeClass"},
	{Path: "schedulerName", Treatment: FieldReplaced, Note: "by fairway"},
	{Path: "schedulingGates", Treatment: FieldRefused, Note: "no pod with a gate can be bound; use spec.suspend to hold a job back", OwnOnly: true},
	{Path: "schedulingGroup", Treatment: FieldRefused, Note: "a TrainingJob is a gang by itself; leave it out", OwnOnly: true},
	{Path: "securityContext", Treatment: FieldPassed},
	{Path: "serviceAccount", Treatment: FieldPassed},
	{Path: "serviceAccountName", Treatment: FieldPassed},
	{Path: "setHostnameAsFQDN", Treatment: FieldPassed},
	{Path: "shareProcessNamespace", Treatment: FieldPassed},
	{Path: "subdomain", Treatment: FieldReplaced, Note: "in a gang of several pods that meets by DNS"},
	{Path: "terminationGracePeriodSeconds", Treatment: FieldReplaced, Note: "by spec.notice"},
	{Path: "tolerations", Treatment: FieldHonoured},
	{Path: "topologySpreadConstraints", Treatment: FieldRefused, Note: "Fairway does not place by other pods; use widest to bound how far apart a gang is, and gpusPerPod for one pod on each node"},
	{Path: "volumes", Treatment: FieldHonoured, Note: "claims: the nodes that can use the volume of a bound one (node affinity, zone); one that waits for its first consumer is bound when the job has its nodes; ReadWriteOncePod. Not the number of volumes that a node may attach; ephemeral claims of other controllers' pods must not wait for a consumer"},
}

// UnsupportedField returns the first refused field that a pod sets, of one that
// Fairway creates or of another controller's; nil: it sets none.
func UnsupportedField(pod *corev1.PodSpec, own bool) *PodField {
	for i := range PodFields {
		f := &PodFields[i]
		if f.Treatment == FieldRefused && (own || !f.OwnOnly) && sets(reflect.ValueOf(pod), f.Path) {
			return f
		}
	}
	return nil
}

// sets reports whether a value has something at a path of JSON names.
func sets(v reflect.Value, path string) bool {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return false
		}
		v = v.Elem()
	}
	if path == "" {
		return !v.IsZero() && (v.Kind() != reflect.Slice || v.Len() > 0)
	}
	name, rest, _ := strings.Cut(path, ".")
	for f, value := range v.Fields() {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return sets(value, rest)
		}
	}
	return false
}
