// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// brief prints the parts of a job that readers set.
func brief(w *sim.Work) string {
	var b strings.Builder
	add := func(name string, value any, show bool) {
		if show {
			fmt.Fprintf(&b, " %s=%v", name, value)
		}
	}
	fmt.Fprintf(&b, "%s %s gpus=%d", w.ID, w.Submitted.Format("2006-01-02T15:04:05.999"), w.GPUs)
	add("range", fmt.Sprintf("%d-%d", w.MinGPUs, w.MaxGPUs), w.MaxGPUs > 0)
	add("task", w.TaskGPUs, w.TaskGPUs > 0)
	add("milli", w.MilliGPU, w.MilliGPU > 0)
	add("types", w.GPUTypes, len(w.GPUTypes) > 0)
	add("cpus", w.CPUs, w.CPUs > 0)
	add("memory", w.Memory, w.Memory > 0)
	add("app", w.App, w.App != "")
	add("tenant", w.Tenant, w.Tenant != "")
	add("user", w.User, w.User != "")
	add("priority", w.Priority, w.Priority != 0)
	add("model", w.Model, w.Model != "")
	add("batch", w.BatchSize, w.BatchSize > 0)
	add("run", w.RunTime, w.RunTime > 0)
	add("outcome", w.Outcome, w.Outcome != 0)
	for _, f := range w.Failures {
		add("fail", fmt.Sprintf("%s:%s", f.After, strings.ReplaceAll(f.Reason, " ", "_")), true)
	}
	return b.String()
}

func briefs(wl *sim.Workload) []string {
	var out []string
	for i := range wl.Work {
		out = append(out, brief(&wl.Work[i]))
	}
	return out
}

func readFile(t *testing.T, name string) (*sim.Workload, *Report) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	wl, report, err := Read(f, Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return wl, report
}

