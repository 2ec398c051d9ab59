// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "folder for pictures of all pages; empty: of some, into a temporary one")

// pictured is every page, words that show that it is drawn, and what is done
// to it before the picture.
var pictured = []struct{ name, hash, words, script string }{
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
	{"nodes", "#/nodes", "3 jobs of 2 users failed on it", ""},
	{"events", "#/events", "attempt-ended", ""},
	{"policy", "#/policy", "gandiva", ""},
	{"dry-run", "#/policy", "gandiva", "document.querySelector('.policies button').click()"},
}

// testPictures takes a picture of every page in light, dark and on a phone, for
// a person to look at, and checks what a program can.
func testPictures(t *testing.T, w window) {
	f := newFake()
	richWorld(f)
	f.overview.Problem = "the journal's disk has 300 MB left"
	f.open(t)
	p := w.open(t, f)
	p.start("/")
	dir := *shots
	if dir == "" {
		dir = t.TempDir()
	}
	for _, look := range []struct {
		name, scheme string
		width        int64
	}{{"light", "light", 1440}, {"dark", "dark", 1440}, {"tablet", "light", 1024}, {"phone", "dark", 390}} {
		p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}),
			chromedp.EmulateViewport(look.width, 800))
		for _, page := range pictured {
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
			if err := os.WriteFile(filepath.Join(dir, look.name+"-"+page.name+".png"), png, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.silent()
}
