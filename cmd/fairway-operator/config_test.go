// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fairway-gpu/fairway/daemon/strictyaml"
)

// TestConfigFileSaysTheDefaults: what "config default" prints is what applies
// without a file.
func TestConfigFileSaysTheDefaults(t *testing.T) {
	var got config
	if err := strictyaml.Unmarshal([]byte(defaultConfigText), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(defaultConfig(), got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("operator.yaml differs from the defaults (-defaults +file):\n%s", d)
	}
	if err := got.validate(); err != nil {
		t.Error(err)
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for text, want := range map[string]string{
		"polcy: fifo":                      "polcy",
		"policy: fifoo":                    "fifo",
		"policy: optimus":                  "policy optimus plans with true run times",
		"notice: 2h":                       "notice = 2h",
		"otel: {endpoint: collector}":      "otel.endpoint = collector",
		"price: {gpu_hour: -1}":            "price.gpu_hour = -1",
		"api: {cert: /a}":                  "api.cert",
		"api: {address: '8460'}":           "api.address = 8460",
		"leader: {renew: 20s}":             "leader.renew = 20s",
		"leader: {retry: 9s}":              "leader.retry = 9s",
		"leader: {lease: 3.9s, renew: 3s}": "leader.renew = 3s; want 1s to 2.999s",
		"client: {rate: 10, burst: 5}":     "burst 5",
		"pods: {rendezvous: mdns}":         "pods.rendezvous = mdns",
		"keep: {compact: 3}":               "compact 3",
		"keep: {queue_bytes: 512KiB}":      "keep.queue_bytes = 512KiB",
		"log: {level: loud}":               "log.level = loud",
		"guard: {margin: 0.5}":             "margin = 0.5",
		"bidders: {deadline: 1ms}":         "bidders.deadline",
		"screen: {time: 25h}":              "screen.time",
		"nodes: {resource: [nvidia/gpu]}":  "resource",
		"nodes: {grace: 0s}":               "nodes.grace = 0s",
		"nodes: {levels: [{name: zone}]}":  "nodes.levels[0].label",
		"nodes: {levels: [{name: a, label: x/y}, {name: a, label: x/z}]}":   `level "a" twice`,
		"nodes: {levels: [{name: machine, label: kubernetes.io/hostname}]}": `level "machine"`,
		"nodes: {levels: [{name: rack, label: x/rack}]}":                    "rack_labels name it",
		"metrics: ':1'\nmetrics: ':2'":                                      "2:1: metrics is set twice",
		"pods: {start_grace: 5}":                                            "duration",
		"pods: {lost_after: 0s}":                                            "pods.lost_after = 0s",
		"pods: {parallel: 0}":                                               "pods.parallel = 0",
		"suspend: {address: '8461'}":                                        "suspend.address = 8461",
		"autoscale: {by: magic}":                                            "autoscale.by = magic",
		"autoscale: {by: pods, labels: {a: b}}":                             "autoscale.max = 0",
		"autoscale: {by: pods, max: 2}":                                     "autoscale.labels = {}",
		"autoscale: {by: pods, max: 2, labels: {a b: c}}":                   "autoscale.labels",
		"autoscale: {by: pods, max: 2, labels: {a: b}, rule: luck}":         `autoscale.rule = "luck"`,
		"autoscale: {by: pods, max: 2, labels: {a: b}, min: 3}":             "autoscale.min = 3",
		"pprof: ':6060'":                                                    "pprof = :6060",
		"pprof: 10.0.0.1:6060":                                              "127.0.0.1",
		"api: {address: ':1', kee: /file}":                                  "kee",
	} {
		c := defaultConfig()
		err := strictyaml.Unmarshal([]byte(text), &c)
		if err == nil {
			err = c.validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want one with %q", text, err, want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(defaultConfigText))
	f.Add([]byte("policy: fifo@screen\nleader: {lease: 1h}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := defaultConfig()
		if strictyaml.Unmarshal(text, &c) == nil && c.validate() == nil && c.url("x") == "" {
			t.Error("an API without an address was accepted")
		}
	})
}

func TestURL(t *testing.T) {
	c := defaultConfig()
	for _, x := range []struct{ cert, url, want string }{
		{"", "", "http://fairway.ns.svc:8460"},
		{"/tls/tls.crt", "", "https://fairway.ns.svc:8460"},
		{"", "http://10.0.0.1:1", "http://10.0.0.1:1"},
	} {
		c.API.Cert, c.API.URL = x.cert, x.url
		if got := c.url("ns"); got != x.want {
			t.Errorf("cert %q, url %q: got %s; want %s", x.cert, x.url, got, x.want)
		}
	}
}