// files are the example files: what they are, and what is in them.
var files = []struct {
	name    string
	format  Format
	rows    int
	start   string
	tenants []sched.TenantID
	dropped []Count
	notes   []Count
	jobs    []string
}{
	{
		name: "native.jsonl", format: Native, rows: 3, start: "2024-05-06T08:00:00",
		tenants: []sched.TenantID{"vision", "speech"},
		jobs: []string{
			"a 2024-05-06T08:00:00 gpus=4 tenant=vision user=ann model=resnet50 run=2h",
			"b 2024-05-06T08:10:00 gpus=2 range=1-8 tenant=vision model=cifar10 batch=256",
			"c 2024-05-06T08:30:00 gpus=1 tenant=speech run=1m30s outcome=failed fail=40s:import_error fail=41s:import_error",
		},
	},
	{
		name: "pollux.csv", format: Pollux, rows: 4, start: "2018-01-01T00:00:00",
		dropped: []Count{{noGPUs, 1}},
		jobs: []string{
			"small-0 2018-01-01T00:01:00 gpus=6 range=1-128 model=cifar10 batch=1024",
			"rec-1 2018-01-01T00:02:34.5 gpus=1 model=ncf batch=16384",
			"mine-2 2018-01-01T00:05:30 gpus=8 model=my-net batch=320",
		},
	},
	{
		name: "rubick.csv", format: Rubick, rows: 3, start: "2018-01-01T00:00:00",
		dropped: []Count{{noGPUs, 1}},
		jobs: []string{
			"vit-a 2018-01-01T00:00:00 gpus=2 model=vit",
			"llama-b 2018-01-01T00:01:40 gpus=16 model=llama7",
		},
	},
	{
		name: "philly.json", format: Philly, rows: 7, start: "2017-10-08T23:00:00",
		tenants: []sched.TenantID{"vc-a", "vc-b"},
		dropped: []Count{{noGPUs, 1}, {"has no start or end of its last attempt", 1}, {"has no time of submission", 1}, {neverStarted, 1}},
		notes:   []Count{{"has an earlier attempt without times, left out", 1}},
		jobs: []string{
			"app_2 2017-10-08T23:00:00 gpus=1 tenant=vc-b user=u2 run=30s outcome=killed",
			"app_1 2017-10-09T07:01:00 gpus=4 tenant=vc-a user=u1 run=2h fail=1m30s:unknown",
			"app_3 2017-10-09T08:00:00 gpus=1 tenant=vc-b user=u2 run=20m outcome=failed fail=20m:unknown fail=1s:unknown",
		},
	},
	{
		name: "philly-gputime.csv", format: Philly, rows: 3, start: "2017-10-01T11:00:00",
		tenants: []sched.TenantID{"aa11", "bb22"},
		dropped: []Count{{noGPUs, 1}},
		jobs: []string{
			"job-000002 2017-10-01T11:00:00 gpus=8 tenant=bb22 run=50m",
			"job-000001 2017-10-01T12:00:30 gpus=1 tenant=aa11 run=1m30s",
		},
	},
	{
		name: "philly-rebuilt.csv", format: Philly, rows: 3, start: "2017-08-01T06:00:00",
		tenants: []sched.TenantID{"aa11", "bb22"},
		dropped: []Count{{"has no duration", 1}},
		jobs: []string{
			"job-000001 2017-08-01T06:00:00 gpus=1 tenant=aa11 run=1h",
			"job-000003 2017-08-01T06:02:00 gpus=4 tenant=bb22 run=1s",
		},
	},
	{
		name: "helios.csv", format: Helios, rows: 5, start: "2020-04-01T10:00:00",
		tenants: []sched.TenantID{"vc1", "vc2"},
		dropped: []Count{{noGPUs, 1}, {neverStarted, 1}},
		jobs: []string{
			"j1 2020-04-01T10:00:00 gpus=8 tenant=vc1 user=alice run=1h",
			"j2 2020-04-01T10:00:05 gpus=1 tenant=vc2 user=bob run=30s outcome=failed fail=30s:unknown",
			"j5 2020-04-01T10:00:08 gpus=2 tenant=vc1 user=carol run=24h outcome=killed",
		},
	},
	{
		name: "acme.csv", format: Acme, rows: 4, start: "2023-05-01T00:00:00",
		dropped: []Count{{"had not ended", 1}},
		jobs: []string{
			"dlc1 2023-05-01T00:00:00 gpus=32 user=u1 run=2h",
			"dlc2 2023-05-01T00:00:30 gpus=8 user=u2 run=1m outcome=failed fail=1m:node_failure",
			"dlc1-2 2023-05-01T00:05:00 gpus=1 user=u2 run=10s outcome=killed",
		},
	},
	{
		name: "alibaba.csv", format: Alibaba, rows: 8, start: "2018-01-01T00:00:00",
		dropped: []Count{{"had not ended", 1}, {"task asks for no GPUs", 1}},
		jobs: []string{
			"job2 2018-01-01T00:00:40 gpus=6 task=2 types=[v100] cpus=6 memory=30000000000 run=10m10s",
			"job1 2018-01-01T00:01:40 gpus=4 milli=500 types=[t4] cpus=6 memory=29000000000 run=5m",
			"job3 2018-01-01T00:08:20 gpus=1 milli=250 cpus=6 memory=29000000000 run=30s outcome=failed fail=30s:unknown",
			"job5 2018-01-01T00:11:40 gpus=2 cpus=6 memory=29000000000 run=1m",
		},
	},
	{
		name: "openb.csv", format: Openb, rows: 5, start: "2018-01-01T00:00:00",
		dropped: []Count{{noGPUs, 1}, {neverStarted, 1}},
		jobs: []string{
			"pod-1 2018-01-01T00:00:00 gpus=1 cpus=12 memory=17179869184 run=59m50s outcome=killed",
			"pod-2 2018-01-01T00:01:40 gpus=1 milli=460 types=[v100m16 v100m32] cpus=6 memory=12884901888 run=10m",
			"pod-3 2018-01-01T00:03:20 gpus=8 task=8 cpus=12 memory=17179869184 run=30s outcome=failed fail=30s:unknown",
		},
	},
	{
		name: "acme-sample.csv", format: Acme, rows: 3, start: "2018-01-01T00:00:00",
		jobs: []string{
			"0 2018-01-01T00:00:00 gpus=64 task=8 cpus=15 run=1m45s",
			"1 2018-01-01T00:05:13 gpus=2 task=2 cpus=13 run=1m18s",
			"2 2018-01-01T00:06:40 gpus=1 cpus=120 run=10s",
		},
	},
	{
		name: "tiresias.csv", format: Tiresias, rows: 3, start: "2018-01-01T00:00:00",
		jobs: []string{
			"0 2018-01-01T00:00:00 gpus=1 model=vgg19 run=2m30s",
			"1 2018-01-01T00:00:40 gpus=8 model=resnet50 run=3m20s",
			"1-2 2018-01-01T00:01:00 gpus=2 model=inception4 run=2m",
		},
	},
	{
		name: "tiresias-tf.csv", format: Tiresias, rows: 1, start: "2018-01-01T00:00:00",
		jobs: []string{"7 2018-01-01T00:00:15 gpus=12 model=vgg19 run=30s"},
	},
	{
		name: "muri.csv", format: Tiresias, rows: 2, start: "2018-01-01T00:00:00",
		jobs: []string{
			"0 2018-01-01T00:00:00 gpus=8 model=gpt2 batch=32 run=6m40s",
			"1 2018-01-01T00:01:30.5 gpus=1 model=vgg16 batch=16 run=7m20s",
		},
	},
	{
		name: "gavel-7.trace", format: Gavel, rows: 2, start: "2018-01-01T00:00:00",
		jobs: []string{
			"job-000001 2018-01-01T00:00:00 gpus=8 model=transformer batch=1024 run=16m40s",
			"job-000002 2018-01-01T00:00:06 gpus=1 model=cyclegan run=2h46m40s",
		},
	},
	{
		name: "gavel-10.trace", format: Gavel, rows: 2, start: "2018-01-01T00:00:00",
		jobs: []string{
			"job-000001 2018-01-01T00:00:00 gpus=4 priority=5 model=cifar10 batch=512 run=33m20s",
			"job-000002 2018-01-01T00:01:00 gpus=16 model=lm batch=160 run=16m40s",
		},
	},
	{
		name: "shockwave.trace", format: Gavel, rows: 4, start: "2018-01-01T00:00:00",
		jobs: []string{
			"job-000001 2018-01-01T00:00:00 gpus=2 model=resnet50 batch=128 run=5m",
			"job-000002 2018-01-01T00:00:50 gpus=1 model=lm batch=10 run=25m",
			"job-000003 2018-01-01T00:01:00 gpus=1 model=cifar10 batch=32 run=15m24.941s",
			"job-000004 2018-01-01T00:01:10 gpus=2 model=lm batch=10 run=1h0m14.754s",
		},
	},
}

