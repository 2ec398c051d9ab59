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

func parseConfig(text []byte, c *daemonConfig) error {
	if err := strictyaml.Unmarshal(text, c); err != nil {
		return err
	}
	return c.validate()
}

// TestConfigFileSaysTheDefaults: what "fairway config default" prints is what
// applies without a file.
func TestConfigFileSaysTheDefaults(t *testing.T) {
	got := daemonConfig{Data: defaultDataDir()} // the only default that is not in the file
	if err := parseConfig([]byte(defaultConfigText()), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(defaultConfig(), got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("fairway.yaml differs from the defaults (-defaults +file):\n%s", d)
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for text, want := range map[string]string{
		"polcy: fifo":                            `1:1: unknown field "polcy"; did you mean "policy"?`,
		"policy: fifoo":                          "fifo",
		"policy: optimus":                        "policy optimus plans with true run times",
		"notice: 30":                             `notice duration "30"`,
		"notice: 2h":                             "notice = 2h",
		"slots: 65":                              "slots = 65",
		"data: here":                             "data = here",
		"socket: {mode: '999'}":                  "socket.mode",
		"socket: {path: s}":                      "socket.path",
		"listen: {cert: /a}":                     "listen.cert",
		"guard: {margin: 0.5}":                   "margin = 0.5",
		"keep: {log: 64MB}":                      "size",
		"keep: {compact: 3}":                     "compact 3",
		"log: {level: loud}":                     "log.level = loud",
		"tenants: [{id: a}, {id: b, quota: -1}]": "tenants[1]: tenant b: quota = -1",
		"a: [":                                   "line",
		"slots: 1\nslots: 2":                     "2:1: slots is set twice",
	} {
		c := defaultConfig()
		err := parseConfig([]byte(text), &c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want one with %q", text, err, want)
		}
	}
}

func TestSizeText(t *testing.T) {
	for text, want := range map[string]sizeText{"0": 0, "512": 512, "64KiB": 64 << 10, "3GiB": 3 << 30} {
		var got sizeText
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s = %d, %v; want %d", text, got, err, want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(defaultConfigText()))
	f.Add([]byte("policy: pollux:interval=5s\nkeep: {journal: 1TiB}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := defaultConfig()
		if err := parseConfig(text, &c); err == nil {
			if err := c.validate(); err != nil {
				t.Errorf("accepted, but not valid: %v", err)
			}
		}
	})
}
