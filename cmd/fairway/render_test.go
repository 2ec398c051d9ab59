// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/golden from what the commands print")

// noon is the time in all pictures.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", path, diff)
	}
}

func runningJob() api.Job {
	loss := 0.4213
	return api.Job{
		Spec: sched.Spec{ID: "resnet-7", App: "resnet-7", Tenant: "vision", User: "ann", Submitted: ago(40 * time.Minute), GPUs: 1, MinGPUs: 1, MaxGPUs: 8, Priority: 5, Work: 10000},
		Task: api.Task{Name: "ResNet", Command: []string{"python3", "train.py"}, Retries: 2},
		Status: sched.Status{
			Seq: 3, Phase: sched.Running, Since: ago(12 * time.Minute), Starts: 2, Preemptions: 1, Failures: 1, Ran: sched.Duration(15 * time.Minute),
			Waited: sched.Duration(13 * time.Minute), Done: 4200, Rate: 12.34, Checkpoint: ago(2 * time.Minute), CheckpointedWork: 4100,
		},
		State: api.Running, Held: []api.Held{{Node: "gpu-1", GPUs: []int{0, 1, 2, 6}, Milli: 1000}},
		Rho: 1.31, FairShare: 2.7, Left: 470, Agent: true,
		Last: &api.Point{Done: 4200, Batch: 512, LR: 0.05, Efficiency: 0.83, Goodput: 1890, Throughput: 2277, Loss: &loss},
	}
}

func waitingJob() api.Job {
	return api.Job{
		Spec:   sched.Spec{ID: "bert-9", App: "sweep", Tenant: "text", User: "bob", Submitted: ago(7 * time.Minute), GPUs: 8, GPUTypes: []sched.GPUType{"h200", "a100"}, MaxSpread: sched.SameMachine, Estimate: sched.Duration(3 * time.Hour)},
		Task:   api.Task{Command: []string{"python3", "bert.py"}},
		Status: sched.Status{Seq: 5, Since: ago(7 * time.Minute)},
		State:  api.Waiting, FairShare: 2.7, Rho: 1.02, Left: 10800,
		Reason: &api.Reason{Code: "full", Text: "needs 8 GPUs; 3 are free in the cluster", Until: noon.Add(8 * time.Minute), Earliest: noon.Add(4 * time.Minute), Latest: noon.Add(31 * time.Minute)},
	}
}

func failedJob() api.Job {
	return api.Job{
		Spec:   sched.Spec{ID: "bug-2", Tenant: "vision", User: "eve", Submitted: ago(50 * time.Hour), GPUs: 1, MilliGPU: 500},
		Status: sched.Status{Seq: 1, Phase: sched.Failed, Starts: 1, Ran: sched.Duration(90 * time.Second), Waited: sched.Duration(time.Second), Failures: 1},
		State:  api.Failed, Ended: ago(49 * time.Hour),
		Exit: &api.Exit{
			Code: 1, Why: "KeyError: 'lable'\x1b[2J\u202e", Next: "not retried: the program has a bug: correct it",
			Finding: &diagnose.Finding{
				Reason: "program-bug", Text: "the program has a bug", Category: diagnose.User, Confidence: 0.95,
				Evidence: &diagnose.Evidence{Source: diagnose.FromLog, Log: "rank-0.log", Line: 12, Text: "KeyError: 'lable'"},
				Retry:    diagnose.Rule{Say: "correct the program"},
			},
		},
	}
}

func pausedJob() api.Job {
	return api.Job{
		Spec: sched.Spec{ID: "vit-4", Tenant: "vision", Submitted: ago(3 * time.Hour), GPUs: 2}, State: api.Paused, PausedBy: "ann",
		Status: sched.Status{Seq: 2, Since: ago(time.Hour), Starts: 1, Ran: sched.Duration(2 * time.Hour)},
		Reason: &api.Reason{Code: "paused", Text: "paused by ann; resume it with `fairway resume vit-4`"},
	}
}

func TestPrintJobs(t *testing.T) {
	page := api.JobPage{Jobs: []api.Job{runningJob(), pausedJob(), waitingJob(), failedJob()}, Total: 9}
	for _, width := range []int{0, 80} {
		var b bytes.Buffer
		printJobs(&b, page, view{noon, width})
		golden(t, fmt.Sprintf("ps-%d", width), b.String())
	}
	screened := runningJob()
	screened.Status.Screening = true
	page.Jobs = append(page.Jobs, screened)
	var b bytes.Buffer
	printWide(&b, page, noon)
	golden(t, "ps-wide", b.String())
}

