// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

func noMachine(c *Config) { c.Node = sched.Node{} }

func (d *desk) setNodes(nodes ...sched.Node) {
	d.t.Helper()
	if err := d.SetNodes(d.t.Context(), nodes); err != nil {
		d.t.Fatal(err)
	}
}

// nodeText prints the nodes that people see, with what others hold.
func (d *desk) nodeText() string {
	d.t.Helper()
	nodes, err := d.Nodes(admin)
	if err != nil {
		d.t.Fatal(err)
	}
	var out []string
	for _, n := range nodes {
		text := fmt.Sprintf("%s:%d", n.Name, n.GPUs)
		if n.State == sched.Cordoned {
			text += " cordoned"
		}
		if n.Others != 0 {
			text += " others " + n.Others.String()
		}
		for _, s := range n.Slots {
			if len(s.Jobs) > 0 {
				text += fmt.Sprintf(" %d=%s", s.Index, s.Jobs[0])
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func (d *desk) wantNodes(want string) {
	d.t.Helper()
	if got := d.nodeText(); got != want {
		d.t.Errorf("nodes are %q; want %q", got, want)
	}
}

func onNode(node int32, gpus sched.GPUSet) sched.Slice {
	return sched.Slice{Node: node, Milli: sched.WholeGPU, GPUs: gpus}
}

func TestSetNodes(t *testing.T) {
	d := open(t, noMachine)
	d.wantNodes("")
	a, b := sched.Node{Name: "a", GPUs: 4, Type: "h200"}, sched.Node{Name: "b", GPUs: 4, Type: "h200"}
	d.setNodes(a, b)
	d.wantNodes("a:4, b:4")
	seq := d.mem.Seq
	d.setNodes(b, a)
	if d.mem.Seq != seq {
		t.Errorf("the same nodes in another order left %d records", d.mem.Seq-seq)
	}

	job := d.submit(admin, submission("j", 4))
	d.decide(wants{job: {onNode(0, 0b0011), onNode(1, 0b0011)}})
	b.Others = 0b0001 // as many, not these
	d.setNodes(a, b)
	d.wantNodes("a:4 0=" + string(job) + " 1=" + string(job) + ", b:4 others 2 0=" + string(job) + " 1=" + string(job))

	// Others who stay keep what they were given, and more get what is free.
	b.Others = 0b0111
	d.setNodes(a, b)
	if n := d.mem.state.Cluster().Nodes[1]; n.Others != 0b1100 {
		t.Errorf("others %s of b; want 2-3: a job holds the rest", n.Others)
	}

	d.setNodes(a) // b is gone, and the job with it
	d.wantNodes("a:4")
	if j := d.job(job); j.Status.Phase != sched.Pending {
		t.Errorf("a job of a node that is gone is %s; want it pending", j.Status.Phase)
	}
	if got := d.Withdrawn(); len(got) != 1 {
		t.Errorf("leaving %v; want the attempt", got)
	}
	d.setNodes(a, sched.Node{Name: "b", GPUs: 8, Type: "a100"}) // it is back, as another
	if i, _ := d.mem.state.Cluster().Node("b"); i != 1 {
		t.Errorf("b has number %d now; want 1", i)
	}
	d.wantNodes("a:4, b:8")

	// All of it survives a restart.
	again := reopen(t, d.tape.copyTape(), d.clock, noMachine)
	again.wantNodes("a:4, b:8")
}

func TestSetNodesKeepsJobs(t *testing.T) {
	d := open(t, noMachine)
	a := sched.Node{Name: "a", GPUs: 4, Type: "h200", CPUs: 16, Memory: 64}
	d.setNodes(a)
	s := submission("j", 2)
	s.CPUs, s.Memory = 4, 16
	job := d.submit(admin, s)
	d.decide(wants{job: {onNode(0, 0b0011)}})
	a.CPUs, a.Memory = 1, 1 // others took more than there is
	d.setNodes(a)
	if n := d.mem.state.Cluster().Nodes[0]; n.CPUs != 8 || n.Memory != 32 {
		t.Errorf("the node has %d CPUs and %d bytes; want the 8 and 32 that its job holds", n.CPUs, n.Memory)
	}
	d.decide(wants{job: {onNode(0, 0b0011)}})
	d.wantRunning(map[string]string{string(job) + ".1": "0-1"})

	a.GPUs = 1
	d.setNodes(a)
	d.wantRunning(map[string]string{})
}

func TestSetNodesRespectsCordons(t *testing.T) {
	d := open(t, noMachine)
	a := sched.Node{Name: "a", GPUs: 4}
	d.setNodes(a)
	if _, err := d.SetNode(t.Context(), admin, "a", sched.Cordoned); err != nil {
		t.Fatal(err)
	}
	d.setNodes(a)
	d.wantNodes("a:4 cordoned")
	d = reopen(t, d.tape.copyTape(), d.clock, noMachine)
	d.setNodes(a)
	d.wantNodes("a:4 cordoned")
	if _, err := d.SetNode(t.Context(), admin, "a", sched.Ready); err != nil {
		t.Fatal(err)
	}
	d.setNodes(a)
	d.wantNodes("a:4")

	a.State = sched.Cordoned // by the cluster
	d.setNodes(a)
	d.wantNodes("a:4 cordoned")
	a.State = sched.Ready
	d.setNodes(a)
	d.wantNodes("a:4")
}

// TestOthersComeInBetween: a decision on a snapshot from before others came does
// not give their GPUs away.
func TestOthersComeInBetween(t *testing.T) {
	d := open(t, noMachine)
	a := sched.Node{Name: "a", GPUs: 2}
	d.setNodes(a)
	job := d.submit(admin, submission("j", 2))
	decision := d.decision(wants{job: {onNode(0, 0b11)}})
	a.Others = 0b1
	d.setNodes(a)
	if err := d.Apply(t.Context(), decision); err != nil {
		t.Fatal(err)
	}
	d.wantRunning(map[string]string{})
	if err := d.SetNodes(t.Context(), []sched.Node{a, a}); err == nil {
		t.Error("a node that is there twice was accepted")
	}
	if err := d.SetNodes(t.Context(), []sched.Node{{Name: "x", GPUs: -1}}); err == nil {
		t.Error("a node that cannot be was accepted")
	}
}

// BenchmarkSetNodes is a list of 1,000 nodes of which one has changed.
func BenchmarkSetNodes(b *testing.B) {
	d := open(b, noMachine)
	nodes := make([]sched.Node, 1000)
	for i := range nodes {
		nodes[i] = sched.Node{Name: fmt.Sprintf("n%03d", i), GPUs: 8, Type: "h200", Rack: fmt.Sprint("r", i/16), CPUs: 128, Memory: 1 << 40}
	}
	d.setNodes(nodes...)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		nodes[i%1000].Others ^= 0b11
		d.setNodes(nodes...)
	}
}

// TestFailedDay: a failure is counted for a day.
func TestFailedDay(t *testing.T) {
	d := open(t)
	id := d.submit(ann, submission("a", 1))
	d.decide(wants{id: on(0)})
	d.exited(api.Exit{AttemptID: api.AttemptID{Job: id, Number: 1}, Code: 1})
	d.wantState(id, api.Failed)
	for _, want := range []int{1, 0} {
		if o, err := d.Overview(admin); err != nil || o.FailedDay != want || o.Failed != 1 {
			t.Errorf("overview has %d failures of %d, %v; want %d of 1", o.FailedDay, o.Failed, err, want)
		}
		d.clock.add(25 * time.Hour)
	}
}

// TestOverviewOfWaits: the overview counts why jobs wait and how much of the GPUs'
// work counts, and a job that waits for room is told of nodes in quarantine.
func TestOverviewOfWaits(t *testing.T) {
	d := open(t)
	a, b := d.submit(ann, submission("a", 1)), d.submit(ann, submission("b", 1))
	d.submit(ann, submission("c", 1))
	d.decide(wants{a: on(0)})
	d.report(a, 1, api.AgentReport{Done: 1, Rate: 1, Point: &api.Point{Efficiency: 0.75}})
	o, err := d.Overview(admin)
	if err != nil || o.WaitingFor["behind"]+o.WaitingFor["full"] != 2 || o.Reporting != 1 || o.Useful != 0.75 {
		t.Errorf("overview %+v, %v; want two that wait for room, and 0.75 of one GPU", o, err)
	}
	d.mu.Lock()
	d.mem.jobs[b].reason.Code = sched.Full
	d.mem.Quarantines = map[string]diagnose.NodeChange{"x": {Node: "x", State: diagnose.Quarantined}, "y": {Node: "y", State: diagnose.Withheld}}
	d.mu.Unlock()
	j, err := d.Job(admin, b)
	if err != nil || j.Reason == nil || !strings.HasSuffix(j.Reason.Text, "; nodes in quarantine: 1") {
		t.Errorf("reason %+v, %v; want it to tell of one node", j.Reason, err)
	}
}
