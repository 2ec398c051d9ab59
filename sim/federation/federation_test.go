// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/federate"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

func generate(t testing.TB, l Load) []Job {
	t.Helper()
	jobs, err := l.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func play(t testing.TB, c Config, jobs []Job) *Result {
	t.Helper()
	r, err := Run(c, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAgreesWithSim plays the same jobs with package sim, under fifo with backfill = easy and
// gangs on as few nodes as possible. Reservations differ a little: here they are of whole
// nodes.
func TestAgreesWithSim(t *testing.T) {
	const nodes = 128
	var here, there float64
	same, all := 0, 0
	for seed := uint64(1); seed <= 6; seed++ {
		jobs := generate(t, Load{Jobs: 2000, GPUs: nodes * perNode, Load: 0.95, Swing: 0.5, Seed: seed})
		jobs = slices.DeleteFunc(jobs, func(j Job) bool { return j.GPUs > 128 })
		ours := play(t, Config{Clusters: 1, Nodes: nodes}, jobs)
		for i, wait := range waitsInSim(t, nodes, jobs) {
			here += ours.Waits[i]
			there += wait
			all++
			if math.Abs(wait-ours.Waits[i]) < 1 {
				same++
			}
		}
	}
	n := float64(all)
	t.Logf("average wait %.1f s here, %.1f s in package sim; %d of %d jobs start in the same second", here/n, there/n, same, all)
	if there/n < 60 || math.Abs(here-there) > 0.1*there {
		t.Errorf("average wait %.1f s, package sim says %.1f s; want a difference of 10 %% at most, and a wait of a minute or more", here/n, there/n)
	}
	if same < all*9/10 {
		t.Errorf("%d of %d jobs start in the same second; want nine of ten", same, all)
	}
}

// waitsInSim returns how long each job waits on one cluster in package sim.
func waitsInSim(t *testing.T, nodes int, jobs []Job) []float64 {
	t.Helper()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var work []sim.Work
	for i, j := range jobs {
		work = append(work, sim.Work{
			Spec:    sched.Spec{ID: sched.JobID(fmt.Sprintf("j%05d", i)), GPUs: j.GPUs, Submitted: start.Add(duration(j.Submitted))},
			RunTime: sched.Duration(duration(j.Run)),
		})
	}
	cluster, err := sim.ParseCluster(fmt.Sprintf("%dx%d", nodes, perNode), "t4")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Builtin().New("fifo:backfill=easy:placement=fewest-nodes")
	if err != nil {
		t.Fatal(err)
	}
	z, err := zoo.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	res, _, err := sim.Run(sim.Config{Cluster: cluster, Policy: p, Zoo: z, Estimates: sim.Exact}, &sim.Workload{Name: t.Name(), Start: start, Work: work})
	if err != nil {
		t.Fatal(err)
	}
	waits := make([]float64, len(jobs))
	for i, j := range res.Jobs {
		waits[i] = j.Start - jobs[i].Submitted
	}
	return waits
}

// TestMovesPay: choosing by the expected start is better than chance, moving is better still.
func TestMovesPay(t *testing.T) {
	const clusters, nodes = 4, 64
	var choosing, moving, random float64
	moves := 0
	for seed := uint64(1); seed <= 3; seed++ {
		jobs := generate(t, Load{Jobs: 8000, GPUs: clusters * nodes * perNode, Load: 0.95, Swing: 0.5, Error: 0.5, Seed: seed})
		// Of a gang of 512, one cluster would have to be empty.
		jobs = slices.DeleteFunc(jobs, func(j Job) bool { return j.GPUs > nodes*perNode/8 })
		run := func(c Config) *Result { c.Rule = federate.Default; return play(t, c, jobs) }
		choosing += run(Config{Clusters: clusters, Nodes: nodes}).Mean(jobs, 1)
		random += run(Config{Clusters: clusters, Nodes: nodes, Dispatch: Random, Seed: seed}).Mean(jobs, 1)
		r := run(Config{Clusters: clusters, Nodes: nodes, Every: 60, Look: 200})
		moving += r.Mean(jobs, 1)
		moves += r.Moves
	}
	if moves == 0 || moving >= choosing || choosing >= random {
		t.Errorf("average wait: moving %.0f s (%d moves), choosing %.0f s, random %.0f s", moving/3, moves, choosing/3, random/3)
	}
}

// TestEveryJobRuns: no job is lost or counted twice, no node is given out twice, and the
// same seed gives the same result.
func TestEveryJobRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		c := Config{Clusters: 1 + r.IntN(4), Nodes: 64, Dispatch: Dispatch(r.IntN(3)), Rule: federate.Default, Every: 60, Look: 50, Seed: 1}
		jobs := generate(t, Load{Jobs: 1500, GPUs: c.Clusters * c.Nodes * perNode, Load: 0.5 + r.Float64(), Swing: r.Float64() * 0.9, Error: r.Float64(), Seed: r.Uint64()})
		a := play(t, c, jobs)
		used := 0.0
		for i, j := range jobs {
			if a.Waits[i] < 0 {
				t.Fatalf("%+v: job %d waits %g s", c, i, a.Waits[i])
			}
			used += j.Run * float64(j.GPUs)
		}
		if most := a.Ended * float64(c.Clusters*c.Nodes*perNode); used > most {
			t.Fatalf("%+v: %g GPU-seconds of work in %g", c, used, most)
		}
		if b := play(t, c, jobs); !slices.Equal(a.Waits, b.Waits) || a.Moves != b.Moves {
			t.Fatalf("%+v: another result with the same seed", c)
		}
	}
}

func TestRefuses(t *testing.T) {
	if _, err := Run(Config{Clusters: 2, Nodes: 4}, []Job{{GPUs: 64, Run: 1, Estimate: 1}}); err == nil {
		t.Error("a gang that fits no cluster is accepted")
	}
	if _, err := (Load{Jobs: 1, GPUs: 8, Load: math.NaN()}).Generate(); err == nil {
		t.Error("a load of NaN is accepted")
	}
}

// BenchmarkMillion plays a hundredth of the run of docs/reproduction/clusters.md.
func BenchmarkMillion(b *testing.B) {
	jobs := generate(b, Load{Jobs: 10_000, GPUs: 100_000, Load: 0.9, Swing: 0.5, Error: 0.5, Seed: 1})
	for b.Loop() {
		play(b, Config{Clusters: 10, Nodes: 1250, Rule: federate.Default, Every: 60, Look: 200}, jobs)
	}
	b.ReportMetric(float64(b.N)*float64(len(jobs))/b.Elapsed().Seconds(), "jobs/s")
}
