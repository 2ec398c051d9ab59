// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	repository "github.com/fairway-gpu/fairway"
)

// TestDemoIsCarried: the program has all that the demonstration needs, wherever it runs.
func TestDemoIsCarried(t *testing.T) {
	err := fs.WalkDir(os.DirFS("../.."), "python/src/fairway", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".py" {
			if _, err := fs.Stat(repository.Demo, path); err != nil {
				t.Errorf("%v; want all of the agent in embed.go", err)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	jobs, python, err := demoMix(root)
	if err != nil {
		t.Skip("NOT TESTED: ", err)
	}
	if len(jobs) != 7 {
		t.Errorf("the demo has %d jobs; want 7", len(jobs))
	}
	for _, j := range jobs {
		if j.Dir != root || !filepath.IsAbs(j.Command[0]) {
			t.Errorf("%s runs %q in %q; want %s in %s", j.Name, j.Command, j.Dir, python, root)
		}
		if _, err := os.Stat(filepath.Join(root, j.Command[1])); err != nil {
			t.Errorf("%s: %v", j.Name, err)
		}
	}
	// The trials finish by themselves; one with a single step shows that the agent is whole.
	run := exec.Command(jobs[2].Command[0], "-s", jobs[2].Command[1], "--steps", "1")
	run.Dir, run.Env = root, slices.Concat(os.Environ(), []string{"PYTHONPATH=" + jobs[2].Env["PYTHONPATH"]})
	if text, err := run.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", run, err, text)
	}
}
