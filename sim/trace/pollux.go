// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Format pollux: the workloads of the Pollux evaluation (OSDI'21).
//
//	name,time,application,num_replicas,batch_size
//
//	name          the job's id
//	time          seconds since the beginning, the time of submission
//	application   the model: cifar10, ncf, deepspeech2, bert, yolov3, imagenet
//	num_replicas  GPUs the user asks for
//	batch_size    of all GPUs together
//
// There is no run time: the job trains its model to the end. The job is elastic, from
// one GPU to as many as the model's largest batch can use, and lets its batch size
// change; a policy that does neither runs it at GPUs and BatchSize. A model that is
// not in the table below stays rigid.

// polluxApp is a model of the Pollux evaluation, table 1 of the paper, with
// the batch limits of its published measurements.
type polluxApp struct {
	name     string
	share    float64 // of the jobs
	initial  int     // batch size of the learning rate
	most     int     // largest batch of all GPUs
	localMin int     // batch of one GPU
	localMax int
	fixed    bool // the simulator of the paper never scales it
	tuned    []polluxSize
}

// polluxSize is a size that the evaluation's tuned jobs have.
type polluxSize struct {
	gpus, batch int
	weight      float64
}

// polluxApps is in the order of the paper's classes, small to large. The sizes
// count the jobs of the published workloads 1, 3 and 6 at loads 0.5, 1.0,
// 1.5 and 2.0 (2,400 jobs); each is a size and batch that reaches 50 to 80 % of the
// ideal speed-up, so they vary little within a model.
var polluxApps = [...]polluxApp{
	{name: "cifar10", share: 0.36, initial: 128, most: 4096, localMin: 32, localMax: 1024, tuned: []polluxSize{
		{6, 2048, 242}, {8, 2048, 219}, {12, 4096, 239}, {16, 4096, 211}}},
	{name: "ncf", share: 0.36, initial: 256, most: 32768, localMin: 32, localMax: 32768, fixed: true, tuned: []polluxSize{
		{1, 32768, 944}}},
	{name: "deepspeech2", share: 0.10, initial: 20, most: 640, localMin: 10, localMax: 80, tuned: []polluxSize{
		{6, 320, 66}, {8, 320, 68}, {12, 640, 86}}},
	{name: "bert", share: 0.10, initial: 12, most: 384, localMin: 4, localMax: 12, tuned: []polluxSize{
		{6, 384, 54}, {8, 384, 30}, {12, 384, 49}, {16, 384, 45}}},
	{name: "yolov3", share: 0.06, initial: 8, most: 512, localMin: 4, localMax: 8, tuned: []polluxSize{
		{4, 64, 110}}},
	{name: "imagenet", share: 0.02, initial: 200, most: 12800, localMin: 20, localMax: 200, tuned: []polluxSize{
		{24, 3200, 12}, {32, 6400, 19}, {48, 6400, 6}}},
}

func polluxAppNamed(name string) *polluxApp {
	for i := range polluxApps {
		if polluxApps[i].name == name {
			return &polluxApps[i]
		}
	}
	return nil
}

// adapt makes a job elastic within what its model can use.
func (a *polluxApp) adapt(w *sim.Work) {
	w.Batch = sched.Batch{Initial: a.initial, Max: a.most, LocalMin: a.localMin, LocalMax: a.localMax, Adapt: !a.fixed}
	if a.fixed {
		if w.GPUs > 1 { // one GPU is enough for it; a user asked for more
			w.MinGPUs, w.MaxGPUs = 1, w.GPUs
		}
		return
	}
	w.MinGPUs, w.MaxGPUs = 1, max(w.GPUs, a.most/a.localMin)
}

func readPollux(br *bufio.Reader, b *builder) error {
	b.wl.Source = "Pollux workload (OSDI'21)"
	b.wl.Start = Epoch
	t := headed("name", "time", "application", "num_replicas", "batch_size")
	return t.read(br, b, func(r *row) error {
		w := sim.Work{Spec: sched.Spec{
			ID:        sched.JobID(r.text("name")),
			Submitted: r.since("time", time.Second),
			GPUs:      r.count("num_replicas"),
			Model:     zooName(r.text("application")),
		}, BatchSize: r.count("batch_size")}
		switch {
		case w.ID == "":
			r.refuse("name", "want a name; it is the job's id")
		case w.Model == "":
			r.refuse("application", "want the name of a model; the job's length follows from it")
		}
		if r.bad != nil {
			return nil
		}
		if w.GPUs == 0 {
			b.drop(noGPUs)
			return nil
		}
		if app := polluxAppNamed(w.Model); app != nil {
			app.adapt(&w)
		}
		return b.add(w, r.line)
	})
}

// noGPUs is the reason to drop jobs that only use CPUs, in every format.
const noGPUs = "asks for no GPUs"

// fit returns the tuned size and batch nearest to what a cluster can hold. A model
// whose sizes are all too large gets all GPUs and the batch that fits on them.
func (a *polluxApp) fit(most int, u float64) polluxSize {
	var total float64
	smallest := a.tuned[0]
	for _, s := range a.tuned {
		if s.gpus <= most {
			total += s.weight
		}
		if s.gpus < smallest.gpus {
			smallest = s
		}
	}
	if total == 0 {
		batch := max(a.localMin*most, min(smallest.batch, a.localMax*most))
		return polluxSize{gpus: most, batch: batch}
	}
	left := u * total
	var last polluxSize
	for _, s := range a.tuned {
		if s.gpus > most {
			continue
		}
		last = s
		if left -= s.weight; left < 0 {
			break
		}
	}
	return last
}