func TestPrintExplanation(t *testing.T) {
	ledger := []api.Entry{
		{At: ago(39 * time.Minute), Verb: "start", To: 2, Why: "2 GPUs are free"},
		{At: ago(30 * time.Minute), Verb: "preempt", From: 2, Why: "makes room for bert-3, which has had less", Lost: 37, LostS: 12.4, Away: 1080},
		{At: ago(12 * time.Minute), Verb: "start", To: 4, Why: "its turn"},
	}
	many := make([]api.Entry, 0, 40)
	for i := range 40 {
		many = append(many, api.Entry{At: ago(time.Duration(40-i) * time.Hour), Verb: "move", From: i, To: i + 1})
	}
	for name, e := range map[string]api.Explanation{
		"running": {
			Job: runningJob(), Now: noon, Policy: "pollux", Summary: "It runs on 4 GPUs of gpu-1 since 12 min; its fair share is 2.7 GPUs.", FreeGPUs: 3, AllGPUs: 8,
			Larger: "8 GPUs would make it 1.02 times as fast by its agent's model, which is not worth a restart",
			Ledger: ledger, Price: api.LedgerTotal{Preemptions: 1, LostS: 12.4, AwayS: 1080},
		},
		"waiting": {
			Job: waitingJob(), Now: noon, Policy: "las:lease=10m", Summary: "It waits since 7 min: needs 8 GPUs; 3 are free.", Ahead: 1, FreeGPUs: 3, AllGPUs: 8,
			Order: "GPU time so far, then submission",
			Before: []api.Rival{
				{Job: "resnet-7", Tenant: "vision", GPUs: 4, Why: "runs and is protected: it has not shown that it can save its work"},
				{Job: "gpt-9", Tenant: "nlp", Why: "has had 10m00s of GPU time, less than 31m00s"},
			},
			Holders: []api.Share{{Job: "resnet-7", Tenant: "vision", GPUs: 4, Left: 470}, {Job: "(other tenant)", GPUs: 1}},
		},
		"paused": {Job: pausedJob(), Now: noon, Policy: "fifo", Summary: "It is paused by ann.", AllGPUs: 8, FreeGPUs: 8},
		"failed": {Job: failedJob(), Now: noon, Policy: "fifo", Summary: "It failed: rank 0 exited with code 1: KeyError: 'lable'\x1b[2J.", Ledger: many, Price: api.LedgerTotal{Moves: 40}},
	} {
		var b bytes.Buffer
		printExplanation(&b, e, view{noon, 100})
		golden(t, "explain-"+name, b.String())
		if lines := strings.Count(b.String(), "\n"); lines > 30 {
			t.Errorf("explain %s has %d lines; want one screen", name, lines)
		}
	}
}

// TestOneReasonForSize: a job that keeps its GPUs says why in one row.
func TestOneReasonForSize(t *testing.T) {
	for _, c := range []struct {
		name       string
		edit       func(*api.Job)
		kept, size int // rows
	}{
		{"may be resized", func(*api.Job) {}, 0, 1},
		{"plain", func(j *api.Job) { j.Protected, j.Status.Can = true, sched.Unproven }, 1, 0},
		{"saves, but does not resize", func(j *api.Job) { j.Protected, j.Status.Can = true, sched.Saves }, 0, 1},
		{"saves fail", func(j *api.Job) { j.Protected, j.Status.Can, j.Status.SaveFailed = true, sched.Resizes, true }, 1, 0},
		{"non-preemptible", func(j *api.Job) { j.NonPreemptible = true }, 1, 0},
	} {
		j := runningJob()
		j.MinGPUs, j.MaxGPUs = 1, 8
		c.edit(&j)
		var b bytes.Buffer
		printExplanation(&b, api.Explanation{Job: j, Now: noon, Larger: "a reason"}, view{noon, 100})
		if kept, size := strings.Count(b.String(), "\n  preemption "), strings.Count(b.String(), "\n  no more GPUs "); kept != c.kept || size != c.size {
			t.Errorf("%s: %d rows on preemption, %d on its size; want %d and %d:\n%s", c.name, kept, size, c.kept, c.size, b.String())
		}
	}
}

