// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sim"
)

// dump opens a page in a browser and returns the document as its script left
// it.
func dump(t *testing.T, page []byte) string {
	t.Helper()
	var browser string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no Chromium or Chrome is installed")
	}
	// Not t.TempDir: the browser may still write to its profile when it is
	// gone, and that must not fail the test.
	dir, err := os.MkdirTemp("", "fairway-report")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "report.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--window-size=1400,2400", "--enable-logging=stderr", "--v=0",
		"--dump-dom", "file://"+file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run %s: %v\n%s", browser, err, stderr.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the page wrote to the console: %s", line)
		}
	}
	return string(out)
}

var (
	pathData = regexp.MustCompile(`<path class="(line|band)"[^>]* d="([^"]*)"`)
	svgValue = regexp.MustCompile(`(?:NaN|Infinity|undefined)`)
)

func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes seconds to start")
	}
	stuck := result("las", 25, 2)
	for i := range stuck.Jobs {
		j := &stuck.Jobs[i]
		j.Start, j.End, j.JCT, j.Rho, j.Runs = -1, -1, -1, 0, nil
	}
	for _, tc := range []struct {
		name  string
		runs  []*sim.Result
		lines int // in the six charts
		says  []string
	}{
		{"four policies", []*sim.Result{result("fifo", 160, 1), result("srtf", 160, 2), result("las", 160, 3), result("themis", 160, 4)}, 24,
			[]string{"Why jobs waited", "160 of 160 jobs shown", "64 GPUs on 8 nodes in 2 racks (h200)", "1152921504606846976"}},
		{"hostile names, many jobs", []*sim.Result{hostileResult(5000)}, 6, []string{"3,000 of 5,000 jobs"}},
		{"nothing started", []*sim.Result{stuck, {}}, 3, []string{"no job ended", "no job started", "no app ended", "25 of 25 jobs shown", "unnamed workload"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dom := dump(t, write(t, tc.runs...))
			body, _, _ := strings.Cut(dom[max(0, strings.Index(dom, "<body")):], ">")
			if !strings.Contains(body, `data-ready="1"`) || !strings.Contains(body, `data-errors="0"`) || strings.Contains(body, "hacked") {
				t.Fatalf("the page is not ready, or reports errors: %s>", body)
			}
			drawn, _, _ := strings.Cut(dom, `<script type="application/json"`)
			var lines int
			for _, m := range pathData.FindAllStringSubmatch(drawn, -1) {
				if m[1] == "line" {
					lines++
				}
				if len(m[2]) < 20 || svgValue.MatchString(m[2]) {
					t.Errorf("a path has no sound data: %.80q", m[2])
				}
			}
			if lines != tc.lines {
				t.Errorf("%d lines in the charts; want %d", lines, tc.lines)
			}
			if bad := svgValue.FindString(drawn); bad != "" {
				t.Errorf("the page shows %q", bad)
			}
			for _, text := range tc.says {
				if !strings.Contains(drawn, text) {
					t.Errorf("the page does not say %q", text)
				}
			}
		})
	}
}
