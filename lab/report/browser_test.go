// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// shown is a page as a browser shows it.
type shown struct {
	body     string // the opening tag, where the script leaves its state
	drawn    string // the elements, without the data and the script
	overflow string // pixels that the page is too wide for its window
}

// hostScript copies each rendered page into the document that the browser prints.
const hostScript = `<script>
addEventListener('load', () => {
  for (const frame of document.querySelectorAll('iframe')) {
    const doc = frame.contentDocument, out = document.createElement('pre');
    out.dataset.overflow = doc.documentElement.scrollWidth - doc.documentElement.clientWidth;
    doc.querySelectorAll('script').forEach((s) => s.remove());
    out.textContent = doc.body.outerHTML;
    document.body.append(out);
    frame.remove();
  }
});
</script>`

var framed = regexp.MustCompile(`(?s)<pre data-overflow="(-?\d+)">(.*?)</pre>`)

// show opens all pages in one browser, each in a frame of the given width.
func show(t *testing.T, pages [][]byte, widths []int) []shown {
	t.Helper()
	var host strings.Builder
	host.WriteString("<!DOCTYPE html><body>" + hostScript)
	for i, page := range pages {
		fmt.Fprintf(&host, "<iframe width=%d height=2400 srcdoc=\"%s\"></iframe>\n", widths[i], html.EscapeString(string(page)))
	}
	var out []shown
	for _, m := range framed.FindAllStringSubmatch(dump(t, host.String()), -1) {
		dom := html.UnescapeString(m[2])
		body, drawn, _ := strings.Cut(dom, ">")
		out = append(out, shown{body: body, drawn: drawn, overflow: m[1]})
	}
	if len(out) != len(pages) {
		t.Fatalf("the browser showed %d pages; want %d", len(out), len(pages))
	}
	return out
}

// dump opens a page in a browser and returns the document as its script left
// it.
func dump(t *testing.T, page string) string {
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
	// Not t.TempDir: the browser may still write to its profile during the cleanup,
	// which must not fail the test.
	dir, err := os.MkdirTemp("", "fairway-report")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "report.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--window-size=1500,2400", "--enable-logging=stderr", "--v=0",
		"--dump-dom", "file://"+file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run %s: %v\n%s", browser, err, stderr.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("a page wrote to the console: %s", line)
		}
	}
	return string(out)
}

var (
	pathData = regexp.MustCompile(`<path class="(line|band)"[^>]* d="([^"]*)"`)
	// notText is what a script shows where a value is missing.
	notText = regexp.MustCompile(`NaN|Infinity|undefined|>null<|\[object`)
)

// browserCase is a page, and what it must show.
type browserCase struct {
	name  string
	page  []byte
	width int
	lines int // of all charts
	says  []string
}

func TestPagesInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes seconds to start")
	}
	t.Parallel()
	cases := append(simulationCases(t), statsCases(t)...)
	var pages [][]byte
	var widths []int
	for _, c := range cases {
		pages, widths = append(pages, c.page), append(widths, c.width)
	}
	all := show(t, pages, widths)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.check(t, &all[i]) })
	}
}

func (c *browserCase) check(t *testing.T, s *shown) {
	if !strings.Contains(s.body, `data-ready="1"`) || !strings.Contains(s.body, `data-errors="0"`) || strings.Contains(s.body, "hacked") {
		t.Fatalf("the page is not ready, or reports errors: %s>", s.body)
	}
	var lines int
	for _, m := range pathData.FindAllStringSubmatch(s.drawn, -1) {
		if m[1] == "line" {
			lines++
		}
		if len(m[2]) < 20 || notText.MatchString(m[2]) {
			t.Errorf("a path has no sound data: %.80q", m[2])
		}
	}
	if lines != c.lines {
		t.Errorf("%d lines in the charts; want %d", lines, c.lines)
	}
	if bad := notText.FindString(s.drawn); bad != "" {
		t.Errorf("the page shows %q", bad)
	}
	for _, text := range c.says {
		if !strings.Contains(s.drawn, text) {
			t.Errorf("the page does not say %q", text)
		}
	}
	if s.overflow != "0" {
		t.Errorf("the page is %s pixels wider than its window of %d", s.overflow, c.width)
	}
}

func simulationCases(t *testing.T) []browserCase {
	stuck := result("las", 25, 2)
	for i := range stuck.Jobs {
		j := &stuck.Jobs[i]
		j.Start, j.End, j.JCT, j.Rho, j.Runs = -1, -1, -1, 0, nil
	}
	four := write(t, result("fifo", 160, 1), result("srtf", 160, 2), result("las", 160, 3), result("themis", 160, 4))
	return []browserCase{
		{"four policies", four, 1400, 24,
			[]string{"Why jobs waited", "160 of 160 jobs shown", "64 GPUs on 8 nodes in 2 racks (h200)", "1152921504606846976"}},
		{"hostile names, many jobs", write(t, hostileResult(5000)), 1400, 6, []string{"3,000 of 5,000 jobs"}},
		{"nothing started", write(t, stuck, &sim.Result{}), 390, 3,
			[]string{"no job ended", "no job started", "no app ended", "25 of 25 jobs shown", "unnamed workload"}},
	}
}

func statsCases(t *testing.T) []browserCase {
	philly := writeStats(t, statistics(t, trace.KindPhilly, 4000))
	return []browserCase{
		// Four sizes with run times, three measures over time.
		{"workload", philly, 1400, 7, []string{
			"4,000", "Jobs and GPU time by size", "Virtual clusters", "vc01", "unsuccessful", "69.3 %", "44.5 %", // table 6
			"Utilisation of held GPUs", "52.3 %", "Failures", "CPU out of memory", "(paper: 2.3)", "30.4 %"}}, // tables 3 and 7
		{"workload on a phone", philly, 390, 7, nil},
		{"workload without run times", writeStats(t, statistics(t, trace.KindPollux, 200)), 390, 2, []string{
			"no run time is known", "no virtual clusters", "every job ends the same way", "does not record GPU utilisation", "no attempt fails"}},
		{"workload with hostile names", writeStats(t, hostileStats(t)), 800, 7, []string{
			"The first 40 of 500 virtual clusters", "The first 40 of 500 models", "The first 40 of 500 reasons"}},
		{"workload without jobs", writeStats(t, trace.Stats(&sim.Workload{})), 390, 0, []string{"the workload has no jobs"}},
		{"zero statistics with a job", writeStats(t, &trace.Statistics{Jobs: 1}), 1400, 0, []string{"nothing over time"}},
	}
}