func topPicture(gpus int) picture {
	p := picture{
		overview: api.Overview{Now: noon, Policy: "pollux", GPUs: gpus, Held: 5, Running: 1, Waiting: 1, Paused: 1},
		jobs:     api.JobPage{Jobs: []api.Job{runningJob(), pausedJob(), waitingJob()}, Total: 3},
	}
	n := api.Node{Node: sched.Node{Name: "gpu-1", GPUs: gpus, Type: "h200"}, Up: true}
	for i := range gpus {
		s := api.GPUSlot{Index: i}
		switch {
		case i < 3 || i == 6:
			s.Jobs, s.Use = []sched.JobID{"resnet-7"}, &api.GPUUse{Util: 0.2 + 0.2*float64(i%4)}
		case i == 4:
			s.Jobs = []sched.JobID{"a-job-with-a-very-long-name-12"}
		case i == 5:
			s.Use = &api.GPUUse{Util: 0.03}
		}
		n.Slots = append(n.Slots, s)
	}
	p.nodes = []api.Node{n, {Node: sched.Node{Name: "gpu-2", GPUs: 1, Type: "t4", State: sched.Cordoned}, Up: true, Slots: []api.GPUSlot{{}}}}
	return p
}

func TestPrintPreview(t *testing.T) {
	var b bytes.Buffer
	printPreview(&b, api.Preview{
		Size: api.SizePreview{GPUs: 8, Reason: waitingJob().Reason},
		Sooner: []api.SizePreview{
			{GPUs: 4, Reason: &api.Reason{Code: "full", Until: noon.Add(4 * time.Minute)}},
			{GPUs: 2, Starts: true, Victims: []api.Victim{{Job: "resnet-7"}}},
		},
		RunTime: &api.RunTime{Expected: sched.Duration(3 * time.Hour), Basis: "similar", Jobs: 12},
	}, noon)
	rough := *waitingJob().Reason
	rough.Rough = "10000 jobs wait or run"
	printPreview(&b, api.Preview{Size: api.SizePreview{GPUs: 8, Reason: &rough}, Cut: "not all smaller sizes were tried"}, noon)
	printPreview(&b, api.Preview{Size: api.SizePreview{GPUs: 4, Starts: true, Victims: []api.Victim{
		{Job: "resnet-7", GPUs: 4, LostS: 120}, {Job: "(other tenant)", GPUs: 2, To: 1, LostS: 1},
	}}}, noon)
	printPreview(&b, api.Preview{Size: api.SizePreview{GPUs: 9, Reason: &api.Reason{Code: "impossible", Text: "needs 9 GPUs; this cluster has at most 8"}}}, noon)
	golden(t, "preview", b.String())
}

// TestScreeningOnlyWhereItHappens: a job that would be screened is not said to be
// under a policy that screens nobody.
func TestScreeningOnlyWhereItHappens(t *testing.T) {
	j := waitingJob()
	j.Spec.Screen = sched.Duration(5 * time.Minute)
	for policy, want := range map[string]bool{"fifo": false, "las:lease=10m": false, "fifo@screen": true, "fifo@screen:pool=2": true} {
		var b bytes.Buffer
		printExplanation(&b, api.Explanation{Job: j, Now: noon, Policy: policy}, view{noon, 100})
		if got := strings.Contains(strings.ReplaceAll(b.String(), "@screen", ""), "screen"); got != want {
			t.Errorf("under %s it prints\n%s\nspeaks of screening: %t; want %t", policy, &b, got, want)
		}
	}
}

// TestPriceOfFailures: what a failure cost is not told as the price of a preemption.
func TestPriceOfFailures(t *testing.T) {
	e := api.Explanation{
		Job: runningJob(), Now: noon, Price: api.LedgerTotal{Preemptions: 1, LostS: 442, AwayS: 19},
		Ledger: []api.Entry{
			{At: ago(3 * time.Minute), Verb: "fail", From: 8, LostS: 187, Away: 5},
			{At: ago(2 * time.Minute), Verb: "preempt", From: 8, LostS: 255, Away: 14},
		},
	}
	var b bytes.Buffer
	printLedger(&b, e, view{noon, 0})
	if want := "1 preemption and 0 moves cost 255 GPU-seconds of lost work and 14s away from training."; !strings.Contains(b.String(), want) {
		t.Errorf("it prints\n%s\nwant %q", &b, want)
	}
}

