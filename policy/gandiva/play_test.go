// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

const jobs = 50

// TestEveryJobEnds plays random workloads to the end, with a price for every
// restart. Nothing may starve, no plan may be refused, jobs must not be moved
// around for ever, and the number of decisions must be of the order of the
// number of things that happen and of slices.
func TestEveryJobEnds(t *testing.T) {
	var turns, moves, packs int
	for _, spec := range []string{"gandiva", "gandiva:max_height=1", "gandiva:max_height=4:pack=false", "gandiva:patience=0s", "gandiva:settle=0s:moves=100"} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(spec, "/", seed), func(t *testing.T) {
				w := randomWorld(t, seed)
				g := newJudge(mustBuild(t, spec), t.Fatalf)
				p := &priced{Policy: g, length: w.Length}
				decisions, ended := 0, 0
				var last time.Time
				err := w.Play(p, policytest.Start.Add(60*24*time.Hour), func(seen policytest.Seen) {
					if seen.Ended != "" {
						ended++
						last = seen.At
					} else {
						decisions++
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range w.State.Snapshot(w.Now).Jobs {
					t.Errorf("job %s (%d GPUs) has not ended: %s on %v, %d starts", j.ID, j.GPUs, j.Phase, j.Placement, j.Starts)
				}
				if ended != jobs {
					t.Errorf("%d jobs have ended; want %d", ended, jobs)
				}
				slices := int(last.Sub(policytest.Start) / time.Minute)
				if most := 4*jobs + slices; decisions > most {
					t.Errorf("%d decisions in %d slices; want at most %d", decisions, slices, most)
				}
				// Restarts may cost a part of the work, but not a multiple of it.
				if p.lost > p.work {
					t.Errorf("%s lost to restarts for %s of work", p.lost, p.work)
				}
				turns, moves, packs = turns+p.turns, moves+p.moves, packs+p.packs
			})
		}
	}
	if turns == 0 || moves == 0 || packs == 0 {
		t.Errorf("%d turns, %d moves, %d packed jobs; want some of each", turns, moves, packs)
	}
}

// TestTurnsCome plays a crowded cluster in which jobs of all sizes keep arriving
// at odd moments. Whoever has waited longest for a turn gets it within two
// slices, and no GPU idles for want of a decision.
func TestTurnsCome(t *testing.T) {
	for _, spec := range []string{"gandiva:max_height=3", "gandiva:max_height=6:pack=false"} {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(spec, "/", seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 3))
				w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 4}, {Name: "n1", GPUs: 4}, {Name: "n2", GPUs: 2}})
				if err != nil {
					t.Fatal(err)
				}
				at := policytest.Start
				for i := range 150 {
					at = at.Add(time.Duration(rng.IntN(60_000)) * time.Millisecond)
					spec := sched.Spec{
						ID: sched.JobID(fmt.Sprint("j", i)), Submitted: at, GPUs: []int{1, 1, 1, 1, 2, 4, 6, 10}[rng.IntN(8)],
						Shareable: rng.IntN(2) == 0, GPUUtil: 0.3 + 0.1*float64(rng.IntN(5)),
					}
					w.Arrivals = append(w.Arrivals, spec)
					w.Length[spec.ID] = time.Duration(rng.IntN(300_000)+1000) * time.Millisecond
				}
				g := newJudge(mustBuild(t, spec), t.Fatalf)
				g.everyTurn = true
				if err := w.Play(g, policytest.Start.Add(7*24*time.Hour), nil); err != nil {
					t.Fatal(err)
				}
				if n := w.State.Jobs(); n > 0 {
					t.Errorf("%d jobs have not ended", n)
				}
			})
		}
	}
}

// randomWorld has 4 servers in 2 domains, and rigid, elastic and shareable jobs
// of 1 to 24 GPUs that together want several times what there is.
func randomWorld(t *testing.T, seed uint64) *policytest.World {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	var nodes []sched.Node
	for i := range 4 {
		nodes = append(nodes, sched.Node{Name: fmt.Sprint("n", i), GPUs: 8, CPUs: 64, GPUMemory: 16 << 30, Rack: fmt.Sprint("r", i/2)})
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		t.Fatal(err)
	}
	tenant := sched.Tenant{ID: "few", Quota: 6}
	if err := w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &tenant}); err != nil {
		t.Fatal(err)
	}
	at := policytest.Start
	for i := range jobs {
		at = at.Add(time.Duration(rng.IntN(300)) * time.Second)
		spec := sched.Spec{
			ID: sched.JobID(fmt.Sprint("j", i)), Submitted: at,
			GPUs: []int{1, 1, 2, 4, 8, 3}[rng.IntN(6)], CPUs: rng.IntN(11),
			NonPreemptible: rng.IntN(12) == 0, GPUMemory: int64(rng.IntN(10)) << 30,
		}
		switch rng.IntN(6) {
		case 0:
			spec.GPUs = []int{16, 24}[rng.IntN(2)]
			spec.CPUs = 0
		case 1:
			spec.MinGPUs, spec.MaxGPUs = 1, 2*spec.GPUs
		case 2, 3:
			spec.Shareable, spec.GPUUtil = true, 0.2+0.1*float64(rng.IntN(6))
		case 4:
			if spec.GPUs <= 6 {
				spec.Tenant = "few"
			}
		}
		w.Arrivals = append(w.Arrivals, spec)
		w.Length[spec.ID] = time.Duration(rng.IntN(7200)+60) * time.Second
	}
	return w
}

// priced makes every start but the first cost time: a second where the job was
// suspended, a minute elsewhere.
type priced struct {
	sched.Policy
	length     map[sched.JobID]time.Duration
	lost, work time.Duration

	turns, moves, packs int
}

func (p *priced) Schedule(s *sched.Snapshot) sched.Plan {
	plan := p.Policy.Schedule(s)
	for i, j := range s.Jobs {
		want := plan.Want[i]
		if len(want) == 0 || want.Equal(j.Placement) {
			continue
		}
		if want.Shared() {
			p.packs++
		}
		price := time.Minute
		switch {
		case j.Starts == 0:
			p.work += p.length[j.ID]
			continue
		case want.Equal(j.Suspended):
			price = time.Second
			p.turns++
		default:
			p.moves++
		}
		p.length[j.ID] += price
		p.lost += price
	}
	return plan
}

func mustBuild(t testing.TB, spec string) sched.Policy {
	t.Helper()
	p, err := build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
