// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policytest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

const gib = 1 << 30

// Random draws a world: nodes of mixed sizes, types, racks and islands, some of
// them cordoned, down, labelled or used by others, and tenants with and without
// limits. It has no jobs.
func Random(t *rapid.T) *World {
	w, err := NewWorld(rapid.Custom(drawNodes).Draw(t, "nodes"))
	if err != nil {
		t.Fatalf("draw a cluster: %v", err)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "tenants") {
		w.must(t, w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: drawTenant(t, i)}))
	}
	return w
}

// RandomTopology is Random with three levels of domains, wider and narrower than racks,
// and with jobs that ask for them.
func RandomTopology(t *rapid.T) *World {
	w := Random(t)
	w.ruled = true
	for _, n := range w.State.Cluster().Nodes {
		n.Domains = drawDomains(t)
		n.Rack = n.Domains[1].Name
		w.must(t, w.Apply(sched.Event{Kind: sched.NodeJoined, Node: &n}))
	}
	return w
}

func drawDomains(t *rapid.T) []sched.Domain {
	name := func(level string, most int) sched.Domain {
		return sched.Domain{Level: level, Name: fmt.Sprint(level, rapid.IntRange(0, most).Draw(t, level))}
	}
	out := []sched.Domain{name("zone", 1), name("rack", 1), name("nvlink", 1)}
	if rapid.IntRange(1, 8).Draw(t, "bare") == 1 {
		out = out[:2] // a node that is in no NVLink domain
	}
	return out
}

func drawRules(t *rapid.T, spec *sched.Spec) (out []sched.Rule) {
	segment := max(1, spec.TaskGPUs)
	for range rapid.SampledFrom([]int{0, 1, 1, 2, 3}).Draw(t, "rules") {
		r := sched.Rule{Required: rapid.SampledFrom([]string{"zone", "rack", "nvlink", "nvlink", "machine", "slot", "unknown"}).Draw(t, "level")}
		if rapid.Bool().Draw(t, "segments") && r.Required != "slot" {
			segment *= rapid.SampledFrom([]int{1, 2, 2, 3}).Draw(t, "factor")
			r.Segment = segment
		}
		if rapid.IntRange(1, 3).Draw(t, "soft") == 1 && r.Required != "slot" {
			r.Required, r.Preferred = "", r.Required
		}
		out = append(out, r)
	}
	return out
}

func (w *World) must(t *rapid.T, err error) {
	if err != nil {
		t.Fatalf("at %s: %v", w.Now.Sub(Start), err)
	}
}

func drawNodes(t *rapid.T) []sched.Node {
	nodes := make([]sched.Node, rapid.IntRange(1, 7).Draw(t, "count"))
	sizes := rapid.SampledFrom([][]int{{4}, {8}, {2, 4, 8}, {1, 3, 8}})
	types := rapid.SampledFrom([][]sched.GPUType{{"t4"}, {"t4", "h200"}})
	racks := rapid.IntRange(1, 3).Draw(t, "racks")
	size, kind := sizes.Draw(t, "sizes"), types.Draw(t, "types")
	bounded := rapid.Bool().Draw(t, "bounded")
	for i := range nodes {
		n := &nodes[i]
		n.Name = fmt.Sprint("n", i)
		n.Rack = fmt.Sprint("r", rapid.IntRange(0, racks-1).Draw(t, "rack"))
		n.GPUs = rapid.SampledFrom(size).Draw(t, "gpus")
		n.Type = rapid.SampledFrom(kind).Draw(t, "type")
		if rapid.IntRange(1, 4).Draw(t, "foreign") == 1 {
			n.Others = sched.GPUSet(rapid.Uint64Range(1, uint64(sched.FirstGPUs(n.GPUs))).Draw(t, "others"))
		}
		n.Labels, n.Dedicated = drawMarks(t), rapid.IntRange(1, 12).Draw(t, "kept") == 1
		n.Seats = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "seats")
		n.State = rapid.SampledFrom([]sched.NodeState{sched.Ready, sched.Ready, sched.Ready, sched.Cordoned, sched.Down}).Draw(t, "state")
		if bounded {
			n.CPUs = rapid.SampledFrom([]int{0, 2 * n.GPUs, 4 * n.GPUs}).Draw(t, "cpus")
			n.Memory = int64(rapid.SampledFrom([]int{0, 8 * n.GPUs}).Draw(t, "memory")) * gib
			n.GPUMemory = int64(rapid.SampledFrom([]int{0, 16, 80}).Draw(t, "gpu memory")) * gib
		}
		if n.GPUs >= 4 && rapid.Bool().Draw(t, "islands") {
			half := n.GPUs / 2
			n.Islands = []sched.GPUSet{sched.FirstGPUs(half), sched.FirstGPUs(half) << half}
		}
	}
	return nodes
}