func TestTopFrame(t *testing.T) {
	for _, c := range []struct {
		name   string
		p      picture
		screen screen
	}{
		{"top-80", topPicture(8), screen{width: 80}},
		{"top-120", topPicture(8), screen{width: 120}},
		{"top-dense", topPicture(64), screen{width: 80}},
		{"top-scrolled", topPicture(8), screen{width: 80, height: 10, scroll: 7}},
		{"top-empty", picture{overview: api.Overview{Now: noon, Policy: "fifo", Problem: "the disk is full"}, fault: "no daemon answers"}, screen{width: 60, height: 12}},
	} {
		lines, _ := frame(c.p, c.screen)
		golden(t, c.name, strings.Join(lines, "\n")+"\n")
	}
}

// TestTopFits: at every size a frame fills the screen and no line is wider
// than it.
func TestTopFits(t *testing.T) {
	for _, gpus := range []int{0, 8, 64} {
		for width := 20; width < 140; width += 3 {
			for _, height := range []int{1, 2, 5, 24, 60} {
				for _, scroll := range []int{-3, 0, 5, 1000} {
					lines, most := frame(topPicture(gpus), screen{width: width, height: height, scroll: scroll})
					if want := max(height, 3); len(lines) != want || most < 0 { // header, one line, footer
						t.Fatalf("%d GPUs, %dx%d, scrolled %d: %d lines, scrolls to %d; want %d lines", gpus, width, height, scroll, len(lines), most, want)
					}
					for _, line := range lines {
						if n := textWidth(line); n > width {
							t.Fatalf("%d GPUs, %dx%d: a line of %d columns: %q", gpus, width, height, n, line)
						}
					}
				}
			}
		}
	}
}

func TestTopColour(t *testing.T) {
	plain, _ := frame(topPicture(8), screen{width: 100})
	coloured, _ := frame(topPicture(8), screen{width: 100, colour: true})
	if strings.Contains(strings.Join(plain, ""), "\x1b") || !strings.Contains(strings.Join(coloured, ""), "\x1b["+jobColour("resnet-7")+"m") {
		t.Error("want colours where they were asked for, and only there")
	}
}

func TestTopKeys(t *testing.T) {
	keys := splitKeys("j\x1b[A\x1b[5~k\x1bOBq\x1b")
	if diff := cmp.Diff([]string{"j", "\x1b[A", "\x1b[5~", "k", "\x1bOB", "q", "\x1b"}, keys); diff != "" {
		t.Error(diff)
	}
	l := &topLoop{most: 20, page: 8}
	for _, c := range []struct {
		key    string
		scroll int
		quit   bool
	}{
		{"\x1b[A", 0, false}, {"\x1b[B", 1, false}, {"j", 2, false}, {"k", 1, false}, {"\x1b[6~", 9, false}, {" ", 17, false},
		{" ", 20, false}, {"g", 0, false}, {"G", 20, false}, {"x", 20, false}, {"q", 20, true}, {"\x03", 20, true},
	} {
		if quit := l.press(c.key); quit != c.quit || l.scroll != c.scroll {
			t.Errorf("key %q: scrolled to %d, quit %v; want %d, %v", c.key, l.scroll, quit, c.scroll, c.quit)
		}
	}
}

