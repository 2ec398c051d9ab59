// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

const seatGiB = 1 << 30

func seatWorld(t *testing.T, nodes ...sched.Node) *sched.Snapshot {
	t.Helper()
	for i := range nodes {
		nodes[i].Name = string(rune('a' + i))
	}
	c, err := sched.NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return &sched.Snapshot{Now: time.Unix(1e9, 0), Cluster: c}
}

func seatJob(gpus int, util float64, gib int64) *sched.Job {
	return &sched.Job{Spec: sched.Spec{GPUs: gpus, GPUUtil: util, GPUMemory: gib * seatGiB, Shareable: true}}
}

// lighter prefers the GPU with the least utilisation.
func lighter(on *Company, _ *sched.Job) (float64, bool) { return on.Util, true }

func TestSeatsFind(t *testing.T) {
	node := sched.Node{GPUs: 4, GPUMemory: 16 * seatGiB, CPUs: 16}
	type held struct {
		j *sched.Job
		p sched.Placement
	}
	at := func(node int32, gpus sched.GPUSet, milli int32) sched.Placement {
		return sched.Placement{{Node: node, Milli: milli, GPUs: gpus}}
	}
	shy := seatJob(1, 0.1, 1)
	shy.Avoid = []string{"a"}
	lost := seatJob(1, 0.1, 1)
	lost.Avoid = []string{"a", "b"}
	hungry := seatJob(2, 0.1, 1)
	hungry.CPUs = 8
	for _, c := range []struct {
		name string
		held []held
		ask  Ask
		want string
	}{
		{"idle", nil, Ask{Job: seatJob(2, 0.1, 1), GPUs: 2, Idle: true}, "a[0-1]x0.5"},
		{"idle ones are not for guests", nil, Ask{Job: seatJob(1, 0.1, 1), GPUs: 1}, "-"},
		{"whole", []held{{seatJob(1, 0.1, 1), at(0, 0b1, 500)}}, Ask{Job: seatJob(3, 0.1, 1), GPUs: 3, Whole: true}, "a[1-3]"},
		{"the cheapest", []held{{seatJob(1, 0.5, 1), at(0, 0b1, 500)}, {seatJob(1, 0.3, 1), at(1, 0b10, 500)}},
			Ask{Job: seatJob(1, 0.1, 1), GPUs: 1}, "b[1]x0.5"},
		{"all seats are taken", []held{{seatJob(1, 0.5, 1), at(0, 0b1, 500)}, {seatJob(1, 0.3, 1), at(0, 0b1, 500)}},
			Ask{Job: seatJob(1, 0.1, 1), GPUs: 1}, "-"},
		{"held whole", []held{{seatJob(1, 0.5, 1), at(0, 0b1, 1000)}}, Ask{Job: seatJob(1, 0.1, 1), GPUs: 1}, "-"},
		{"beside one of unknown memory", []held{{seatJob(1, 0.5, 0), at(0, 0b1, 500)}}, Ask{Job: seatJob(1, 0.1, 1), GPUs: 1}, "-"},
		{"no memory with the margin", []held{{seatJob(1, 0.5, 8), at(0, 0b1, 500)}}, Ask{Job: seatJob(1, 0.1, 8), GPUs: 1}, "-"},
		{"memory", []held{{seatJob(1, 0.5, 8), at(0, 0b1, 500)}}, Ask{Job: seatJob(1, 0.1, 7), GPUs: 1}, "a[0]x0.5"},
		{"a gang on one node", []held{{seatJob(1, 0.1, 1), at(0, 0b1, 500)}, {seatJob(2, 0.5, 1), at(1, 0b11, 500)}},
			Ask{Job: seatJob(2, 0.1, 1), GPUs: 2}, "b[0-1]x0.5"},
		{"too few on one node", []held{{seatJob(1, 0.1, 1), at(0, 0b1, 500)}, {seatJob(1, 0.5, 1), at(1, 0b1, 500)}},
			Ask{Job: seatJob(2, 0.1, 1), GPUs: 2}, "-"},
		{"spilling", []held{{seatJob(1, 0.1, 1), at(0, 0b1, 500)}, {seatJob(1, 0.5, 1), at(1, 0b1, 500)}},
			Ask{Job: seatJob(2, 0.1, 1), GPUs: 2, Spill: true}, "a[0]x0.5 b[0]x0.5"},
		{"larger than a node", nil, Ask{Job: seatJob(6, 0.1, 1), GPUs: 6, Idle: true}, "a[0-3]x0.5 b[0-1]x0.5"},
		{"CPUs", []held{{hungry, at(0, 0b11, 500)}}, Ask{Job: hungry, GPUs: 2}, "-"},
		{"away from a node", nil, Ask{Job: shy, GPUs: 1, Idle: true}, "b[0]x0.5"},
		{"a node that may be bad is better than none", nil, Ask{Job: lost, GPUs: 1, Idle: true}, "a[0]x0.5"},
	} {
		s := seatWorld(t, node, node)
		seats := (*SharedView)(nil).For(s, 2, 500<<20)
		for _, h := range c.held {
			seats.Take(h.j, h.p)
		}
		for range 2 { // the second time from what it remembers
			p, _ := seats.Find(c.ask, lighter)
			if got := p.Text(s.Cluster); got != c.want {
				t.Errorf("%s: %s; want %s", c.name, got, c.want)
			}
		}
	}
}

