// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"math/bits"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// promise is what a policy says about itself beyond the rules of the house.
type promise struct {
	// conserves: no job waits while GPUs are free on which it could run.
	conserves bool
	// finite: in a world where nothing new comes, every job that an empty
	// cluster would host runs to its end.
	finite bool
}

// promises holds, for every spec to test, what the policy promises. A policy of
// the table that is not here fails TestEveryPolicyIsTested.
var promises = map[string]promise{
	"antman":                                {finite: true},
	"antman:guest=500:max_util=2":           {finite: true},
	"carbyne":                               {conserves: true, finite: true},
	"carbyne:altruism=false":                {conserves: true, finite: true},
	"carbyne:by=app:margin=0":               {conserves: true, finite: true},
	"drf":                                   {conserves: true, finite: true},
	"drf:by=app":                            {conserves: true, finite: true},
	"drf:preempt=false":                     {conserves: true, finite: true},
	"fifo":                                  {finite: true},
	"fifo:backfill":                         {finite: true},
	"fifo:backfill:placement=skew":          {finite: true},
	"fifo:greedy":                           {conserves: true, finite: true},
	"fifo:greedy:placement=ladder":          {finite: true},
	"gandiva":                               {finite: true},
	"gandiva:pack=false:moves=0":            {finite: true},
	"gavel":                                 {conserves: true, finite: true},
	"gavel:cost":                            {conserves: true, finite: true},
	"gavel:cost:slo=2:prices=1/5":           {conserves: true, finite: true},
	"gavel:packing":                         {conserves: true, finite: true},
	"gavel:packing:ftf":                     {conserves: true, finite: true},
	"gavel:packing:makespan:stick=2":        {conserves: true, finite: true},
	"gavel:packing:cost:slo=2":              {conserves: true, finite: true},
	"gavel:packing:sjf":                     {conserves: true, finite: true},
	"antman:slowdown=1.2:max_util=2:busy=1": {finite: true},
	"gavel:ftf":                             {conserves: true, finite: true},
	"gavel:makespan:stick=2":                {conserves: true, finite: true},
	"gavel:sjf":                             {conserves: true, finite: true},
	"horus":                                 {finite: true},
	"horus:slowdown=0:migrate=true":         {finite: true},
	"horus+":                                {finite: true},
	"horus+:patience=1m:jobs=2":             {finite: true},
	"las":                                   {conserves: true, finite: true},
	"optimus":                               {conserves: true, finite: true},
	"optimus:original":                      {conserves: true, finite: true},
	"packing":                               {finite: true},
	"packing:gandiva":                       {finite: true},
	"philly":                                {finite: true},
	"philly:relax=at-once":                  {finite: true},
	"philly:relax=off":                      {}, // waits for the best place for ever
	"philly:relax=proportional":             {finite: true},
	"pollux":                                {finite: true},
	"quincy":                                {conserves: true, finite: true},
	"quincy:idle=0s:preempt=1m":             {conserves: true, finite: true},
	"shockwave":                             {conserves: true, finite: true},
	"slaq":                                  {conserves: true, finite: true},
	"sia":                                   {finite: true},
	"sia:lambda=5:p=-1":                     {finite: true},
	"srsf":                                  {conserves: true, finite: true},
	"srtf":                                  {conserves: true, finite: true},
	"srtf:placement=skew":                   {conserves: true, finite: true},
	"srtf:placement=fewest-nodes":           {finite: true},
	"srtf:preempt=false":                    {conserves: true, finite: true},
	"themis":                                {finite: true},
	"themis:f=0:offer=all:slowdown=2":       {conserves: true, finite: true},
	"themis:slowdown=1.25:lease=1m":         {conserves: true, finite: true},
	"tiresias":                              {conserves: true, finite: true},
	"tiresias:gittins":                      {conserves: true, finite: true},
	"tiresias:placement=consolidated":       {conserves: true, finite: true},
	"tiresias:placement=fragments:thresholds=1m/10m/1h": {conserves: true, finite: true},
	"tiresias:promote=2":   {conserves: true, finite: true},
	"tiresias:thresholds=": {conserves: true, finite: true},
}

func TestEveryPolicyIsTested(t *testing.T) {
	tested := map[string]bool{}
	for spec := range promises {
		tested[name(spec)] = true
	}
	for _, n := range policy.Builtin().Names() {
		if !tested[n] {
			t.Errorf("policy %s has no line in promises", n)
		}
	}
}

func name(spec string) string {
	for i := range len(spec) {
		if spec[i] == ':' {
			return spec[:i]
		}
	}
	return spec
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
	for spec, promise := range promises {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				w := policytest.Random(rt)
				p := build(t, spec)
				for range rapid.IntRange(1, 8).Draw(rt, "decisions") {
					for range rapid.IntRange(1, 3).Draw(rt, "events") {
						w.Stir(rt)
					}
					s := w.State.Snapshot(w.Now)
					plan := p.Schedule(s)
					checkPlan(rt, s, plan, promise)
					checkPure(rt, spec, s, plan)
					if _, _, err := w.Decide(p); err != nil {
						rt.Fatal(err)
					}
				}
			})
		})
	}
}

// checkPlan holds a plan against what is promised.
func checkPlan(t *rapid.T, s *sched.Snapshot, plan sched.Plan, promise promise) {
	for _, v := range sched.Check(s, plan) {
		t.Errorf("%s", v)
	}
	checkCapacity(t, s, plan)
	if !plan.Wake.IsZero() && !plan.Wake.After(s.Now) {
		t.Errorf("wake at %s is not after now, %s", plan.Wake, s.Now)
	}
	if promise.conserves {
		checkConserves(t, s, plan)
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

// checkConserves looks for a job that waits although it could run on what the
// plan leaves free.
func checkConserves(t *rapid.T, s *sched.Snapshot, plan sched.Plan) {
	free, quota := place.NewFree(s.Cluster), place.NewQuota(s)
	for i, j := range s.Jobs {
		free.Take(j, plan.Want[i])
		quota.Add(j, plan.Want[i].GPUs())
	}
	for i, j := range s.Jobs {
		if len(plan.Want[i]) > 0 || !j.Ready(s.Now) || quota.Left(j) < j.GPUs || j.Consolidate {
			continue // a job that must be consolidated may wait for a better place
		}
		mark := free.Mark()
		if p, ok := place.Consolidated(free, j, j.GPUs); ok {
			t.Errorf("job %s waits (%s) and could run on %s", j.ID, plan.Why[i].Text(s.Cluster), p.Text(s.Cluster))
		}
		free.Rollback(mark)
	}
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