// drawMarks draws the labels of a node; most have none.
func drawMarks(t *rapid.T) []string {
	return rapid.SampledFrom([][]string{nil, nil, nil, {"m0"}, {"m1"}, {"m0", "m1"}}).Draw(t, "marks")
}

// drawTenant draws a tenant, maybe with a parent: one that does not exist, or that is below
// it, counts as none.
func drawTenant(t *rapid.T, i int) *sched.Tenant {
	id := sched.TenantID(fmt.Sprint("t", i))
	parent := rapid.SampledFrom([]sched.TenantID{"", "", "t0", "t1"}).Draw(t, "parent")
	if parent == id {
		parent = ""
	}
	return &sched.Tenant{
		ID:     id,
		Parent: parent,
		Weight: rapid.SampledFrom([]float64{0, 1, 2.5}).Draw(t, "weight"),
		Quota:  rapid.SampledFrom([]int{0, 0, 1, 3, 6, 10}).Draw(t, "quota"),
		Borrow: rapid.Bool().Draw(t, "borrow"),
		Max:    rapid.SampledFrom([]int{0, 0, 6}).Draw(t, "max"),
	}
}

// DrawJob draws a job, rigid or elastic, with or without constraints.
func DrawJob(t *rapid.T, id sched.JobID) sched.Spec {
	pick := func(label string, odds int) bool { return rapid.IntRange(1, odds).Draw(t, label) == 1 }
	spec := sched.Spec{
		ID:       id,
		Tenant:   rapid.SampledFrom([]sched.TenantID{"", "t0", "t1", "t2", "unknown"}).Draw(t, "tenant"),
		User:     rapid.SampledFrom([]string{"", "u0", "u1"}).Draw(t, "user"),
		App:      rapid.SampledFrom([]sched.AppID{"", "app"}).Draw(t, "app"),
		GPUs:     rapid.SampledFrom([]int{1, 1, 1, 2, 2, 4, 8, 3, 12}).Draw(t, "gpus"),
		Priority: rapid.IntRange(-1, 2).Draw(t, "priority"),
		Estimate: sched.Duration(rapid.SampledFrom([]time.Duration{0, time.Minute, 20 * time.Minute, time.Hour}).Draw(t, "estimate")),
		GPUUtil:  rapid.SampledFrom([]float64{0, 0.2, 0.9}).Draw(t, "util"),
	}
	if pick("elastic", 4) {
		spec.MinGPUs, spec.MaxGPUs = 1, 2*spec.GPUs
	} else if pick("tasks", 3) && spec.GPUs%2 == 0 {
		spec.TaskGPUs = 2
	}
	if pick("types", 3) {
		spec.GPUTypes = rapid.SampledFrom([][]sched.GPUType{{"t4"}, {"h200", "t4"}, {"none"}}).Draw(t, "which")
	}
	if pick("needs", 3) {
		spec.CPUs = rapid.IntRange(0, 4).Draw(t, "cpus")
		spec.Memory = int64(rapid.IntRange(0, 10).Draw(t, "memory")) * gib
		spec.GPUMemory = int64(rapid.SampledFrom([]int{0, 10, 40}).Draw(t, "gpu memory")) * gib
	}
	if pick("near", 3) {
		spec.MaxSpread = rapid.SampledFrom([]sched.Level{sched.SameSlot, sched.SameMachine, sched.SameRack, sched.CrossRack}).Draw(t, "widest")
	}
	if pick("mark", 4) {
		spec.Selector = rapid.SampledFrom([]string{"m0", "m0", "m1", "nobody"}).Draw(t, "needed mark")
	}
	spec.NonPreemptible = pick("pinned", 6)
	spec.Protected = pick("protected", 4)
	spec.Consolidate = pick("consolidate", 4)
	spec.Shareable = pick("shareable", 4)
	return spec
}

