// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// more are settings of knobs that deserve a run of their own, beside every policy and
// variant of the table. A new policy needs no line here.
var more = []string{
	"antman:guest=500:max_util=2", "antman:slowdown=1.2:max_util=2:busy=1",
	"carbyne:altruism=false", "carbyne:by=app:margin=0",
	"drf:by=app", "drf:preempt=false",
	"fairway:whole=0", "fairway:whole=0:apart=false:wait=1m",
	"fifo:backfill:placement=skew", "fifo:greedy:placement=ladder", "fifo:placement=fewest-nodes",
	"gandiva:pack=false:moves=0",
	"gavel:cost:slo=2:prices=1/5", "gavel:makespan:stick=2",
	"gavel:packing:ftf", "gavel:packing:makespan:stick=2", "gavel:packing:cost:slo=2", "gavel:packing:sjf",
	"horus:slowdown=0:migrate=true", "horus+:patience=1m:jobs=2",
	"las:lease=1h",
	"philly:gather=true", "philly:relax=at-once", "philly:relax=off", "philly:relax=proportional",
	"quincy:idle=0s:preempt=1m",
	"sia:lambda=5:p=-1",
	"srtf:placement=skew", "srtf:placement=fewest-nodes", "srtf:preempt=false",
	"themis:f=0:offer=all:slowdown=2", "themis:slowdown=1.25:lease=1m",
	"tiresias:placement=consolidated", "tiresias:placement=fragments:thresholds=1m/10m/1h", "tiresias:promote=2", "tiresias:thresholds=",
}

// everySetting returns every policy and variant of the table, and more.
func everySetting() []string {
	return slices.DeleteFunc(slices.Concat(everySpec(), more), func(spec string) bool {
		return spec == "pollux:genetic" // seconds a decision: package pollux tests it
	})
}

// each runs a test for every setting that makes a promise; 0: for every setting.
func each(t *testing.T, promise policy.Promises, test func(t *testing.T, spec string, promises policy.Promises)) {
	for _, spec := range everySetting() {
		promises := table.About(spec).Promises
		if promises&promise != promise {
			continue
		}
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			test(t, spec, promises)
		})
	}
}

// name returns the name in a spec without layers.
func name(spec string) string {
	word, _, _ := strings.Cut(spec, ":")
	return word
}

// table is shared by the tests, none of which changes it.
var table = policy.Builtin()

func build(t testing.TB, spec string) sched.Policy {
	p, err := table.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestProperties lets every policy decide in random worlds that random things
// happen to.
func TestProperties(t *testing.T) {
	each(t, 0, func(t *testing.T, spec string, promises policy.Promises) {
		rapid.Check(t, func(rt *rapid.T) {
			w := policytest.Random(rt)
			p := build(t, spec)
			for range rapid.IntRange(1, 8).Draw(rt, "decisions") {
				for range rapid.IntRange(1, 3).Draw(rt, "events") {
					w.Stir(rt)
				}
				s := w.State.Snapshot(w.Now)
				plan := p.Schedule(s)
				checkPlan(rt, s, plan)
				checkPromises(rt, s, plan, promises)
				checkPure(rt, spec, s, plan)
				if _, _, err := w.Decide(p); err != nil {
					rt.Fatal(err)
				}
			}
		})
	})
}

// TestBounds lets every policy decide while tenants are bounded by type of GPU and in CPUs and
// memory, the one below the other, and counts what they hold as plainly as it can be done.
func TestBounds(t *testing.T) {
	each(t, 0, func(t *testing.T, spec string, _ policy.Promises) {
		rapid.Check(t, func(rt *rapid.T) {
			w := policytest.Random(rt)
			p := build(t, spec)
			most := map[sched.GPUType]int{
				"t4": rapid.IntRange(0, 9).Draw(rt, "t4"), "h200": rapid.IntRange(0, 9).Draw(rt, "h200"),
			}
			t0 := sched.Tenant{ID: "t0", MaxByType: most, MaxCPUs: rapid.IntRange(0, 40).Draw(rt, "cpus"), MaxMemory: rapid.Int64Range(0, 9).Draw(rt, "memory")}
			for _, tenant := range []sched.Tenant{t0, {ID: "t1", Parent: "t0", Borrow: true}} {
				if err := w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &tenant}); err != nil {
					rt.Fatal(err)
				}
			}
			for range rapid.IntRange(1, 5).Draw(rt, "decisions") {
				for range rapid.IntRange(1, 3).Draw(rt, "jobs") {
					id := sched.JobID(fmt.Sprint("j", len(w.Length)))
					spec := policytest.DrawJob(rt, id)
					spec.CPUs, spec.Memory = rapid.IntRange(0, 4).Draw(rt, "each"), rapid.Int64Range(0, 2).Draw(rt, "bytes")
					if err := w.Submit(spec, time.Hour); err != nil {
						rt.Fatal(err)
					}
				}
				w.Now = w.Now.Add(10 * time.Minute)
				if _, _, err := w.Decide(p); err != nil {
					rt.Fatal(err)
				}
				held := map[sched.GPUType]int{}
				cpus, memory := 0, int64(0)
				for _, j := range w.State.Snapshot(w.Now).Jobs {
					for _, s := range j.Placement {
						if j.Tenant == "t0" || j.Tenant == "t1" {
							held[w.State.Cluster().Nodes[s.Node].Type] += s.GPUs.Len() * int(s.Milli)
							cpus += s.GPUs.Len() * j.CPUs
							memory += int64(s.GPUs.Len()) * j.Memory
						}
					}
				}
				if t0.MaxCPUs > 0 && cpus > t0.MaxCPUs || t0.MaxMemory > 0 && memory > t0.MaxMemory {
					rt.Fatalf("t0 and t1 hold %d CPUs and %d bytes; their limits are %d and %d", cpus, memory, t0.MaxCPUs, t0.MaxMemory)
				}
				for gpu, milli := range held {
					if milli > most[gpu]*sched.WholeGPU {
						rt.Fatalf("t0 and t1 hold %d thousandths of type %s; their limit is %d GPUs", milli, gpu, most[gpu])
					}
				}
			}
		})
	})
}

