// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"
)

// TestNameByScript: a job without a name gets that of its script, whoever submits it.
func TestNameByScript(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	for _, c := range []struct {
		job  Submission
		want string
	}{
		{Submission{Task: Task{Command: ShellCommand("cd x && python3 train.py --epochs 9")}}, "train"},
		{Submission{Run: "cd x\npython3 train.py"}, "train"},
		{Submission{Task: Task{Roles: []JobRole{{Name: "learner", GPUs: 1, Command: []string{"python3", "learn.py"}}}}}, "learn"},
		{Submission{Task: Task{Command: []string{"python3", "-m", "lab.eval"}}}, "eval"},
		{Submission{Task: Task{Command: []string{"./start"}}}, "start"},
		{Submission{Task: Task{Name: "mine", Command: []string{"./start"}}}, "mine"},
		{Submission{Task: Task{Command: ShellCommand("echo $HOME")}}, ""},
		{Submission{Task: Task{Command: []string{"python3", long + ".py"}}}, ""},
		{Submission{Task: Task{Command: []string{"python3", "a\ab.py"}}}, ""},
	} {
		s := c.job
		if err := s.Complete(); err != nil || s.Name != c.want {
			t.Errorf("%+v: %q, %v; want %q", c.job, s.Name, err, c.want)
		}
	}
}