func TestReadFiles(t *testing.T) {
	for _, f := range files {
		t.Run(f.name, func(t *testing.T) {
			wl, report := readFile(t, f.name)
			if diff := cmp.Diff(f.jobs, briefs(wl)); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
			var tenants []sched.TenantID
			for _, x := range wl.Tenants {
				tenants = append(tenants, x.ID)
			}
			if diff := cmp.Diff(f.tenants, tenants); diff != "" {
				t.Errorf("tenants (-want +got):\n%s", diff)
			}
			if got := wl.Start.Format("2006-01-02T15:04:05"); got != f.start {
				t.Errorf("start = %s; want %s", got, f.start)
			}
			want := &Report{Format: f.format, Rows: f.rows, Jobs: len(f.jobs), Dropped: f.dropped, Notes: f.notes}
			if diff := cmp.Diff(want, report); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// A job of Shockwave's trace changes its batch size where the artifact says: Accordion
// after the first critical epochs, GNS by doubling it.
func TestReadRegimes(t *testing.T) {
	wl, _ := readFile(t, "shockwave.trace")
	for i, want := range [][]sim.Regime{
		nil, // one epoch: too early for GNS
		nil, // static
		{{Batch: 32, Epochs: 10}, {Batch: 256, Epochs: 10}},
		{{Batch: 10, Epochs: 31}, {Batch: 20, Epochs: 9}},
	} {
		w := &wl.Work[i]
		var got []sim.Regime
		epochs, sum := 0.0, sched.Duration(0)
		for _, g := range w.Regimes {
			got = append(got, sim.Regime{Batch: g.Batch, Epochs: g.Epochs})
			epochs += g.Epochs
			sum += g.Time
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", w.ID, diff)
		}
		if want != nil && (w.Work != epochs || w.RunTime != sum || w.RunTime.D().Seconds() >= 4000) {
			t.Errorf("%s: work %g, run time %s; want the %g epochs and %s of its regimes, less than at the submitted batch size", w.ID, w.Work, w.RunTime, epochs, sum)
		}
	}
}

// What every job of a foreign trace has in common.
func TestReadFills(t *testing.T) {
	wl, _ := readFile(t, "helios.csv")
	for i := range wl.Work {
		w := &wl.Work[i]
		if !w.Shareable || w.Estimate != 0 || w.Work != w.RunTime.D().Seconds() {
			t.Errorf("%s: shareable %v, estimate %s, work %g; want true, none and the seconds of %s", w.ID, w.Shareable, w.Estimate, w.Work, w.RunTime)
		}
	}
}

func TestReadElastic(t *testing.T) {
	wl, _ := readFile(t, "pollux.csv")
	want := sched.Batch{Initial: 128, Max: 4096, LocalMin: 32, LocalMax: 1024, Adapt: true}
	if diff := cmp.Diff(want, wl.Work[0].Batch); diff != "" {
		t.Errorf("batch of cifar10 (-want +got):\n%s", diff)
	}
	if wl.Work[1].Batch.Adapt {
		t.Error("ncf may change its batch size; the evaluation pins it")
	}
}

func TestReadHeaderDecidesOrder(t *testing.T) {
	const csv = "duration,state,start_time,submit_time,gpu_num,user,job_id\n" +
		"60,COMPLETED,2023-05-01 08:00:00,2023-05-01 07:00:00,2,u,x\n"
	wl, _, err := Read(strings.NewReader(csv), Options{Format: Acme})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"x 2023-05-01T07:00:00 gpus=2 user=u run=1m"}
	if diff := cmp.Diff(want, briefs(wl)); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

func TestReadAlibabaHeader(t *testing.T) {
	text := strings.Join(alibabaColumns, ",") + "\njob1,worker,1,Terminated,0,60,600,29,100,T4\n"
	wl, report, err := Read(strings.NewReader(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Format != Alibaba || report.Rows != 1 || len(wl.Work) != 1 {
		t.Errorf("format %s, %d rows, %d jobs; want alibaba, 1 and 1", report.Format, report.Rows, len(wl.Work))
	}
}

func TestReadQuotesAndByteOrderMark(t *testing.T) {
	text := "\uFEFFname,time,application,num_replicas,batch_size\r\n" + `"a ""b"", c",1,cifar10,2,128` + "\r\n\r\n"
	wl, _, err := Read(strings.NewReader(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(wl.Work) != 1 || wl.Work[0].ID != `a "b", c` {
		t.Errorf("jobs = %v; want one named a \"b\", c", briefs(wl))
	}
}

func TestReadMaxJobs(t *testing.T) {
	f, err := os.Open("testdata/helios.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	wl, report, err := Read(f, Options{MaxJobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(wl.Work) != 2 || report.Jobs != 2 || !report.Truncated {
		t.Errorf("%d jobs, report %d, truncated %v; want 2, 2, true", len(wl.Work), report.Jobs, report.Truncated)
	}
}
