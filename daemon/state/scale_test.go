// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// largeCluster is a state store with nodes of 8 GPUs and jobs of 2 GPUs, of which as many run
// as there is room for.
func largeCluster(b testing.TB, nodes, jobs int) *desk {
	b.Helper()
	d := open(b, noMachine)
	list := make([]sched.Node, nodes)
	for i := range list {
		list[i] = sched.Node{Name: fmt.Sprintf("n%03d", i), GPUs: 8, Type: "h200", Rack: fmt.Sprint("r", i/16), CPUs: 128, Memory: 1 << 40}
	}
	d.setNodes(list...)
	for left := jobs; left > 0; left -= api.MaxSubmit {
		batch := slices.Repeat([]api.Submission{submission("job", 2)}, min(left, api.MaxSubmit))
		if _, err := d.Submit(b.Context(), admin, batch); err != nil {
			b.Fatal(err)
		}
	}
	policy, _ := d.InForce()
	d.decide(policy)
	return d
}

// TestOrdersFollow: what is ordered is kept up to date by what changes, and is what
// one would make anew.
func TestOrdersFollow(t *testing.T) {
	d := largeCluster(t, 2, 12) // 8 of them run
	check := func(when string, want int) {
		t.Helper()
		var anew []api.Attempt
		for _, x := range d.mem.inOrder() {
			if o := d.mem.attempt(d.Key, x); o != nil {
				anew = append(anew, o.Attempt)
			}
		}
		got := d.Attempts()
		if diff := cmp.Diff(anew, got); diff != "" || len(got) != want {
			t.Errorf("%s: %d attempts, want %d (-anew +kept):\n%s", when, len(got), want, diff)
		}
	}
	check("after the first decision", 8)
	first := d.Attempts()
	d.exited(exitOf(first[3].Job, 1))
	check("after an end", 7)
	policy, _ := d.InForce()
	d.decide(policy)
	check("after the next decision", 8)
	d.command(first[0].Job, api.Pause)
	check("after a pause", 7)
	if got, want := d.Withdrawn(), []api.AttemptID{first[0].AttemptID}; !slices.Equal(got, want) {
		t.Errorf("leaving %v; want %v", got, want)
	}
	d.command(first[1].Job, api.Cancel)
	check("after a cancellation", 6)
	again := reopen(t, d.tape.copyTape(), d.clock, noMachine)
	if diff := cmp.Diff(d.Attempts(), again.Attempts()); diff != "" {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
}

// BenchmarkOneOf5000 is what one change costs among 5,000 jobs on 1,000 nodes.
func BenchmarkOneOf5000(b *testing.B) {
	b.Run("end and orders", func(b *testing.B) { // of a job, as an executor tells and asks
		d := largeCluster(b, 1000, 5000)
		running := d.Attempts()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			// After the last, jobs that have ended are told of again: no change.
			d.exited(exitOf(running[i%len(running)].Job, 1))
			d.Attempts()
			d.Withdrawn()
		}
	})
	b.Run("snapshot", func(b *testing.B) {
		d := largeCluster(b, 1000, 5000)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Snapshot(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
