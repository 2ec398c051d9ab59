// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/policy/themis"
	"github.com/fairway-gpu/fairway/sched"
)

// TestApps plays random apps of several jobs through many leases: every plan
// must stand the checks of the core, and every job must come to its end.
func TestApps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := themis.Default()
		c.F = rapid.SampledFrom([]float64{0, 0.5, 0.8, 1}).Draw(rt, "f")
		c.Offer = rapid.SampledFrom([]string{themis.Surplus, themis.All}).Draw(rt, "offer")
		c.Ideal = rapid.SampledFrom([]string{themis.Share, themis.Paper}).Draw(rt, "ideal")
		c.Rounding = rapid.SampledFrom([]string{themis.Mixed, themis.Chance, themis.Floor}).Draw(rt, "rounding")
		c.Slowdown = rapid.SampledFrom([]float64{1, 1.05, 1.1, 2}).Draw(rt, "slowdown")
		p, err := themis.New(c)
		if err != nil {
			rt.Fatal(err)
		}
		w := apps(rt)
		if err := w.Play(p, w.Now.Add(400*time.Hour), nil); err != nil {
			rt.Fatal(err)
		}
		for _, j := range w.State.Snapshot(w.Now).Jobs {
			rt.Errorf("job %s of %d GPUs is still %s", j.ID, j.GPUs, j.Phase)
		}
	})
}

// apps returns a small cluster that several apps come to.
func apps(t *rapid.T) *policytest.World {
	var nodes []sched.Node
	for i := range rapid.IntRange(2, 5).Draw(t, "nodes") {
		n := sched.Node{Name: fmt.Sprint("n", i), GPUs: 4, Rack: fmt.Sprint("r", i%2)}
		if rapid.Bool().Draw(t, "islands") {
			n.Islands = []sched.GPUSet{0b0011, 0b1100}
		}
		nodes = append(nodes, n)
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		t.Fatal(err)
	}
	at := w.Now
	for a := range rapid.IntRange(2, 6).Draw(t, "apps") {
		at = at.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "gap")) * time.Minute)
		size := rapid.SampledFrom([]int{1, 2, 4, 5, 6, 8}).Draw(t, "gpus")
		tight := rapid.Bool().Draw(t, "consolidate")
		elastic := rapid.IntRange(0, 4).Draw(t, "elastic") == 0
		for k := range rapid.IntRange(1, 8).Draw(t, "jobs") {
			length := time.Duration(rapid.SampledFrom([]int{1, 15, 30, 60, 90, 120, 240, 300}).Draw(t, "minutes")) * time.Minute
			spec := sched.Spec{
				ID: sched.JobID(fmt.Sprintf("a%d-%d", a, k)), App: sched.AppID(fmt.Sprint("a", a)),
				GPUs: size, Consolidate: tight, Submitted: at, Estimate: sched.Duration(length),
			}
			if elastic {
				spec.MinGPUs, spec.MaxGPUs = 1, size+1
			}
			w.Arrivals = append(w.Arrivals, spec)
			w.Length[spec.ID] = length
		}
	}
	return w
}

// TestLargeGang lets small apps come for ever, twice as many as there is room for,
// and asks how long a gang as large as the cluster waits.
func TestLargeGang(t *testing.T) {
	const length, bound = 15 * time.Minute, 2 * time.Hour
	w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 8}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 240 {
		spec := sched.Spec{
			ID: sched.JobID(fmt.Sprint("s", i)), GPUs: 1, Estimate: sched.Duration(length),
			Submitted: w.Now.Add(time.Duration(i) * time.Minute),
		}
		w.Length[spec.ID] = length
		w.Arrivals = append(w.Arrivals, spec)
	}
	p, err := themis.New(themis.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Play(p, w.Now.Add(time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Submit(sched.Spec{ID: "gang", GPUs: 8, Estimate: sched.Duration(5 * time.Minute)}, 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := w.Play(p, w.Now.Add(bound), nil); err != nil {
		t.Fatal(err)
	}
	if j, ok := w.State.Job("gang"); ok && j.Starts == 0 {
		t.Errorf("the gang has not started after %s", bound)
	}
}

// TestGiant: small jobs keep the cluster at 95 % for days, and newcomers gain more by
// GPUs than a gang of all GPUs that has waited long. It starts all the same, before it
// is late: on its share, that of one app in forty or so, it would take three days.
func TestGiant(t *testing.T) {
	const nodes, gpus, length, bound = 8, 64, 2 * time.Hour, 24 * time.Hour
	var cluster []sched.Node
	for i := range nodes {
		cluster = append(cluster, sched.Node{Name: fmt.Sprint("n", i), GPUs: gpus / nodes})
	}
	w, err := policytest.NewWorld(cluster)
	if err != nil {
		t.Fatal(err)
	}
	rng, at := rand.New(rand.NewPCG(1, 1)), 0.01
	for i := 0; at < 30; i++ {
		hours := min(rng.ExpFloat64()+1./60, 6)
		spec := sched.Spec{
			ID: sched.JobID(fmt.Sprint("s", i)), GPUs: []int{1, 1, 1, 2, 2, 4, 8}[rng.IntN(7)],
			Estimate: sched.Duration(hours * float64(time.Hour)), Submitted: w.Now.Add(time.Duration(at * float64(time.Hour))),
		}
		w.Length[spec.ID] = spec.Estimate.D()
		w.Arrivals = append(w.Arrivals, spec)
		at += rng.ExpFloat64() * 19 / 7 / gpus / 0.95
	}
	p, err := themis.New(themis.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Play(p, w.Now.Add(6*time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Submit(sched.Spec{ID: "giant", GPUs: gpus, Estimate: sched.Duration(length)}, length); err != nil {
		t.Fatal(err)
	}
	submitted := w.Now
	for w.Now.Before(submitted.Add(bound)) {
		if err := w.Play(p, w.Now.Add(time.Hour), nil); err != nil {
			t.Fatal(err)
		}
		if j, waits := w.State.Job("giant"); !waits || j.Starts > 0 {
			return
		}
	}
	t.Errorf("the gang has not started after %s", bound)
}
