// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

// FuzzEnvFile: no file breaks the reader, and every name it returns stands in the file.
func FuzzEnvFile(f *testing.F) {
	for _, text := range []string{"A=1\n", "export B = 'x y'\n#c\n", "=\n", "PATH\n", "A=\"", "\x00=\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		env := map[string]string{}
		if parseEnvFile(text, env) != nil {
			return
		}
		for name := range env {
			if name == "" || !strings.Contains(text, name) {
				t.Errorf("%q is in no line of %q", name, text)
			}
		}
	})
}

func TestExplainEnv(t *testing.T) {
	for _, c := range []struct {
		task api.Task
		want string
	}{
		{api.Task{}, "that of the daemon"},
		{api.Task{Dir: "/x", Env: map[string]string{"PATH": "/bin"}}, "no virtual environment; PATH is that of the shell that submitted it, in /x"},
		{api.Task{Env: map[string]string{"PATH": "/c/bin:/v/bin", "VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c"}}, "conda environment /c"},
		{api.Task{Env: map[string]string{"PATH": "/v/bin/:/c/bin", "VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c", "B": "", "A": ""}}, "virtual environment /v; variables: A, B"},
		{api.Task{Env: map[string]string{"VIRTUAL_ENV": "/v"}}, "that of the daemon"}, // deactivated by hand: its programs are not found
		{api.Task{Image: "torch:2", Dir: "/x", Origin: "TrainingJob/a/b"}, "image torch:2, in /x"},
		{api.Task{Image: "torch:2", Dir: "/x"}, "image torch:2, in /x; in a container it starts cold, and changes its size by a restart"},
		{api.Task{Origin: "TrainingJob/a/b"}, "that of its pods"},
	} {
		if got := explainEnv(api.Job{Task: c.task}); got != c.want {
			t.Errorf("%q; want %q", got, c.want)
		}
	}
}

// TestShellStaysOutside: a job with an image gets what it asks for, and nothing else of the
// shell.
func TestShellStaysOutside(t *testing.T) {
	shell := shellEnv{base: map[string]string{"PATH": "/v/bin", "VIRTUAL_ENV": "/v"}, given: map[string]string{"LR": "1"}}
	for image, want := range map[string]int{"": 3, "torch:2": 1} {
		j := api.Submission{Task: api.Task{Image: image}}
		shell.put(&j)
		if len(j.Env) != want || j.Env["LR"] != "1" {
			t.Errorf("image %q: %v; want %d variables", image, j.Env, want)
		}
	}
}