func TestPrintCluster(t *testing.T) {
	nodes := topPicture(8).nodes
	nodes[0].Memory, nodes[0].CPUs, nodes[0].Rack = 2<<40, 192, "r1"
	nodes[0].Warm = &api.Warm{Ready: 1, Most: 4, Memory: 225 << 20}
	nodes[0].Slots[0].Use = &api.GPUUse{Util: 0.91, MemoryUsed: 70 << 30, MemoryTotal: 141 << 30, PowerW: 655, TempC: 61, Processes: []api.GPUProcess{{PID: 7, Job: "resnet-7"}, {PID: 8}}}
	change := api.PolicyChange{From: "las", To: "pollux", DryRun: true, Starts: 1, Stops: 2, Actions: []string{"stop a", "stop b", "start c on 4 GPUs"}}
	tenants := []api.TenantView{
		{Tenant: sched.Tenant{ID: "vision", Weight: 2, Quota: 4, Borrow: true, Max: 6}, GPUs: 4, Running: 1, Share: 5.3, Rho: 1.31, GPUTime: 36000},
		{Tenant: sched.Tenant{ID: "faces", Parent: "vision", Quota: 2}, Path: "vision/faces", Standing: "vision/faces may have 2 of vision's 4"},
		{Tenant: sched.Tenant{ID: "text"}, Waiting: 1, Share: 2.7},
	}
	tokens := []api.Token{
		{ID: "tk-1", User: "ann", Tenant: "vision", Role: api.User, Created: ago(50 * time.Hour), Expires: noon.Add(48 * time.Hour), Name: "laptop"},
		{ID: "tk-2", User: "bob", Role: api.Admin, Created: ago(time.Hour), RunAs: "bob"},
		{ID: "tk-3", User: "eve", Role: api.Viewer, Created: ago(time.Hour), Revoked: true},
		{ID: "tk-4", User: "eve", Role: api.Viewer, Created: ago(2 * time.Hour), Expires: ago(time.Hour)},
	}
	records := []api.Record{
		{Seq: 1, At: ago(30 * time.Hour), Actor: "ann", Event: &sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "a-1"}}},
		{Seq: 2, At: ago(time.Hour), Actor: "scheduler", Event: &sched.Event{Kind: sched.JobStarted, Job: "a-1", Placement: sched.Placement{{Node: 0, GPUs: sched.FirstGPUs(4), Milli: 1000}}}},
		{Seq: 3, At: ago(time.Minute), Actor: "machine", Exit: &api.Exit{AttemptID: api.AttemptID{Job: "a-1", Number: 1}, Signal: "SIGKILL", Rank: 2, Why: "out of memory"}},
		{Seq: 4, At: ago(time.Second), Actor: "bob", Policy: "pollux", Text: "the policy was las"},
		{Seq: 5, At: noon, Event: &sched.Event{Kind: sched.JobReported, Job: "a-1", Done: 12.5}},
	}
	var b bytes.Buffer
	for _, part := range []struct {
		title string
		print func(io.Writer)
	}{
		{"status", func(w io.Writer) {
			printOverview(w, api.Overview{Version: "0.2", Now: noon, Started: ago(time.Hour), Policy: "las", GPUs: 8, Held: 4, Running: 1, Deliveries: []api.Delivery{
				{Target: "mail", Failed: 2}, {Target: "ops", Failed: 12, Lost: 1, Error: "the target answers 500 Internal Server Error"},
			}})
		}},
		{"status with tenants", func(w io.Writer) {
			printStatus(w, status{api.Overview{Now: noon, Started: ago(time.Hour), Policy: "las", GPUs: 16, Held: 11}, treeOf([]api.TenantView{
				{Tenant: sched.Tenant{ID: "faces", Parent: "vision", Quota: 2, Borrow: true}, Path: "lab/vision/faces", GPUs: 5, Share: 4, Borrowed: 3},
				{Tenant: sched.Tenant{ID: "lab", Quota: 8}, Below: 7},
				{Tenant: sched.Tenant{ID: "text"}, GPUs: 4, Share: 6},
				{Tenant: sched.Tenant{ID: "vision", Parent: "lab"}, Path: "lab/vision", GPUs: 2, Below: 5, Share: 2.5, Borrowed: 5},
				{Tenant: sched.Tenant{ID: "speech", Parent: "hidden"}, Path: "hidden/speech"},
			})})
		}},
		{"nodes", func(w io.Writer) { printNodes(w, nodes, 0) }},
		{"tenants", func(w io.Writer) { printTenants(w, tenants, 0) }},
		{"tokens", func(w io.Writer) { printTokens(w, tokens, view{noon, 0}) }},
		{"policy dry run", func(w io.Writer) { printChange(w, change) }},
		{"policy set", func(w io.Writer) { printChange(w, api.PolicyChange{From: "las", To: "pollux"}) }},
		{"apps", func(w io.Writer) {
			printApps(w, []api.AppView{{ID: "sweep", Tenant: "text", Submitted: ago(time.Hour), Jobs: 5, Running: 2, Waiting: 3, GPUs: 2, Rho: 1.2}}, view{noon, 0})
		}},
		{"events", func(w io.Writer) {
			for _, r := range records {
				fmt.Fprintln(w, recordLine(r, time.UTC))
			}
		}},
	} {
		fmt.Fprintf(&b, "## %s\n", part.title)
		part.print(&b)
		fmt.Fprintln(&b)
	}
	golden(t, "cluster", b.String())
}