// Stir lets one random thing happen: time passes, jobs arrive, end, fail or report
// their speed, nodes lose or get labels, tenants change, others take GPUs that no
// job holds or return them.
func (w *World) Stir(t *rapid.T) {
	jobs := w.State.Snapshot(w.Now).Jobs
	switch rapid.SampledFrom([]string{"submit", "submit", "submit", "time", "time", "end", "fail", "node", "others", "marks", "tenant", "can", "report", "report"}).Draw(t, "event") {
	case "submit":
		for range rapid.IntRange(1, 4).Draw(t, "jobs") {
			spec := DrawJob(t, sched.JobID(fmt.Sprint("j", len(w.Length))))
			if w.ruled {
				spec.Topology = drawRules(t, &spec)
			}
			w.must(t, w.Submit(spec, time.Hour))
		}
	case "time":
		w.Now = w.Now.Add(rapid.SampledFrom([]time.Duration{time.Nanosecond, time.Second, 7 * time.Minute, 10 * time.Minute, 5 * time.Hour}).Draw(t, "passes"))
	case "end":
		if len(jobs) > 0 {
			w.must(t, w.Apply(sched.Event{Kind: sched.JobEnded, Job: rapid.SampledFrom(jobs).Draw(t, "job").ID, Phase: sched.Finished}))
		}
	case "fail":
		if len(jobs) > 0 {
			if j := rapid.SampledFrom(jobs).Draw(t, "job"); j.Phase == sched.Running {
				e := sched.Event{Kind: sched.JobFailed, Job: j.ID, Until: w.Now.Add(5 * time.Minute)}
				if rapid.Bool().Draw(t, "blame") {
					e.Avoid = []string{w.State.Cluster().Nodes[j.Placement[0].Node].Name}
				}
				w.must(t, w.Apply(e))
			}
		}
	case "can":
		if len(jobs) > 0 {
			if j := rapid.SampledFrom(jobs).Draw(t, "job"); j.Phase == sched.Running {
				can := rapid.SampledFrom([]sched.Ability{sched.Saves, sched.Resizes}).Draw(t, "ability")
				w.must(t, w.Apply(sched.Event{Kind: sched.JobReported, Job: j.ID, Can: can}))
			}
		}
	case "report":
		if len(jobs) > 0 {
			if j := rapid.SampledFrom(jobs).Draw(t, "job"); j.Phase == sched.Running {
				w.must(t, w.Apply(sched.Event{Kind: sched.JobReported, Job: j.ID, Can: sched.Resizes, Perf: w.drawReport(t, j)}))
			}
		}
	case "node":
		node := rapid.IntRange(0, len(w.State.Cluster().Nodes)-1).Draw(t, "node")
		switch state := rapid.SampledFrom([]sched.NodeState{sched.Ready, sched.Ready, sched.Cordoned, sched.Down}).Draw(t, "state"); state {
		case sched.Down:
			w.must(t, w.Down(node))
		default:
			w.must(t, w.SetNode(node, state))
		}
	case "others":
		w.others(t, rapid.IntRange(0, len(w.State.Cluster().Nodes)-1).Draw(t, "node"))
	case "marks":
		n := w.State.Cluster().Nodes[rapid.IntRange(0, len(w.State.Cluster().Nodes)-1).Draw(t, "node")]
		n.Labels = drawMarks(t)
		n.Seats = rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "seats")
		if w.ruled {
			n.Domains = drawDomains(t)
			n.Rack = n.Domains[1].Name
		}
		w.must(t, w.Apply(sched.Event{Kind: sched.NodeJoined, Node: &n}))
	case "tenant":
		w.must(t, w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: drawTenant(t, rapid.IntRange(0, 2).Draw(t, "tenant"))}))
	}
}

