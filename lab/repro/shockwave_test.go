// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Two GPUs and four jobs: the contention of the trace is 2. The first job takes an hour
// alone and four here, and the last two jobs are there for the second half of its life.
func TestShockwaveMetrics(t *testing.T) {
	hour := sched.Duration(time.Hour)
	w := &sim.Workload{Work: []sim.Work{{RunTime: hour}, {RunTime: 2 * hour}, {RunTime: hour}, {RunTime: hour}}}
	res := &sim.Result{Cluster: sim.ClusterShape{GPUs: 2}, Jobs: []sim.JobResult{
		{Submit: 0, End: 4 * 3600, JCT: 4 * 3600},
		{Submit: 0, End: 4 * 3600, JCT: 4 * 3600},
		{Submit: 2 * 3600, End: 4 * 3600, JCT: 2 * 3600},
		{Submit: 2 * 3600, End: 4 * 3600, JCT: 2 * 3600},
	}}
	var r ShockwaveRun
	r.measure(res, w)
	// Static: 4 h over 1 h times 2. Dynamic: 3 jobs on average, 1.5 for each GPU.
	if r.Static != 2 || math.Abs(r.Dynamic-4/1.5) > 1e-9 || r.Unfair != 0.25 {
		t.Errorf("rho %g and %g, unfair %g; want 2, %g and 0.25", r.Static, r.Dynamic, r.Unfair, 4/1.5)
	}
}

// TestShockwaveArtifact: on the trace of the artifact, shockwave is ahead of themis.
func TestShockwaveArtifact(t *testing.T) {
	const folder = "../../../shared/data/shockwave/scheduler"
	if _, err := os.Stat(folder); err != nil || testing.Short() {
		t.Skip("no Shockwave artifact here")
	}
	var got [2]ShockwaveRun
	for i, spec := range []string{"shockwave:round=2m", "themis:lease=2m"} {
		var err error
		if got[i], err = runShockwave(os.DirFS(folder), shockwaveTraces[0].file, shockwaveTraces[0].cluster, shockwaveRun{spec: spec, restart: 20 * time.Second}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", got[i])
	}
	if ours, themis := got[0], got[1]; ours.Makespan > 0.8*themis.Makespan || ours.Static > 0.7*themis.Static || ours.Makespan > 1.05*shockwaveReference[0].Makespan {
		t.Errorf("makespan %.2f h, worst rho %.2f; themis %.2f h, %.2f", ours.Makespan, ours.Static, themis.Makespan, themis.Static)
	}
}