func TestBrief(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0s"}, {0, "0s"}, {59*time.Second + 900*time.Millisecond, "59s"}, {60 * time.Second, "1m00s"}, {59*time.Minute + 59*time.Second, "59m59s"},
		{time.Hour, "1h00m"}, {47*time.Hour + 59*time.Minute, "47h59m"}, {48 * time.Hour, "2d00h"}, {100*24*time.Hour + 5*time.Hour, "100d05h"},
	} {
		if got := sched.Brief(c.d); got != c.want {
			t.Errorf("sched.Brief(%v) = %q; want %q", c.d, got, c.want)
		}
	}
}

func TestFitAndClean(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"abc", 0, ""}, {"東京都", 6, "東京都"}, {"東京都", 5, "東京…"}, {"東京都", 4, "東…"}, {"", 5, ""}} {
		got := fit(c.text, c.width)
		if got != c.want || textWidth(got) > c.width {
			t.Errorf("fit(%q, %d) = %q; want %q", c.text, c.width, got, c.want)
		}
	}
	if got := clean("a\x1b[31m\nb\u202ec\x00\x9bd\xff\te"); got != "a?[31m b?c??d? e" {
		t.Errorf("clean gave %q", got)
	}
}

func TestGridWraps(t *testing.T) {
	g := grid{wrap: true}
	g.add("key", "some words that go on and on "+strings.Repeat("x", 50)+" end")
	var b bytes.Buffer
	g.print(&b, "  ", 30)
	want := "  key  some words that go on\n       and on\n       xxxxxxxxxxxxxxxxxxxxxxx\n       xxxxxxxxxxxxxxxxxxxxxxx\n       xxxx end\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.New("x"), 1}, {usagef("x"), 2}, {api.Errorf(api.Denied, "x"), 1}, {fmt.Errorf("cancel: %w", api.Errorf(api.Unknown, "x")), 3},
		{outcome([]api.Job{failedJob()}), 4}, {outcome([]api.Job{{State: api.Finished}, {State: api.Cancelled}}), 4},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("exit code of %v is %d; want %d", c.err, got, c.want)
		}
	}
	if err := outcome([]api.Job{{State: api.Finished}}); err != nil {
		t.Errorf("a job that finished: %v", err)
	}
}

// TestDataDirOfRoot: the daemon of root does not keep its data where others cannot walk,
// unless they are there already.
func TestDataDirOfRoot(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, ".local", "state", "fairway")
	if got := dataDirOfRoot(dir, home); got != rootDataDir {
		t.Errorf("new: %s; want %s", got, rootDataDir)
	}
	if got := dataDirOfRoot(dir, "/root"); got != dir {
		t.Errorf("in the home of another: %s; want %s", got, dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, "journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := dataDirOfRoot(dir, home); got != dir {
		t.Errorf("with a journal in root's home: %s; want %s", got, dir)
	}
}

func TestDefaultPlace(t *testing.T) {
	t.Setenv(envAddress, "")
	t.Setenv(envData, "")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "/home/ann")
	if got, want := defaultAddress(), "unix:///home/ann/.local/state/fairway/fairway.sock"; got != want {
		t.Errorf("at home: %s; want %s", got, want)
	}
	t.Setenv("XDG_STATE_HOME", "/state")
	if got, want := defaultDataDir(), "/state/fairway"; got != want {
		t.Errorf("XDG_STATE_HOME: %s; want %s", got, want)
	}
	t.Setenv(envData, "/data")
	if got, want := defaultAddress(), "unix:///data/fairway.sock"; got != want {
		t.Errorf("%s: %s; want %s", envData, got, want)
	}
	dir := t.TempDir()
	if got := dataDirOf("unix://" + dir + "/fairway.sock"); got != "/data" {
		t.Errorf("beside a socket without a journal: %s; want /data", got)
	}
	if err := os.Mkdir(filepath.Join(dir, "journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := dataDirOf("unix://" + dir + "/fairway.sock"); got != dir {
		t.Errorf("beside a socket and its journal: %s; want %s", got, dir)
	}
	t.Setenv(envAddress, "https://gpu:8460")
	if got, want := defaultAddress(), "https://gpu:8460"; got != want {
		t.Errorf("%s: %s; want %s", envAddress, got, want)
	}
}