// drawReport draws what the agent of a running job may say of its speed: jobs that scale
// well, badly or not at all, that adapt their batch size or keep it, with and without what
// policies need that plan by steps.
func (w *World) drawReport(t *rapid.T, j *sched.Job) *goodput.Report {
	batch := rapid.SampledFrom([]int{1, 32, 128}).Draw(t, "batch")
	limits := goodput.Limits{Initial: batch, Max: batch * rapid.SampledFrom([]int{1, 8}).Draw(t, "largest"), LocalMin: max(1, batch/16), LocalMax: batch}
	r := &goodput.Report{
		Params:   map[string]goodput.Params{},
		Noise:    rapid.SampledFrom([]float64{0, 100, 1e5}).Draw(t, "noise"),
		Limits:   limits,
		MostGPUs: rapid.SampledFrom([]int{1, 2 * j.Placement.GPUs(), 64}).Draw(t, "most"),
		Restart:  rapid.SampledFrom([]float64{0, 3, 300}).Draw(t, "restart"),
	}
	if limits.Max == batch || rapid.Bool().Draw(t, "fixed") {
		r.Fixed = batch
	}
	node := w.State.Cluster().Nodes[j.Placement[0].Node]
	step := rapid.SampledFrom([]float64{0.01, 1}).Draw(t, "step")
	sync := step * rapid.SampledFrom([]float64{0, 0.1, 10}).Draw(t, "sync")
	r.Params[string(node.Type)] = goodput.Params{
		AlphaGrad: step / 10, BetaGrad: step / float64(batch), AlphaLocal: sync / 2, BetaLocal: sync / 20, AlphaNode: sync, BetaNode: sync / 10, Gamma: 1.5,
	}
	if rapid.Bool().Draw(t, "steps") {
		r.Left = rapid.SampledFrom([]float64{0, 10, 1e6}).Draw(t, "left")
		for k := range r.MostGPUs {
			r.Steps = append(r.Steps, step/float64(k+1)+sync*float64(k))
		}
	}
	return r
}

// others lets programs outside Fairway hold other GPUs of a node: any that no job
// holds.
func (w *World) others(t *rapid.T, node int) {
	n := w.State.Cluster().Nodes[node]
	may := sched.FirstGPUs(n.GPUs)
	for _, j := range w.State.Snapshot(w.Now).Jobs {
		for _, s := range j.Placement {
			if int(s.Node) == node {
				may &^= s.GPUs
			}
		}
	}
	n.Others = may & sched.GPUSet(rapid.Uint64Range(0, uint64(sched.FirstGPUs(n.GPUs))).Draw(t, "others"))
	w.must(t, w.Apply(sched.Event{Kind: sched.NodeJoined, Node: &n}))
}

// Shuffled returns the snapshot with its jobs in another order, and the former
// index of each: a policy must not depend on the order.
func Shuffled(t *rapid.T, s *sched.Snapshot) (*sched.Snapshot, []int) {
	index := make([]int, len(s.Jobs))
	for i := range index {
		index[i] = i
	}
	index = rapid.Permutation(index).Draw(t, "permutation")
	other := *s
	other.Jobs = make([]*sched.Job, len(s.Jobs))
	for i, from := range index {
		other.Jobs[i] = s.Jobs[from]
	}
	return &other, index
}
