// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

func TestCSV(t *testing.T) {
	r := &sim.Result{Summary: sim.Summary{Policy: "las"}, Jobs: []sim.JobResult{
		{
			ID: "b,1", App: "search", Tenant: "vision", Model: "resnet\"50\"", GPUs: 4, Submit: 0.5, Start: 10, End: 1e7,
			Outcome: sched.Cancelled, JCT: 9999999.5, Wait: 9.5, Queued: 20, Ran: 30, GPUSeconds: 120, Restarts: 1,
			Preemptions: 2, Moves: 3, Failures: 4, Rho: 1.25, PaperRho: 0.75, WaitFor: sched.Fragmented, Plain: true,
		},
		{ID: "a", App: "a", GPUs: 1, Start: -1, End: -1, JCT: -1, Rho: math.NaN()},
	}}
	want := "policy,id,app,tenant,model,gpus,submit_s,start_s,end_s,outcome,jct_s,wait_s,queued_s,ran_s," +
		"gpu_seconds,restarts,preemptions,moves,failures,rho,rho_paper,wait_for,plain\n" +
		"las,\"b,1\",search,vision,\"resnet\"\"50\"\"\",4,0.5,10,10000000,killed,9999999.5,9.5,20,30,120,1,2,3,4,1.25,0.75,fragmented,true\n" +
		"las,a,a,,,1,0,-1,-1,pending,-1,0,0,0,0,0,0,0,0,,0,ok,false\n"
	var b bytes.Buffer
	if err := WriteCSV(&b, r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("CSV (-want +got):\n%s", diff)
	}
	b.Reset()
	r.Hardware, r.Jobs = &sim.HardwareSummary{}, []sim.JobResult{{ID: "c", ETTR: 0.97}}
	if err := WriteCSV(&b, r); err != nil || !strings.Contains(b.String(), ",plain,ettr\n") || !strings.HasSuffix(b.String(), ",false,0.97\n") {
		t.Errorf("with hardware that fails: %v\n%s", err, b.String())
	}
}

func TestCSVHasEveryFieldOfAJob(t *testing.T) {
	var want, got []string
	for f := range reflect.TypeFor[sim.JobResult]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "runs" {
			want = append(want, name)
		}
	}
	for _, c := range jobColumns {
		got = append(got, c.name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-fields +columns):\n%s", diff)
	}
}

type brokenPipe struct{}

var errPipe = errors.New("broken pipe")

func (brokenPipe) Write([]byte) (int, error) { return 0, errPipe }

func TestWritersReturnTheError(t *testing.T) {
	r := &sim.Result{}
	if err := WriteCSV(brokenPipe{}, r); !errors.Is(err, errPipe) {
		t.Errorf("WriteCSV = %v; want %v", err, errPipe)
	}
	if err := Write(brokenPipe{}, []*sim.Result{r}); !errors.Is(err, errPipe) {
		t.Errorf("Write = %v; want %v", err, errPipe)
	}
}