// What was not found for a job is not looked for again for one that needs more,
// but is for one that needs less.
func TestSeatsMisfit(t *testing.T) {
	s := seatWorld(t, sched.Node{GPUs: 1, GPUMemory: 16 * seatGiB})
	seats := (*SharedView)(nil).For(s, 2, 0)
	seats.Take(seatJob(1, 0.5, 8), sched.Placement{{Milli: 500, GPUs: 1}})
	asked := 0
	judge := func(on *Company, j *sched.Job) (float64, bool) {
		asked++
		return 0, on.Util+j.GPUUtil <= 1
	}
	for i, c := range []struct {
		util  float64
		ok    bool
		asked int
	}{{0.7, false, 1}, {0.8, false, 1}, {0.6, false, 2}, {0.5, true, 3}} {
		if _, ok := seats.Find(Ask{Job: seatJob(1, c.util, 4), GPUs: 1}, judge); ok != c.ok || asked != c.asked {
			t.Errorf("ask %d: found %t after %d questions; want %t after %d", i, ok, asked, c.ok, c.asked)
		}
	}
}

// The GPUs that are empty soonest are closed, up to the limit, and only those.
func TestSeatsReserve(t *testing.T) {
	s := seatWorld(t, sched.Node{GPUs: 2}, sched.Node{GPUs: 2})
	seats := (*SharedView)(nil).For(s, 2, 0)
	for i, minutes := range []int{50, 20, 30, 10} {
		j := seatJob(1, 0.2, 1)
		j.Estimate = sched.Duration(minutes) * sched.Duration(time.Minute)
		seats.Take(j, sched.Placement{{Node: int32(i / 2), Milli: 500, GPUs: 1 << (i % 2)}})
	}
	if !seats.Reserve(seatJob(1, 1, 1), 1, 3) || seats.closed[1] != 0b10 {
		t.Errorf("closed %b; want GPU 1 of the second node", seats.closed)
	}
	if !seats.Reserve(seatJob(2, 1, 1), 2, 3) || seats.closed[0] != 0b11 {
		t.Errorf("closed %b; want both GPUs of the first node, the only one with two left", seats.closed)
	}
	if seats.Reserve(seatJob(1, 1, 1), 1, 3) {
		t.Error("more than the limit is reserved")
	}
	if p, _ := seats.Find(Ask{Job: seatJob(1, 0.1, 1), GPUs: 1}, lighter); p.Text(s.Cluster) != "b[0]x0.5" {
		t.Errorf("found %s; want b[0]x0.5, the only GPU that is not closed", p.Text(s.Cluster))
	}
}

// A part of a GPU counts as that part of the quota, and memory of sharers is
// counted together.
func TestParts(t *testing.T) {
	s := seatWorld(t, sched.Node{GPUs: 1, GPUMemory: 16 * seatGiB})
	f := NewFree(s.Cluster)
	half := sched.Placement{{Milli: 500, GPUs: 1}}
	f.Take(seatJob(1, 0.1, 10), half)
	if f.Fits(seatJob(1, 0.1, 7), half) || !f.Fits(seatJob(1, 0.1, 6), half) {
		t.Error("10 GiB are taken of 16: want 7 more refused and 6 accepted")
	}
	part := seatJob(1, 0.1, 7)
	part.MilliGPU = 500
	if p, ok := f.Within(part, 1, sched.CrossRack); ok {
		t.Errorf("a job of 7 GiB is put on %s beside one of 10", p.Text(s.Cluster))
	}
}
