// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

func TestCommandLine(t *testing.T) {
	spaced := filepath.Join(t.TempDir(), "my program")
	if err := os.WriteFile(spaced, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want []string }{
		{[]string{"python3", "train.py", "a b"}, []string{"python3", "train.py", "a b"}},
		{[]string{"train"}, []string{"train"}},
		{[]string{"python3 train.py  --lr 0.1"}, []string{"python3", "train.py", "--lr", "0.1"}},
		{[]string{"cd x && python3 train.py"}, api.ShellCommand("cd x && python3 train.py")},
		{[]string{"cd x"}, api.ShellCommand("cd x")},
		{[]string{"SEED=1 python3 train.py"}, api.ShellCommand("SEED=1 python3 train.py")},
		{[]string{"echo $HOME"}, api.ShellCommand("echo $HOME")},
		{[]string{spaced}, []string{spaced}},
		{nil, nil},
	} {
		if got, err := commandLine(c.args); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v; want %q", c.args, got, err, c.want)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"cd", "x"}, `use --dir FOLDER, or quote the whole line: -- "cd x && ..."`},
		{[]string{"cd", "x", "&&", "python", "train.py"}, `use --dir FOLDER, or quote the whole line: -- "cd x && python train.py"`},
		{[]string{"source", "venv/bin/activate"}, `quote the whole line: -- "source venv/bin/activate && ..."`},
		{[]string{"SEED=1", "python3", "train.py"}, `set variables with -e SEED=1`},
	} {
		if got, err := commandLine(c.args); err == nil || !strings.Contains(err.Error(), c.want) || exitCode(err) != exitUsage {
			t.Errorf("%q: %q, %v; want %q", c.args, got, err, c.want)
		}
	}
}
