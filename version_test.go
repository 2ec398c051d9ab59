// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestVersion: the version is that of daemon/version.go wherever it has to be written
// down again.
func TestVersion(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	release := regexp.MustCompile(`(?m)^const Release = "(\d+\.\d+\.\d+)"$`).FindStringSubmatch(read("daemon/version.go"))
	if release == nil {
		t.Fatal("daemon/version.go has no line const Release = \"1.2.3\"; the Makefile reads it too")
	}
	image := `fairway:(\d+\.\d+\.\d+)`
	for _, c := range []struct {
		file, pattern string
		atLeast       int
	}{
		{"deploy/chart/Chart.yaml", `(?m)^version: (.*)$`, 1},
		{"deploy/chart/Chart.yaml", `(?m)^appVersion: (.*)$`, 1},
		{"deploy/manifests/fairway.yaml", image, 1},
		{"deploy/Dockerfile", image, 1},
		{"deploy/Dockerfile", `image\.version=(\S+)`, 1},
		{"docs/kubernetes/install.md", image, 2},
		{"docs/start/kubernetes.md", image, 3},
		{"python/src/fairway/__init__.py", `(?m)^__version__ = "(.*)"$`, 1},
		{"CHANGELOG.md", `(?s)\A# Changelog\n.*?\n## (\S+)`, 1},
	} {
		found := regexp.MustCompile(c.pattern).FindAllStringSubmatch(read(c.file), -1)
		if len(found) < c.atLeast {
			t.Errorf("%s: %d matches of %s; want %d", c.file, len(found), c.pattern, c.atLeast)
		}
		for _, m := range found {
			if m[1] != release[1] {
				t.Errorf("%s: %s matches %q; daemon/version.go has %q", c.file, c.pattern, m[1], release[1])
			}
		}
	}
}

// TestModulesAgree: the programs of all modules are compiled from the same versions, so that
// a first "make test" compiles the Kubernetes libraries once and not once for each module.
func TestModulesAgree(t *testing.T) {
	type use struct{ version, file string }
	first := map[string]use{}
	required := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)(?: // indirect)?$`)
	replaced := regexp.MustCompile(`(?m)^\t(\S+) => (\S+) (v\S+)$`)
	for _, file := range []string{"go.mod", "tools/controlplane/go.mod", "tools/chart/go.mod"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		versions := map[string]string{}
		for _, m := range required.FindAllStringSubmatch(string(text), -1) {
			versions[m[1]] = m[2]
		}
		for _, m := range replaced.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[2], m[1]) && versions[m[1]] != "" {
				versions[m[1]] = m[3]
			}
		}
		if len(versions) < 20 {
			t.Errorf("%s: %d modules found; is it written otherwise?", file, len(versions))
		}
		for module, version := range versions {
			if before, ok := first[module]; !ok {
				first[module] = use{version, file}
			} else if before.version != version {
				t.Errorf("%s has %s %s, and %s has %s: run \"go get %s@VERSION\" and \"go mod tidy\" where the older one is",
					file, module, version, before.file, before.version, module)
			}
		}
	}
}
