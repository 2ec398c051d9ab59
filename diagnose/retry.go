// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// longestWait bounds the wait before a retry.
const longestWait = 30 * time.Minute

// Attempt is one failed attempt of a job.
type Attempt struct {
	Finding  Finding       `json:"finding"`
	Nodes    []string      `json:"nodes,omitempty"` // to blame: that of the failing rank where it is known, else all
	Ran      time.Duration `json:"ran,omitempty"`
	Progress float64       `json:"progress,omitempty"` // work done when it failed, in the job's own unit
}

// Advice is what to do after a failure.
type Advice struct {
	Retry      bool           `json:"retry"`
	After      sched.Duration `json:"after,omitempty"`       // wait before it
	Uncounted  bool           `json:"uncounted,omitempty"`   // it does not use up the job's retries
	AvoidNodes []string       `json:"avoid_nodes,omitempty"` // sorted
	// MoreMemory multiplies the request for host memory; 0: as it is.
	MoreMemory float64 `json:"more_memory,omitempty"`
	// SmallerBatch multiplies the batch of each GPU, for programs that can; 0:
	// as it is. A GPU with more memory does as well.
	SmallerBatch float64 `json:"smaller_batch,omitempty"`
	Why          string  `json:"why"`
}

// Policy are the numbers of Decide that no reason has of its own.
type Policy struct {
	Total   int           // retries over all reasons since the last healthy run
	Repeats int           // equal failures in a row after which it is the job
	Healthy time.Duration // an attempt that ran this long wipes the slate of what is not the user's fault
	Avoid   int           // nodes to stay away from, the latest
}

// DefaultPolicy returns the numbers of docs/failures.md.
func DefaultPolicy() Policy {
	return Policy{Total: 8, Repeats: 3, Healthy: 2 * time.Hour, Avoid: 4}
}

// Decide says what to do after the failure now, given the failed attempts
// before it, oldest first. See DefaultPolicy for the numbers.
func Decide(history []Attempt, now Attempt) Advice { return DefaultPolicy().Decide(history, now) }

// Decide says what to do after the failure now, given the failed attempts
// before it, oldest first.
func (p Policy) Decide(history []Attempt, now Attempt) Advice {
	rule := now.Finding.Retry
	switch {
	case now.Finding.Reason == ReasonNone:
		return stop("nothing failed")
	case rule.Budget == Unlimited:
		return Advice{Retry: true, Uncounted: true, After: rule.After, Why: rule.Say}
	case rule.Budget == 0:
		return stop("%s: %s", now.Finding.Text, rule.Say)
	}
	recent := p.counted(history, now)
	same := 0
	for _, a := range recent {
		if a.Finding.Reason == now.Finding.Reason {
			same++
		}
	}
	budget := rule.Budget
	if now.Finding.Category == User {
		budget = min(budget, 1) // whatever a table says
	}
	switch {
	case same >= budget:
		return stop("%s: %d of %d retries for this reason are used up", now.Finding.Text, same, budget)
	case len(recent) >= p.Total:
		return stop("%s: failed %d times, for several reasons", now.Finding.Text, len(recent)+1)
	}
	if n := equalInARow(blamable(history), now); n >= p.repeats(now.Finding.Category) {
		return stop("%s: the same error at the same place %d times in a row: it is the job", now.Finding.Text, n)
	}
	wait := min(float64(rule.After)*math.Exp2(float64(same)), float64(longestWait))
	a := Advice{Retry: true, After: sched.Duration(wait), AvoidNodes: p.avoid(recent, now)}
	grow(&a, rule.More, same)
	a.Why = fmt.Sprintf("%s: retry %d of %d; %s", now.Finding.Text, same+1, budget, rule.Say)
	return a
}

func stop(format string, args ...any) Advice { return Advice{Why: fmt.Sprintf(format, args...)} }

// repeats returns how many equal failures in a row, this one included, show
// that the job is to blame.
func (p Policy) repeats(c Category) int {
	if c == Infrastructure {
		return p.Repeats
	}
	return max(2, p.Repeats-1)
}

// counted returns the failures that still count, oldest first: those since the
// last attempt that ran long enough, and not those nobody is to blame for. What
// the user is to blame for always counts.
func (p Policy) counted(history []Attempt, now Attempt) []Attempt {
	from := 0
	if now.Finding.Category != User {
		from = 1 + lastIndex(history, func(a Attempt) bool { return a.Ran >= p.Healthy })
		if now.Ran >= p.Healthy {
			from = len(history)
		}
	}
	var out []Attempt
	for i, a := range history {
		if a.Finding.Retry.Budget != Unlimited && (i >= from || a.Finding.Category == User) {
			out = append(out, a)
		}
	}
	return out
}

// blamable returns the failures that somebody is to blame for.
func blamable(history []Attempt) []Attempt {
	return slices.DeleteFunc(slices.Clone(history), func(a Attempt) bool { return a.Finding.Retry.Budget == Unlimited })
}

// equalInARow counts the failures at the end, now included, that look the same
// and happened at the same progress, however long the attempts ran. Failures on
// one and the same node do not count twice: that may be the node.
func equalInARow(history []Attempt, now Attempt) int {
	n := 1
	last := now
	for _, a := range slices.Backward(history) {
		if a.Finding.Hash() != now.Finding.Hash() || !near(a.Progress, now.Progress) {
			break
		}
		if len(a.Nodes) == 0 || !slices.Equal(a.Nodes, last.Nodes) {
			n++
		}
		last = a
	}
	return n
}

// near reports whether two amounts of progress are within 2 % of each other.
func near(a, b float64) bool { return math.Abs(a-b) <= 0.02*max(math.Abs(a), math.Abs(b)) }

// avoid returns the nodes that the retry should stay away from.
func (p Policy) avoid(recent []Attempt, now Attempt) []string {
	var nodes []string
	for _, a := range slices.Backward(append(slices.Clone(recent), now)) {
		if !a.Finding.Retry.AvoidNode {
			continue
		}
		for _, n := range a.Nodes {
			if len(nodes) < p.Avoid && !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
	}
	slices.Sort(nodes)
	return nodes
}

// grow asks for more of what ran out, each time more.
func grow(a *Advice, more More, times int) {
	switch more {
	case MoreMemory:
		a.MoreMemory = math.Pow(1.5, float64(times+1))
	case MoreGPUMemory:
		a.SmallerBatch = math.Pow(0.5, float64(times+1))
	}
}

func lastIndex(history []Attempt, ok func(Attempt) bool) int {
	for i, a := range slices.Backward(history) {
		if ok(a) {
			return i
		}
	}
	return -1
}
