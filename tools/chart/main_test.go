// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const chartFolder = "../../deploy/chart"

// TestManifestsUpToDate: what is installed with kubectl is what the chart makes.
func TestManifestsUpToDate(t *testing.T) {
	got, err := render(chartFolder, "", "fairway-system")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../deploy/manifests/fairway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("deploy/manifests/fairway.yaml is not what the chart makes; run make manifests")
	}
}

// TestEverythingOn: each option renders what it says.
func TestEverythingOn(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	text := `
policy: tiresias
tls: {secretName: fairway-tls}
config: {pods: {rendezvous: ip}, api: {url: "https://fairway.example"}}
metrics: {serviceMonitor: {enabled: true, labels: {release: prom}}, dashboard: {enabled: true}}
networkPolicy: {enabled: true}
suspend: {enabled: true, runtimeClassName: nvidia, caConfigMap: fairway-ca}
aggregateRoles: false
autoscale: {by: provisioning-requests, max: 16, labels: {pool: gpu}}
podDisruptionBudget: {enabled: false}
priorityClassName: system-cluster-critical
imagePullSecrets: [{name: registry}]
nodeSelector: {role: infra}
tolerations: [{key: infra, operator: Exists}]
podLabels: {team: platform}
podAnnotations: {note: x}
`
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := render(chartFolder, values, "other")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"policy: \"tiresias\"", "secretName: fairway-tls", "cert: /etc/fairway/tls/tls.crt", "rendezvous: ip", "url: https://fairway.example",
		"kind: ServiceMonitor", "release: prom", "path: /metrics/fairway", "kind: NetworkPolicy", "priorityClassName: system-cluster-critical",
		"name: registry", "role: infra", "key: infra", "team: platform", "note: x", "namespace: other",
		"kind: DaemonSet", "hostPID: true", "add: [SYS_PTRACE]", "namespace: fairway-nodes", "runtimeClassName: nvidia", "--operator=https://fairway.other.svc:8461",
		"address: :8461", "{name: nodes, containerPort: 8461}", "--ca=/etc/fairway/ca/ca.crt", "\"title\": \"Fairway",
		"by: provisioning-requests", "resources: [provisioningrequests]",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in what the chart makes", want)
		}
	}
	for _, unwanted := range []string{"PodDisruptionBudget", "aggregate-to-edit", "namespace: fairway-system"} {
		if strings.Contains(string(out), unwanted) {
			t.Errorf("%q is in what the chart makes", unwanted)
		}
	}
}

// TestV01Values: the chart renders with the values of version 0.1 alone, which is what "helm
// upgrade --reuse-values" gives it.
func TestV01Values(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("{suspend: null, autoscale: null, networkPolicy: {enabled: true}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := render(chartFolder, values, "fairway-system")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "kind: NetworkPolicy") || strings.Contains(string(out), "DaemonSet") {
		t.Error("it has no NetworkPolicy, or agents of nodes; want only what 0.1 had")
	}
}

func TestDashboardIsTheSame(t *testing.T) {
	ours, err := os.ReadFile("../../deploy/grafana/fairway.json")
	if err != nil {
		t.Fatal(err)
	}
	charts, err := os.ReadFile(chartFolder + "/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(ours, charts) {
		t.Error("deploy/chart/files/dashboard.json is not deploy/grafana/fairway.json; copy it")
	}
}
