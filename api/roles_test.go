// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
)

func withRoles() Submission {
	return Submission{Task: Task{Env: map[string]string{"A": "1"}, Roles: []JobRole{
		{Name: "rollout", GPUs: 2, MaxGPUs: 6, Run: "echo $RANK"},
		{Name: "trainer", GPUs: 1, Command: []string{"python3", "train.py"}, Env: map[string]string{"A": "2"}},
	}}}
}

// TestRolesComplete: the size of the job and its command follow from its roles, and a job
// that is submitted again as it was recorded is the same.
func TestRolesComplete(t *testing.T) {
	s := withRoles()
	for range 2 {
		if err := s.Complete(); err != nil {
			t.Fatal(err)
		}
		if s.GPUs != 3 || s.MinGPUs != 3 || s.MaxGPUs != 7 {
			t.Errorf("%d GPUs of %d to %d; want 3 of 3 to 7", s.GPUs, s.MinGPUs, s.MaxGPUs)
		}
		if want := ShellCommand("echo $RANK"); !slices.Equal(s.Command, want) || !slices.Equal(s.Play(0).Command, want) {
			t.Errorf("commands %q and %q; want %q", s.Command, s.Play(0).Command, want)
		}
	}
	if p := s.Play(1); p.Command[0] != "python3" || p.Env["A"] != "2" || s.Env["A"] != "1" {
		t.Errorf("the trainer runs %q with %v, the job has %v", p.Command, p.Env, s.Env)
	}
	if got := s.RolesText(5); got != "rollout=4,trainer=1" {
		t.Errorf("5 GPUs are divided as %s", got)
	}
	at, err := s.Positions(4)
	if want := []Position{{0, 0, 1}, {0, 1, 2}, {0, 2, 3}, {1, 0, 0}}; err != nil || !slices.Equal(at, want) {
		t.Errorf("4 GPUs are given to %v (%v); want %v, with the elastic role on the last", at, err, want)
	}
	if _, err := s.Positions(2); err == nil || !strings.Contains(err.Error(), "2 GPUs cannot be divided among its roles, which need rollout=2,trainer=1") {
		t.Errorf("2 GPUs: %v", err)
	}
}

func TestRolesRefused(t *testing.T) {
	for name, c := range map[string]struct {
		edit        func(*Submission)
		field, hint string
	}{
		"no name":         {func(s *Submission) { s.Roles[0].Name = "" }, "roles[0].name", "small letters"},
		"bad name":        {func(s *Submission) { s.Roles[0].Name = "A b" }, "roles[0].name", "small letters"},
		"same name":       {func(s *Submission) { s.Roles[1].Name = "rollout" }, "roles[1].name", "its own name"},
		"no GPU":          {func(s *Submission) { s.Roles[1].GPUs = 0 }, "roles[1].gpus", "at least 1"},
		"negative":        {func(s *Submission) { s.Roles[1].GPUs = -1 }, "roles[1].gpus", "use 1 to"},
		"two elastic":     {func(s *Submission) { s.Roles[1].MaxGPUs = 2 }, "roles[1].gpus", "let one role be elastic"},
		"max below":       {func(s *Submission) { s.Roles[1].GPUs, s.Roles[1].MaxGPUs = 3, 2 }, "roles[1].max_gpus", "leave it out"},
		"no command":      {func(s *Submission) { s.Roles[1].Command = nil }, "roles[1].command", "name the program"},
		"command and run": {func(s *Submission) { s.Roles[0].Command = []string{"x"} }, "roles[0].run", "leave one"},
		"secret":          {func(s *Submission) { s.Roles[1].Env["HF_TOKEN"] = "x" }, "roles[1].env", "secrets"},
		"reserved":        {func(s *Submission) { s.Roles[1].Env["FAIRWAY_ROLE"] = "x" }, "roles[1].env", "FAIRWAY_"},
		"too many":        {func(s *Submission) { s.Roles = make([]JobRole, MaxRoles+1) }, "roles", "at most"},
		"gpus":            {func(s *Submission) { s.GPUs = 4 }, "gpus", "sum of its roles"},
		"max_gpus":        {func(s *Submission) { s.GPUs, s.MinGPUs, s.MaxGPUs = 3, 3, 8 }, "gpus", "sum of its roles"},
		"sizes":           {func(s *Submission) { s.Sizes = []int{3} }, "sizes", "leave it out"},
		"single":          {func(s *Submission) { s.Single = true }, "single", "leave it out"},
		"plans":           {func(s *Submission) { s.Plans = &plan.Options{} }, "plans", "leave it out"},
		"adapt":           {func(s *Submission) { s.Batch.Adapt = true }, "batch.adapt", "leave it out"},
		"share":           {func(s *Submission) { s.Shareable = true }, "shareable", "leave it out"},
		"part":            {func(s *Submission) { s.MilliGPU = sched.WholeGPU / 2 }, "milli_gpu", "leave it out"},
		"screen":          {func(s *Submission) { s.Screen = "1m" }, "screen", "leave it out"},
	} {
		s := withRoles()
		c.edit(&s)
		err := s.Complete()
		if e, ok := err.(*Error); !ok || e.Field != c.field || !strings.Contains(e.Error(), c.hint) {
			t.Errorf("%s: %v; want field %s and %q", name, err, c.field, c.hint)
		}
	}
}