// checkPlan holds a plan against the rules of the house.
func checkPlan(t *rapid.T, s *sched.Snapshot, plan sched.Plan) {
	for _, v := range sched.Check(s, plan) {
		t.Errorf("%s", v)
	}
	checkCapacity(t, s, plan)
	if !plan.Wake.IsZero() && !plan.Wake.After(s.Now) {
		t.Errorf("wake at %s is not after now, %s", plan.Wake, s.Now)
	}
}

// checkCapacity counts what is held of every GPU and node, as plainly as it
// can be done.
func checkCapacity(t *rapid.T, s *sched.Snapshot, plan sched.Plan) {
	type gpu struct{ node, index int }
	held := map[gpu]int{}
	cpus, memory := map[int]int{}, map[int]int64{}
	for i, want := range plan.Want {
		for _, slice := range want {
			node := int(slice.Node)
			for g := uint64(slice.GPUs); g != 0; g &= g - 1 {
				at := gpu{node, bits.TrailingZeros64(g)}
				if at.index >= s.Cluster.Nodes[node].GPUs {
					t.Errorf("job %s: GPU %d of node %d does not exist", s.Jobs[i].ID, at.index, node)
				}
				if s.Cluster.Nodes[node].Others.Has(at.index) {
					t.Errorf("job %s: GPU %v is held by others", s.Jobs[i].ID, at)
				}
				if held[at] += int(slice.Milli); held[at] > 1000 {
					t.Errorf("job %s: GPU %v is held for %d thousandths", s.Jobs[i].ID, at, held[at])
				}
				if j := s.Jobs[i]; !s.Cluster.Nodes[node].Matches(j.Selector) && !holdsOn(j, slice.Node) {
					t.Errorf("job %s needs the mark %s and comes to node %d, which bears %v", j.ID, j.Selector, node, s.Cluster.Nodes[node].Labels)
				}
				cpus[node] += s.Jobs[i].CPUs
				memory[node] += s.Jobs[i].Memory
			}
		}
	}
	for i, n := range s.Cluster.Nodes {
		if n.CPUs > 0 && cpus[i] > n.CPUs || n.Memory > 0 && memory[i] > n.Memory {
			t.Errorf("node %s gives %d CPUs and %d bytes", n.Name, cpus[i], memory[i])
		}
		if n.State == sched.Down && (cpus[i] > 0 || memory[i] > 0) {
			t.Errorf("node %s is down and gives something", n.Name)
		}
	}
}

// holdsOn reports whether a job is on a node.
func holdsOn(j *sched.Job, node int32) bool {
	for _, s := range j.Placement {
		if s.Node == node {
			return true
		}
	}
	return false
}

// checkPure asks again: with another value of the policy, and with the jobs in
// another order. Every job must fare as before.
func checkPure(t *rapid.T, spec string, s *sched.Snapshot, plan sched.Plan) {
	p, err := table.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	again := p.Schedule(s)
	if !reflect.DeepEqual(plan, again) {
		t.Errorf("the same snapshot gave another plan (-first +second):\n%s", cmp.Diff(plan, again))
	}
	shuffled, index := policytest.Shuffled(t, s)
	other := p.Schedule(shuffled)
	if !other.Wake.Equal(plan.Wake) || (other.Notes == nil) != (plan.Notes == nil) {
		t.Errorf("jobs in another order: wake %s and notes %t; want %s and %t", other.Wake, other.Notes != nil, plan.Wake, plan.Notes != nil)
		return
	}
	for i, from := range index {
		if !other.Want[i].Equal(plan.Want[from]) || other.Why[i] != plan.Why[from] {
			t.Errorf("job %s: jobs in another order give %v %v; want %v %v",
				s.Jobs[from].ID, other.Want[i], other.Why[i], plan.Want[from], plan.Why[from])
		}
		if plan.Notes != nil && other.Notes[i] != plan.Notes[from] {
			t.Errorf("job %s: jobs in another order give note %v; want %v", s.Jobs[from].ID, other.Notes[i], plan.Notes[from])
		}
	}
}
