// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// alike is the jobs that a new one is compared with: ended jobs, oldest first, and
// running jobs. It is made once per request, only if needed.
type alike struct {
	ended, running []*entry
}

func (m *memory) alike() *alike {
	a := &alike{ended: m.Ended}
	for _, j := range m.state.Peek().Jobs {
		if j.Phase == sched.Running {
			a.running = append(a.running, m.jobs[j.ID])
		}
	}
	return a
}

// outcomes returns how jobs with the same user, name, command and folder ended.
func (a *alike) outcomes(s *api.Submission, now time.Time) []diagnose.Outcome {
	same := func(x *entry) bool {
		return x.Job.User == s.User && x.Job.Tenant == s.Tenant && x.Task.Name == s.Name && x.Task.Dir == s.Dir &&
			slices.Equal(x.Task.Command, s.Command)
	}
	var out []diagnose.Outcome
	for _, x := range a.ended {
		if !same(x) {
			continue
		}
		o := diagnose.Outcome{At: x.Ended, Good: x.Job.Phase != sched.Failed, Ran: x.Job.Ran.D()}
		if n := len(x.Failed); n > 0 && !o.Good {
			o.Ran = x.Failed[n-1].Ran
		}
		out = append(out, o)
	}
	for _, x := range a.running {
		if same(x) {
			out = append(out, diagnose.Outcome{At: now, Good: true, Ran: now.Sub(x.Job.Since)})
		}
	}
	return out
}

// use returns the GPU use of the last job of the same user, script and model.
func (a *alike) use(s *api.Submission) (api.Use, bool) {
	script := scriptOf(s.Command)
	for _, x := range slices.Backward(a.ended) {
		if x.Job.User == s.User && x.Job.Tenant == s.Tenant && x.Job.Model == s.Model &&
			x.Exit != nil && x.Exit.Use != nil && x.Exit.Use.Samples >= enoughUse &&
			len(x.Task.Command) > 0 && scriptOf(x.Task.Command) == script {
			return *x.Exit.Use, true
		}
	}
	return api.Use{}, false
}

// enoughUse is how many samples of an attempt are enough to describe its kind.
const enoughUse = 3

// prepare fills in what similar jobs tell about a new one: how long to screen it,
// and its expected GPU use.
func (t *tx) prepare(s *api.Submission) {
	asked, given, err := s.ScreenTime() // checked before
	switch {
	case err != nil:
	case given:
		s.Spec.Screen = asked
	case t.store.Screen > 0 && s.GPUs > 1 && len(s.Roles) == 0: // roles have a least size
		s.Spec.Screen = sched.Duration(diagnose.ScreenFor(t.like().outcomes(s, t.now), t.now, t.store.Screen))
	}
	s.Screen = ""
	if !s.Shareable || s.GPUUtil > 0 && s.GPUMemory > 0 {
		return
	}
	use, known := t.like().use(s)
	if !known {
		return
	}
	if s.GPUUtil == 0 {
		s.GPUUtil = min(1, use.Util)
	}
	if s.GPUMemory == 0 {
		s.GPUMemory = use.Memory + use.Memory/10
	}
}
