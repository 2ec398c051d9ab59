// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
)

// failure makes an attempt that failed with a line.
func failure(t *testing.T, line string, change ...func(*Attempt)) Attempt {
	t.Helper()
	a := Attempt{Finding: builtinTable(t).Classify(Input{Logs: []Log{{Rank: -1, Text: line}}}), Ran: time.Minute}
	for _, c := range change {
		c(&a)
	}
	return a
}

func on(nodes ...string) func(*Attempt) { return func(a *Attempt) { a.Nodes = nodes } }
func at(progress float64) func(*Attempt) {
	return func(a *Attempt) { a.Progress = progress }
}
func ran(d time.Duration) func(*Attempt) { return func(a *Attempt) { a.Ran = d } }

const (
	ioError  = "OSError: [Errno 5] Input/output error"
	gpuOOM   = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"
	hostOOM  = "MemoryError"
	keyError = "KeyError: 'x'"
	lost     = "Container released on a *lost* node"
	preempt  = "preempted by scheduler"
	ecc      = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
	refused  = "ConnectionRefusedError: [Errno 111] Connection refused"
)

func TestDecide(t *testing.T) {
	minutes := func(n int) sched.Duration { return sched.Duration(time.Duration(n) * time.Minute) }
	f := func(line string, change ...func(*Attempt)) Attempt { return failure(t, line, change...) }
	for _, c := range []struct {
		name    string
		history []Attempt
		now     Attempt
		want    Advice // Why: a part of it
	}{
		{"a user's bug is never retried", nil, f(keyError), Advice{Why: "correct the program"}},
		{"infrastructure waits two minutes and goes elsewhere", nil, f(ioError, on("n1")),
			Advice{Retry: true, After: minutes(2), AvoidNodes: []string{"n1"}, Why: "retry 1 of 3"}},
		{"then twice as long, away from both", []Attempt{f(ioError, on("n2"), at(10))}, f(ioError, on("n1"), at(50)),
			Advice{Retry: true, After: minutes(4), AvoidNodes: []string{"n1", "n2"}, Why: "retry 2 of 3"}},
		{"and no more than three times", []Attempt{f(ioError, at(1)), f(ioError, at(5)), f(ioError, at(9))}, f(ioError, at(20)),
			Advice{Why: "3 of 3 retries"}},
		{"the same error at the same progress on other nodes is the job's", []Attempt{f(ioError, on("n1"), at(1000)), f(ioError, on("n2"), at(1001))}, f(ioError, on("n3"), at(999)),
			Advice{Why: "it is the job"}},
		{"on the same node it may be the node", []Attempt{f(ioError, on("n1"), at(1000)), f(ioError, on("n1"), at(1000))}, f(ioError, on("n1"), at(1000)),
			Advice{Retry: true, After: minutes(8), AvoidNodes: []string{"n1"}, Why: "retry 3 of 3"}},
		{"an engine's error twice at the same place is enough", []Attempt{f("RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR", on("n1"), at(7))},
			f("RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR", on("n2"), at(7)), Advice{Why: "it is the job"}},
		{"a healthy run wipes the slate", []Attempt{f(ioError, at(1)), f(ioError, at(5)), f(ioError, at(9), ran(3*time.Hour))}, f(ioError, at(20)),
			Advice{Retry: true, After: minutes(2), Why: "retry 1 of 3"}},
		{"preemption is free, for ever", slices.Repeat([]Attempt{f(preempt)}, 50), f(preempt), Advice{Retry: true, Uncounted: true, Why: "not the job's fault"}},
		{"and does not use up other retries", slices.Repeat([]Attempt{f(preempt)}, 50), f(ioError, on("n1")),
			Advice{Retry: true, After: minutes(2), AvoidNodes: []string{"n1"}, Why: "retry 1 of 3"}},
		{"out of host memory: once, with more", nil, f(hostOOM), Advice{Retry: true, After: sched.Duration(30 * time.Second), MoreMemory: 1.5, Why: "more host memory"}},
		{"and not again", []Attempt{f(hostOOM)}, f(hostOOM), Advice{Why: "1 of 1 retries"}},
		{"out of GPU memory: once, with a smaller batch", nil, f(gpuOOM), Advice{Retry: true, After: sched.Duration(30 * time.Second), SmallerBatch: 0.5, Why: "smaller batch"}},
		{"a healthy run does not excuse the user", []Attempt{f(hostOOM, ran(9*time.Hour))}, f(hostOOM, at(9)), Advice{Why: "1 of 1 retries"}},
		{"many reasons add up", []Attempt{f(ioError, at(1)), f(ecc, at(2)), f(refused, at(3)), f(lost, at(4)), f(ioError, at(5)), f(ecc, at(6)), f(refused, at(7)), f(lost, at(8))},
			f("socket.gaierror: x", at(9)), Advice{Why: "for several reasons"}},
		{"unknown: once", nil, f("bye"), Advice{Retry: true, After: minutes(1), Why: "read the end of the log"}},
		{"nothing failed", nil, Attempt{Finding: builtinTable(t).Classify(Input{Exit: new(int)})}, Advice{Why: "nothing failed"}},
	} {
		got := Decide(c.history, c.now)
		if !strings.Contains(got.Why, c.want.Why) {
			t.Errorf("%s: why %q; want %q in it", c.name, got.Why, c.want.Why)
		}
		got.Why, c.want.Why = "", ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestDecideEnds: whatever happens, a job that only fails is given up after a
// bounded number of retries, waits are bounded, and a user's fault is retried
// once at most.
func TestDecideEnds(t *testing.T) {
	table := builtinTable(t)
	rapid.Check(t, func(r *rapid.T) {
		var history []Attempt
		counted, users := 0, map[string]int{}
		for range 100 {
			reason := rapid.SampledFrom(table.Reasons()).Draw(r, "reason")
			if reason.Retry.Budget == Unlimited || reason.ID == ReasonNone {
				continue
			}
			f := Finding{Reason: reason.ID, Text: reason.Text, Category: reason.Category, Retry: *reason.Retry,
				Evidence: &Evidence{Text: rapid.SampledFrom([]string{"a", "b"}).Draw(r, "text")}}
			now := Attempt{Finding: f, Nodes: []string{rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(r, "node")},
				Progress: rapid.Float64Range(0, 100).Draw(r, "progress")}
			a := Decide(history, now)
			if a.After < 0 || a.After > sched.Duration(longestWait) || len(a.AvoidNodes) > DefaultPolicy().Avoid || !slices.IsSorted(a.AvoidNodes) {
				r.Fatalf("advice %+v", a)
			}
			if !a.Retry {
				break
			}
			counted++
			if f.Category == User {
				users[f.Reason]++
			}
			history = append(history, now)
		}
		if counted > DefaultPolicy().Total {
			r.Fatalf("%d retries without a healthy run; want at most %d", counted, DefaultPolicy().Total)
		}
		for id, n := range users {
			if n > 1 {
				r.Fatalf("%s was retried %d times", id, n)
			}
		}
	})
}

// A long run wipes the slate, but not for ever: what fails at the same place again
// and again is the job, and would be tried for ever else.
func TestLongRunsDoNotHideRepeats(t *testing.T) {
	for category, most := range map[Category]int{Engine: 2, Unknown: 2, Infrastructure: 3} {
		now := Attempt{
			Finding: Finding{Reason: "r", Category: category, Retry: Rule{Budget: 3}}, Ran: 5 * time.Hour, Progress: 1000,
		}
		var history []Attempt
		for n := 1; ; n++ {
			now.Nodes = []string{string(rune('a' + n))}
			if !Decide(history, now).Retry {
				if n != most {
					t.Errorf("%s: stopped after %d attempts of five hours; want %d", category, n, most)
				}
				break
			}
			if n > 20 {
				t.Fatalf("%s: tried 20 times", category)
			}
			history = append(history, now)
		}
	}
}
