// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
)

// TestLacks: a job that can never run says which of its wishes is the one.
func TestLacks(t *testing.T) {
	for want, s := range map[string]sched.Spec{
		"it accepts GPUs of type H200, a100, and the nodes have h200":                 {GPUs: 1, GPUTypes: []sched.GPUType{"H200", "a100"}},
		"it needs 80 CPUs on one node, and the largest has 64":                        {GPUs: 2, TaskGPUs: 2, CPUs: 40},
		"it needs 200.0 GiB of memory on one node, and the largest has 128.0 GiB":     {GPUs: 1, Memory: 200 << 30},
		"it needs GPUs with 81.0 GiB of memory, and the largest have 80.0 GiB":        {GPUs: 1, GPUMemory: 81 << 30},
		"it needs 8 GPUs on one node, and the largest has 4":                          {GPUs: 8, TaskGPUs: 8},
		"needs 9 GPUs in the cluster of an accepted type; this cluster has at most 4": {GPUs: 9},
	} {
		d := open(t, func(c *Config) { c.Node.CPUs, c.Node.Memory, c.Node.GPUMemory = 64, 128<<30, 80<<30 })
		submitted := submission("x", s.GPUs)
		submitted.Spec, submitted.WaitForCapacity = s, true
		id := d.submit(ann, submitted)
		fifo, err := d.buildPolicy("fifo")
		if err != nil {
			t.Fatal(err)
		}
		d.decide(fifo)
		j := d.job(id)
		if j.Reason == nil || j.Reason.Code != "impossible" || !strings.HasSuffix(j.Reason.Text, want) {
			t.Errorf("%+v: %+v; want %q", s, j.Reason, want)
		}
	}
}

// TestOvertakesNot: a job that waits beside enough free GPUs says that others go first.
func TestOvertakesNot(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("runs", 2))
	d.submit(ann, submission("first", 4))
	id := d.submit(ann, submission("small", 1))
	fifo, err := d.buildPolicy("fifo")
	if err != nil {
		t.Fatal(err)
	}
	d.decide(fifo)
	const want = "needs 1 GPU; jobs ahead of it leave 2, and they go first"
	if j := d.job(id); j.Reason == nil || j.Reason.Text != want {
		t.Errorf("it waits because %+v; want %q", j.Reason, want)
	}
}

// TestBackOffSays: a job that waits for its next try says how the last one ended.
func TestBackOffSays(t *testing.T) {
	d := open(t)
	s := submission("x", 1)
	s.Retries = 3
	id := d.submit(ann, s)
	d.decide(wants{id: on(0)})
	e := exitOf(id, 1)
	e.Code, e.Why = 3, "no space left"
	d.exited(e)
	fifo, err := d.buildPolicy("fifo")
	if err != nil {
		t.Fatal(err)
	}
	d.decide(fifo)
	if r := d.job(id).Reason; r == nil || r.Code != "back-off" || !strings.HasSuffix(r.Text, "; the last attempt ended: rank 0 exited with code 3: no space left") {
		t.Errorf("it waits for %+v; want how the last attempt ended", r)
	}
}

// TestSelectorText: a job that no node suits names the label it selects, or what the
// label stands for where that is known.
func TestSelectorText(t *testing.T) {
	for label, want := range map[string]string{
		"gold":  "needs 1 GPU; no node with the label gold could hold it",
		"c-123": "needs 1 GPU; no node matching nodeSelector {disk=fast} could hold it",
		"":      "this cluster has at most 0, not counting dedicated nodes, whose taints it does not tolerate",
	} {
		d := open(t, func(c *Config) {
			c.Node.Dedicated = true
			c.DescribeLabel = func(label string) string { return map[string]string{"c-123": "nodeSelector {disk=fast}"}[label] }
		})
		s := submission("x", 1)
		s.Selector, s.WaitForCapacity = label, true
		id := d.submit(ann, s)
		fifo, err := d.buildPolicy("fifo")
		if err != nil {
			t.Fatal(err)
		}
		d.decide(fifo)
		if j := d.job(id); j.Reason == nil || !strings.HasSuffix(j.Reason.Text, want) {
			t.Errorf("label %q: %+v; want %q", label, j.Reason, want)
		}
	}
}
