// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package defrag_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

func build(t testing.TB, spec string) sched.Policy {
	t.Helper()
	p, err := policy.Builtin().New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSpec(t *testing.T) {
	for _, spec := range []string{"fifo@defrag", "las:lease=1h@defrag:margin=3:saves=all:moves=1@reserve"} {
		if got := fmt.Sprint(build(t, spec)); got != spec {
			t.Errorf("%s prints as %s", spec, got)
		}
	}
	for _, bad := range []string{"margin=0.5", "restart=-1s", "saves=some", "moves=-1", "most=-1", "rack=0.5:cross=0.6", "cross=0", "horizon=-1s"} {
		if _, err := policy.Builtin().New("fifo@defrag:" + bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// inner are policies of every kind: with and without preemption, with notes, with
// shared GPUs, elastic jobs, tenants and apps.
var inner = []string{
	"fifo", "fifo:greedy:placement=fewest-nodes", "fifo:greedy:placement=ladder", "philly", "philly:relax=off", "las",
	"tiresias", "srtf:placement=skew", "drf", "gandiva", "antman", "themis", "pollux", "quincy", "fifo:greedy:placement=fewest-nodes@share",
	"fifo:greedy:placement=rack-local@reserve:gpus=2:after=1s",
}

// TestLegal lets the layer decide over many policies in random worlds: every plan
// is legal, a job that is moved keeps its size, its type of GPU and its locality at least,
// may be moved, and has settled; and the order of the jobs does not matter.
func TestLegal(t *testing.T) {
	moves := 0
	for _, spec := range inner {
		t.Run(spec, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				w := policytest.Random(rt)
				below, p := build(t, spec), build(t, spec+"@defrag:saves=all:settle=5m:margin=1:moves=2:most=3")
				for range rapid.IntRange(8, 24).Draw(rt, "decisions") { // moves are rare
					for range rapid.IntRange(1, 3).Draw(rt, "events") {
						w.Stir(rt)
					}
					s := w.State.Snapshot(w.Now)
					plan := p.Schedule(s)
					for _, v := range sched.Check(s, plan) {
						rt.Errorf("%s", v)
					}
					moves += checkMoves(rt, s, below.Schedule(s), plan)
					checkOrder(rt, s, p, plan)
					if _, _, err := w.Decide(p); err != nil {
						rt.Fatal(err)
					}
				}
			})
		})
	}
	if moves == 0 {
		t.Error("nobody was ever moved: the test has no force")
	}
}

// checkMoves holds what the layer changed against what the policy wanted, and
// returns the number of jobs it moved.
func checkMoves(t *rapid.T, s *sched.Snapshot, before, after sched.Plan) int {
	moved := 0
	for i, j := range s.Jobs {
		was, is := before.Want[i], after.Want[i]
		if was.Equal(is) {
			continue
		}
		if j.Phase == sched.Pending && len(was) == 0 {
			if is.GPUs() != j.GPUs {
				t.Errorf("gang %s starts on %d of its %d GPUs", j.ID, is.GPUs(), j.GPUs)
			}
			continue
		}
		moved++
		c := s.Cluster
		if j.Phase != sched.Running || !was.Equal(j.Placement) || j.NonPreemptible || j.Moves >= 2 || s.Now.Sub(j.Since) < 5*time.Minute {
			t.Errorf("job %s (%d moves, since %s) is moved and must not be", j.ID, j.Moves, s.Now.Sub(j.Since))
		}
		// More nodes may be better, where they are nearer together.
		if is.GPUs() != was.GPUs() || c.Level(is) > c.Level(was) || c.Level(is) == c.Level(was) && len(is) > len(was) {
			t.Errorf("job %s is moved from %s to %s, which is worse", j.ID, was.Text(c), is.Text(c))
		}
		if len(is) > 0 && c.Nodes[is[0].Node].Type != c.Nodes[was[0].Node].Type {
			t.Errorf("job %s is moved to another type of GPU", j.ID)
		}
	}
	if moved > 3 {
		t.Errorf("%d jobs are moved at once; want at most 3", moved)
	}
	if moved > 0 && !slices.ContainsFunc(after.Ledger, func(e sched.LedgerEntry) bool { return e.Taken && len(e.Moved) > 0 }) {
		t.Errorf("%d jobs are moved and the ledger does not say so: %v", moved, after.Ledger)
	}
	return moved
}

// checkOrder shows the jobs in another order: every job must fare as before.
func checkOrder(t *rapid.T, s *sched.Snapshot, p sched.Policy, plan sched.Plan) {
	jobs := slices.Clone(s.Jobs)
	slices.Reverse(jobs)
	other := p.Schedule(s.With(jobs))
	for i := range jobs {
		if k := len(jobs) - 1 - i; !other.Want[i].Equal(plan.Want[k]) {
			t.Errorf("job %s: jobs in another order give %v; want %v", jobs[i].ID, other.Want[i], plan.Want[k])
		}
	}
}

// TestNoPingPong plays a long random workload that fragments the cluster: moves
// happen, but never more than the bound for one job, and never twice within the
// time in which a job settles.
func TestNoPingPong(t *testing.T) {
	for _, spec := range []string{"fifo:greedy:placement=fewest-nodes@defrag:saves=all", "philly@defrag:saves=all", "fifo:greedy@defrag:saves=all:moves=1:settle=30m", "fifo:greedy:placement=ladder@defrag:saves=all@reserve"} {
		t.Run(spec, func(t *testing.T) {
			const jobs, settle = 400, 10 * time.Minute
			most := 3
			if spec == "fifo:greedy@defrag:saves=all:moves=1:settle=30m" {
				most = 1
			}
			w := fragmented(t, jobs)
			total, ended := 0, 0
			started, moves := map[sched.JobID]time.Time{}, map[sched.JobID]int{}
			err := w.Play(build(t, spec), policytest.Start.Add(60*24*time.Hour), func(seen policytest.Seen) {
				if seen.Ended != "" {
					ended++
				}
				for _, a := range seen.Actions {
					switch {
					case a.Verb == sched.Stop && a.Moving:
						total++
						if moves[a.Job.ID]++; moves[a.Job.ID] > most {
							t.Errorf("job %s is moved for the %dth time", a.Job.ID, moves[a.Job.ID])
						}
						if ran := seen.At.Sub(started[a.Job.ID]); ran < settle {
							t.Errorf("job %s is moved after %s", a.Job.ID, ran)
						}
					case a.Verb == sched.Start:
						started[a.Job.ID] = seen.At
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if ended != jobs {
				t.Errorf("%d of %d jobs have ended", ended, jobs)
			}
			if total == 0 || total > jobs/2 {
				t.Errorf("%d moves for %d jobs; want some, and few", total, jobs)
			}
		})
	}
}

// fragmented returns four racks of two nodes, and small jobs among gangs.
func fragmented(t *testing.T, jobs int) *policytest.World {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 1))
	var nodes []sched.Node
	for i := range 8 {
		nodes = append(nodes, sched.Node{Name: fmt.Sprint("n", i), GPUs: 8, Rack: fmt.Sprint("r", i/2)})
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		t.Fatal(err)
	}
	at := policytest.Start
	for i := range jobs {
		at = at.Add(time.Duration(random.ExpFloat64() * float64(8*time.Minute)))
		length := time.Duration((1 + random.ExpFloat64()*120) * float64(time.Minute))
		spec := sched.Spec{
			ID: sched.JobID(fmt.Sprint("j", i)), GPUs: []int{1, 1, 1, 2, 4, 8, 16}[random.IntN(7)],
			Submitted: at, Estimate: sched.Duration(length),
		}
		w.Arrivals = append(w.Arrivals, spec)
		w.Length[spec.ID] = length
	}
	return w
}
