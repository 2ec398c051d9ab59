// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// message is the wire form of a message of protocol buffers.
type message []byte

func (m message) number(field int, v uint64) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(field<<3)), v)
}

func (m message) with(field int, part []byte) message {
	m = binary.AppendUvarint(m, uint64(field<<3|2))
	return append(binary.AppendUvarint(m, uint64(len(part))), part...)
}

// smallGraph is an ONNX file of one fully connected layer, without its weights.
func smallGraph(t *testing.T) string {
	t.Helper()
	float := func(name string, dims ...uint64) message {
		var shape message
		for _, d := range dims {
			if d == 0 {
				shape = shape.with(1, message{}.with(2, []byte("batch")))
				continue
			}
			shape = shape.with(1, message{}.number(1, d))
		}
		tensor := message{}.number(1, 1).with(2, shape)
		return message{}.with(1, []byte(name)).with(2, message{}.with(1, tensor))
	}
	weights := message{}.number(1, 1024).number(1, 4096).number(2, 1).with(8, []byte("w"))
	graph := message{}.
		with(1, message{}.with(1, []byte("x")).with(1, []byte("w")).with(2, []byte("h")).with(4, []byte("MatMul"))).
		with(1, message{}.with(1, []byte("h")).with(2, []byte("y")).with(4, []byte("Relu"))).
		with(2, []byte("small")).with(5, weights).with(11, float("x", 0, 1024)).with(12, float("y", 0, 4096))
	model := message{}.number(1, 8).with(7, graph).with(8, message{}.number(2, 17))
	path := filepath.Join(t.TempDir(), "small.onnx")
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGraph: what a graph says fills in what the user did not.
func TestGraph(t *testing.T) {
	path := smallGraph(t)
	var said bytes.Buffer
	c := &cobra.Command{}
	c.SetErr(&said)
	job := func() api.Submission {
		return api.Submission{
			Spec: sched.Spec{GPUs: 2, GPUTypes: []sched.GPUType{"h200"}, Batch: sched.Batch{Initial: 64}}, Task: api.Task{Graph: path},
		}
	}
	jobs := []api.Submission{job(), job(), job()}
	jobs[1].GPUUtil, jobs[2].GPUTypes = 0.5, []sched.GPUType{"abacus"}
	if err := foresee(c, jobs, nil); err != nil {
		t.Fatal(err)
	}
	first := jobs[0]
	if !(first.GPUUtil > 0 && first.GPUUtil <= 1) || first.GPUMemory < 16<<20 || first.GPUMemory > 8<<30 {
		t.Errorf("predicted utilisation %g and %d bytes; want a share and some hundred MiB", first.GPUUtil, first.GPUMemory)
	}
	if p := first.Predicted; p == nil || !(p.UtilLow <= first.GPUUtil && first.GPUUtil <= p.UtilHigh) || p.Memory <= 0 || p.Memory > first.GPUMemory || !(p.StepLow > 0 && p.StepLow < p.StepHigh) {
		t.Errorf("utilisation %g, memory %d, predicted %+v; want them within it", first.GPUUtil, first.GPUMemory, p)
	}
	if jobs[1].GPUUtil != 0.5 || jobs[1].GPUMemory != first.GPUMemory {
		t.Errorf("with a utilisation given: %g, %d; want that, and the predicted memory", jobs[1].GPUUtil, jobs[1].GPUMemory)
	}
	if jobs[2].GPUUtil != 0 || !strings.Contains(said.String(), "no prediction") || !strings.Contains(said.String(), "batch 32 on each GPU") {
		t.Errorf("said %q, utilisation %g of a GPU that nobody knows", said.String(), jobs[2].GPUUtil)
	}
	jobs[0] = job()
	jobs[0].Graph = path + ".missing"
	if err := foresee(c, jobs[:1], nil); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a graph that is not there: %v; want an error that names it", err)
	}
}

// TestExplainUse: what was predicted, with its intervals, stands beside what was measured.
func TestExplainUse(t *testing.T) {
	job := api.Job{Spec: sched.Spec{GPUs: 2, GPUUtil: 0.38, GPUMemory: 12 << 30, Batch: sched.Batch{Initial: 64}}}
	job.Status.Perf = &goodput.Report{StepTimes: []goodput.StepTime{
		{GPUs: 1, Batch: 64, Time: 0.04}, {GPUs: 2, Batch: 64, Time: 0.03, Borrowed: true}, {GPUs: 2, Batch: 1, Time: 0.5}, {GPUs: 2, Batch: 64, Time: 0.0215},
	}}
	use := &api.Use{Util: 0.41, Memory: 9 << 30, Samples: 3}
	predicted := &api.PredictedUse{UtilLow: 0.31, UtilHigh: 0.47, Memory: 10 << 30, StepLow: sched.Duration(18 * time.Millisecond), StepHigh: sched.Duration(25 * time.Millisecond)}
	for _, c := range []struct {
		predicted *api.PredictedUse
		want      string
	}{
		{nil, "expected: 38 % busy, 12.0 GiB of memory; measured: 41 % busy, 9.0 GiB of memory"},
		{predicted, "expected: 38 % busy (31 to 47), 10.0 GiB (12.0 GiB booked) of memory, a step in 18 to 25 ms; measured: 41 % busy, 9.0 GiB of memory, a step in 21.5 ms"},
	} {
		g := &grid{}
		job.Predicted = c.predicted
		explainUse(g, api.Explanation{Job: job, Use: use})
		if got := g.rows[0][1]; got != c.want {
			t.Errorf("%q; want %q", got, c.want)
		}
	}
}
