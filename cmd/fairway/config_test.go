// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
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
		"warm: {most: 65}":                       "warm.most = 65",
		"keep: {compact: 3}":                     "keep.compact = 3",
		"log: {level: loud}":                     "log.level = loud",
		"tenants: [{id: a}, {id: b, quota: -1}]": "tenants[1]: tenant b: quota = -1",
		"tenants: [{id: a, parent: b}]":          "tenants: tenant a: parent = \"b\"; want a tenant that exists",
		"tenants: [{id: a, quota: 2}, {id: b, parent: a, quota: 3}]": "tenants: tenant a: quota = 2, and the quotas of its children are 3 together",
		"notify: {targets: [{name: a, kind: fax}]}":                  "notify.targets[0].kind = \"fax\"; want webhook, slack or mail",
		"a: [":               "1:1: ",
		"slots: 1\nslots: 2": "2:1: slots is set twice",
	} {
		c := defaultConfig()
		err := parseConfig([]byte(text), &c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want one with %q", text, err, want)
		}
	}
}

// TestConfigErrorsNameTheLine: "fairway config check" says where the mistake is, and what
// would be right, for every kind of mistake.
func TestConfigErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"# mine\n\nnotice: 2h":                                     ":3:1: notice = 2h; want 1s to 1h",
		"socket:\n  tenant: x\n  mode: '999'":                      ":3:3: socket.mode = 999; want an octal mode such as 0660",
		"keep:\n  jobs: 5\n  compact: 3":                           ":3:3: keep.compact = 3; want 100 or more",
		"guard:\n  margin: 0.5":                                    ":2:3: guard: margin = 0.5; want",
		"slots: 1\npolicy: fifoo":                                  `:2:1: policy: unknown policy "fifoo"; did you mean "fifo"?`,
		"tenants:\n- {id: a}\n- {id: b, quota: -1}":                ":3:11: tenants[1]: tenant b: quota = -1; want",
		"slots: 1\nlog: {levl: info}":                              `:2:7: unknown field "levl"; did you mean "level"?`,
		"slots: 1\n\tname: x":                                      ":2:1: found a tab character",
		"socket: {agents: /run/a, path: /run/a}":                   ":1:10: socket.agents = /run/a; want",
		"listen:\n  address: '*:8460'\n  cert: /etc/fairway/a.pem": ":3:3: listen.cert, listen.key",
	} {
		path := filepath.Join(t.TempDir(), "fairway.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readConfig(path); err == nil || !strings.Contains(err.Error(), path+want) {
			t.Errorf("%q: error %v; want one with %q", text, err, path+want)
		}
	}
}

func TestConfigWarnings(t *testing.T) {
	for address, want := range map[string]bool{
		"": false, "127.0.0.1:8460": false, "[::1]:8460": false, "localhost:8460": false,
		"0.0.0.0:8460": true, "[::]:8460": true, ":8460": true, "10.1.2.3:8460": true, "gpu-1:8460": true,
	} {
		c := defaultConfig()
		c.Listen.Address = address
		if got := c.Listen.warnings(); (len(got) > 0) != want {
			t.Errorf("%q: warnings %q; want some: %v", address, got, want)
		}
		c.Listen.Cert, c.Listen.Key = "/a", "/b"
		if got := c.Listen.warnings(); len(got) > 0 {
			t.Errorf("%q with TLS: warnings %q; want none", address, got)
		}
	}
}

func TestClosedFolders(t *testing.T) {
	top := t.TempDir()
	jobs, run := filepath.Join(top, "data", "jobs"), filepath.Join(top, "run")
	for _, dir := range []string{jobs, run} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	before := closedFolders(top) // whatever the test's own folders are
	if got := closedFolders(jobs, run, filepath.Join(run, "none")); !slices.Equal(got, before) {
		t.Errorf("open folders: %q are closed; want %q", got, before)
	}
	closed := filepath.Join(top, "data")
	if err := os.Chmod(closed, 0o750); err != nil {
		t.Fatal(err)
	}
	if got, want := closedFolders(jobs, run), append([]string{closed}, before...); !slices.Equal(got, want) {
		t.Errorf("%q are closed; want %q", got, want)
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
