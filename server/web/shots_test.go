// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/fairway-gpu/fairway/api"
)

var shots = flag.String("shots", "", "folder for pictures of all pages; empty: of some, into a temporary one")

type page struct{ name, hash, words, script string }

// pictured is every page, words that show that it is drawn, and what is done
// to it before the picture.
var pictured = []page{
	{"overview", "#/", "bert-finetune", ""},
	{"card", "#/", "bert-finetune", "document.querySelector('#gpu-1-6').focus()"},
	{"jobs", "#/jobs", "with-a-bug", ""},
	{"job", "#/jobs/j-0003", "Given and taken", ""},
	{"compare", "#/jobs/j-0003?compare=j-0004&smooth=0.8&y=log", "sweep", ""},
	{"crosshair", "#/jobs/j-0003?x=time", "Efficiency", "document.querySelector('.chart svg').focus(); document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}))"},
	{"dialog", "#/jobs/j-0003", "Pause", "document.querySelector('#do-cancel').click()"},
	{"waiting", "#/jobs/j-0011", "Expected start", "document.querySelector('dialog')?.close()"},
	{"failed", "#/jobs/j-0002", "not retried: the program has a bug", ""},
	{"apps", "#/jobs?by=app", "lr-sweep", ""},
	{"search", "#/apps/lr-sweep", "stopped early at rung", ""},
	{"fairness", "#/fairness", "robotics", ""},
	{"cluster", "#/cluster", "3 jobs of 2 users failed on it", ""},
	{"events", "#/events", "attempt-ended", ""},
	{"policy", "#/policy", "gandiva", ""},
	{"submit", "#/submit", "Check", ""},
	{"dry-run", "#/policy", "gandiva", "document.querySelector('.policies button').click()"},
}

// scene is a world and the pages to look at.
type scene struct {
	name  string
	fill  func(*fake)
	pages []page
}

// scenes are the worlds beside the rich one; they are only for people to look at.
func scenes() []scene {
	lists := []page{{"overview", "#/", "Running", ""}, {"jobs", "#/jobs", "Jobs", ""}, {"cluster", "#/cluster", "Who holds what", ""}, {"fairness", "#/fairness", "Fairness", ""}}
	return []scene{
		{"empty", func(*fake) {}, lists},
		{"one", func(f *fake) {
			f.nodes = []api.Node{node("box", 4, "h200")}
			f.jobs = []api.Job{running("j-1", "first", 1)}
			f.jobs[0].Agent, f.jobs[0].Last, f.jobs[0].Work, f.jobs[0].Left = false, nil, 0, 0
			f.hold(&f.jobs[0], 0, 0, 1, 1000)
			f.explains["j-1"] = api.Explanation{AllGPUs: 4, FreeGPUs: 3, Ledger: []api.Entry{{At: f.jobs[0].Status.Since, Verb: "start", To: 1, Why: "starts on box[0]"}}}
		}, append(lists, page{"job", "#/jobs/j-1", "Given and taken", ""})},
		{"large", largeModels, []page{{"planned", "#/jobs/j-1", "node b frees at 14:10", ""}, {"roles", "#/jobs/j-2", "rollout", "document.querySelectorAll('details').forEach((d) => { d.open = true })"}, {"overview", "#/", "post-train", ""}}},
		{"500-jobs", func(f *fake) { largeWorld(f, 16, 500) }, lists},
		{"1000-nodes", func(f *fake) { largeWorld(f, 1000, 3000) }, lists},
		{"errors", func(f *fake) { richWorld(f); f.broken = "/v1/" }, []page{{"overview", "#/", "the disk is full", ""}, {"job", "#/jobs/j-0003", "the disk is full", ""}, {"cluster", "#/cluster", "the disk is full", ""}}},
	}
}

// largeModels is a world of a job with execution plans, and one with roles.
func largeModels(f *fake) {
	f.nodes = []api.Node{node("a", 4, "h200"), node("b", 4, "h200")}
	f.jobs = []api.Job{running("j-1", "gpt", 4), running("j-2", "post-train", 4)}
	gpt, rl := &f.jobs[0], &f.jobs[1]
	f.hold(gpt, 0, 0, 2, 1000)
	f.hold(gpt, 1, 0, 2, 1000)
	f.hold(rl, 1, 2, 2, 1000)
	rl.Command, rl.HeldRoles = nil, []int{1, 1}
	rl.Roles = []api.JobRole{
		{Name: "trainer", GPUs: 1, Command: []string{"python3", "train.py"}},
		{Name: "rollout", GPUs: 1, MaxGPUs: 6, Command: []string{"python3", "rollout.py", "--model", "/data/my model"}},
	}
	f.explains["j-1"] = api.Explanation{AllGPUs: 8, FreeGPUs: 2, Plans: "fsdp4, 1.52 s a step (measured), 31 % of it with exchanges under way, 12 % of it waiting for them; " +
		"fsdp2-tp2 would be 4 % slower (measured); tp4 would be 12 % faster (predicted) but needs 4 GPUs on one node; node b frees at 14:10"}
	f.explains["j-2"] = api.Explanation{AllGPUs: 8, FreeGPUs: 2}
}

// look is a screen.
type look struct {
	name, scheme string
	width        int64
}

// testPictures takes pictures of the pages, light and dark, on large and small screens, for
// a person to look at, and checks what a program can.
func testPictures(t *testing.T, w window) {
	all := []scene{{"", func(f *fake) { richWorld(f); f.overview.Problem = "the journal's disk has 300 MB left" }, pictured}}
	dir := *shots
	if dir == "" {
		dir = t.TempDir()
	} else {
		all = append(all, scenes()...)
	}
	for _, s := range all {
		f := newFake()
		s.fill(f)
		f.open(t)
		p := w.open(t, f)
		p.start("/")
		looks := []look{{"light", "light", 1440}, {"dark", "dark", 1440}, {"tablet", "light", 1024}, {"phone", "dark", 390}}
		if *shots != "" {
			looks = append(looks, look{"tablet-dark", "dark", 1024}, look{"phone-light", "light", 390})
		}
		for _, look := range looks {
			p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}),
				chromedp.EmulateViewport(look.width, 800))
			for _, page := range s.pages {
				p.visit(page.hash)
				p.shows(page.words)
				p.until("all panels", "!document.querySelector('[aria-busy=true]')")
				eval[bool](p, page.script+"; true")
				p.sound()
				if *shots == "" && page.name != "overview" && page.name != "job" {
					continue
				}
				var png []byte
				p.do(chromedp.FullScreenshot(&png, 100))
				if err := os.WriteFile(filepath.Join(dir, strings.TrimPrefix(s.name+"-", "-")+look.name+"-"+page.name+".png"), png, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.silent()
	}
}
