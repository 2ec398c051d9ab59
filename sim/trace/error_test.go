// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	nativeHead   = `{"fairway":"workload","version":1,"name":"x","start":"2024-05-06T08:00:00Z"}` + "\n"
	polluxHead   = "name,time,application,num_replicas,batch_size\n"
	rubickHead   = "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla\n"
	phillyHead   = "timestamp,duration,num_gpus,gpu_time,cluster\n"
	heliosHead   = "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
	openbHead    = "name,num_gpu,gpu_milli,pod_phase,creation_time,deletion_time,scheduled_time\n"
	tiresiasHead = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
)

// malformed are files with one bad row each, and the error that names it.
var malformed = []struct {
	name   string
	format Format
	text   string
	want   string
}{
	{"native unknown field", Native, nativeHead + `{"id":"a","gpu":1}`,
		`f:2:11: gpu = "gpu": the format has no such field`},
	{"native wrong type", Native, nativeHead + `{"id":"a","gpus":"two"}`,
		`f:2:22: gpus = "string": want int`},
	{"native cut off", Native, nativeHead + `{"id":"a",`,
		`f:2:11: row = "{\"id\":\"a\",": not JSON: the object is not closed`},
	{"native two on a line", Native, nativeHead + `{"id":"a","submitted":"2024-05-06T09:00:00Z","gpus":1,"run_time":"1m"} {}`,
		`f:2:71: row = "{}": want one JSON object on a line and nothing behind it`},
	{"native no gpus", Native, nativeHead + `{"id":"a","submitted":"2024-05-06T09:00:00Z","run_time":"1m"}`,
		`f:2:1: job = "a": job a: gpus = 0; want 1 to 1048576`},
	{"native no length", Native, nativeHead + `{"id":"a","submitted":"2024-05-06T09:00:00Z","gpus":1}`,
		`f:2:1: job = "a": job a: run_time = 0s; want a run time, or a model to train to the end`},
	{"native failed without failures", Native, nativeHead + `{"id":"a","submitted":"2024-05-06T09:00:00Z","gpus":1,"run_time":"1m","outcome":"failed"}`,
		`f:2:1: job = "a": job a: failures = 0; want at least one in a job whose outcome is failed`},
	{"native before start", Native, nativeHead + `{"id":"a","submitted":"2024-05-06T07:00:00Z","gpus":1,"run_time":"1m"}`,
		`f:2:1: submitted = "2024-05-06 07:00:00 +0000 UTC": want a time not before the start, 2024-05-06 08:00:00 +0000 UTC`},
	{"native same id", Native, nativeHead + strings.Repeat(`{"id":"a","submitted":"2024-05-06T09:00:00Z","gpus":1,"run_time":"1m"}`+"\n", 2),
		`f:3:1: id = "a": line 2 has a job of that id; ids must differ`},
	{"native bare duration", Native, nativeHead + `{"id":"a","submitted":"2024-05-06T09:00:00Z","gpus":1,"run_time":60}`,
		`f:2:1: row = "{\"id\":\"a\",\"submitted\":\"2024-05-06T09:00:00Z\",\"gpus\":1,\"run_time\":60}": duration 60: want text with a unit, such as "10m"`},
	{"rubick no plan", Rubick, rubickHead + "a,1,9,vit,2,16,0,,10,0",
		`f:2:18: exec_plan = "": want the plan that the user chose`},
	{"rubick no steps", Rubick, rubickHead + "a,1,9,vit,2,16,0,ga,0,0",
		`f:2:21: steps = "0": want a number above 0`},
	{"rubick no model", Rubick, rubickHead + "a,1,9,,2,16,0,ga,5,0",
		`f:2:7: application = "": want the name of a model; its plans follow from it`},
	{"pollux count", Pollux, polluxHead + "a,1,bert,two,12",
		`f:2:10: num_replicas = "two": want a whole number from 0 to 1048576`},
	{"pollux negative time", Pollux, polluxHead + "a,1,bert,2,12\nb,-5,bert,2,12",
		`f:3:3: time = "-5": want a number from 0 to 3.1536e+09`},
	{"pollux no model", Pollux, polluxHead + "a,1,,2,12",
		`f:2:5: application = "": want the name of a model; the job's length follows from it`},
	{"pollux columns", Pollux, polluxHead + "a,1,bert,2",
		`f:2:1: row = "a,1,bert,2": has 4 columns; want 5`},
	{"pollux quote", Pollux, polluxHead + `a,1,"bert,2,12`,
		`f:2:5: row = "\"bert,2,12": a quote is not closed, or text follows it`},
	{"philly time", Philly, phillyHead + "soon,1.0,1,1.0,vc",
		`f:2:1: timestamp = "soon": want a time such as 2017-10-09 07:01:55`},
	{"philly log status", Philly, "[\n  {\"status\": \"Lost\", \"jobid\": \"a\"}]",
		`f:2:3: status = "Lost": want Pass, Killed or Failed`},
	{"philly log type", Philly, `[{"status": "Pass", "jobid": 7}]`,
		`f:1:2: jobid = "number": want string`},
	{"philly log end before start", Philly, `[{"status": "Pass", "jobid": "a", "submitted_time": "2017-10-09 07:00:00", "attempts": [{"start_time": "2017-10-09 07:00:00", "end_time": "2017-10-09 06:00:00"}]}]`,
		`f:1:2: end_time = "2017-10-09 06:00:00": want a time not before start_time, 2017-10-09 07:00:00`},
	{"helios state", Helios, heliosHead + "a,u,v,n,1,1,1,DONE,2020-04-01 10:00:00,2020-04-01 10:00:00,2020-04-01 10:00:00,1,0",
		`f:2:15: state = "DONE": want a state such as COMPLETED, CANCELLED, FAILED or TIMEOUT`},
	{"acme gpus", Acme, "job_id,user,gpu_num,state,submit_time,start_time,duration\na,u,1.5,COMPLETED,2023-05-01 08:00:00,2023-05-01 08:00:00,1",
		`f:2:5: gpu_num = "1.5": want a whole number from 0 to 1048576`},
	{"alibaba status", Alibaba, "j,w,1,Gone,0,1,600,29,100,T4",
		`f:1:7: status = "Gone": want Terminated, Failed, Running or Waiting`},
	{"alibaba end before start", Alibaba, "j,w,1,Terminated,9,1,600,29,100,T4",
		`f:1:20: end_time = "1": want a time not before start_time, 9`},
	{"acme sample", Acme, "job_id,arrival_time,num_iteration,iteration_computing_time,gpu_workers,gpu_per_worker\na,0,10,0.5,1,half",
		`f:2:14: gpu_per_worker = "half": want a whole number from 0 to 1048576`},
	{"openb phase", Openb, openbHead + "p,1,1000,Lost,0,9,1",
		`f:2:10: pod_phase = "Lost": want Succeeded, Failed, Running or Pending`},
	{"openb parts of two GPUs", Openb, openbHead + "p,2,500,Running,0,9,1",
		`f:2:5: gpu_milli = "500": want 1 to 1000, and 1000 for several GPUs`},
	{"openb end before start", Openb, openbHead + "p,1,1000,Running,0,1,9",
		`f:2:20: deletion_time = "1": want a time not before scheduled_time, 9`},
	{"tiresias duration", Tiresias, tiresiasHead + "1,1,0,600,vgg19,1h,40",
		`f:2:17: duration = "1h": want a number from 0 to 3.1536e+09`},
	{"gavel unknown speed", Gavel, "GPT-9 (batch size 4)\tc\t-s\t1\t100\t0\t1",
		`f:1:1: job_type = "GPT-9 (batch size 4)": the trace gives no duration, and this model's speed is not known`},
	{"gavel scale", Gavel, "CycleGAN\tc\t-s\t1\t100\t0\tmany",
		`f:1:23: scale_factor = "many": want a whole number from 0 to 1048576`},
}

func TestReadErrors(t *testing.T) {
	for _, m := range malformed {
		t.Run(m.name, func(t *testing.T) {
			_, _, err := Read(strings.NewReader(m.text), Options{Format: m.format, Name: "f"})
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(m.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			var row *RowError
			if !errors.As(err, &row) {
				t.Errorf("error is a %T; want a *RowError", err)
			}
		})
	}
}

// Every malformed row can be skipped, and is then reported as it would have
// been refused.
func TestSkipBad(t *testing.T) {
	for _, m := range malformed {
		t.Run(m.name, func(t *testing.T) {
			_, report, err := Read(strings.NewReader(m.text), Options{Format: m.format, Name: "f", SkipBad: true})
			if err != nil {
				t.Fatal(err)
			}
			if report.Skipped != 1 || len(report.Bad) != 1 {
				t.Fatalf("skipped %d, bad %v; want one", report.Skipped, report.Bad)
			}
			if got := (&RowError{"f", report.Bad[0]}).Error(); got != m.want {
				t.Errorf("bad row = %s\nwant %s", got, m.want)
			}
		})
	}
}

func TestSkipBadKeepsCounting(t *testing.T) {
	text := polluxHead + strings.Repeat("a,x,bert,2,12\n", 30) + "b,1,bert,2,12\n"
	wl, report, err := Read(strings.NewReader(text), Options{SkipBad: true})
	if err != nil {
		t.Fatal(err)
	}
	if report.Rows != 31 || report.Skipped != 30 || len(report.Bad) != maxBad || len(wl.Work) != 1 {
		t.Errorf("rows %d, skipped %d, shown %d, jobs %d; want 31, 30, %d, 1", report.Rows, report.Skipped, len(report.Bad), len(wl.Work), maxBad)
	}
}

// Errors that no SkipBad helps against: there is no next row.
func TestReadHopeless(t *testing.T) {
	tests := []struct {
		name, text string
		o          Options
		want       string
	}{
		{"native empty", "", Options{Format: Native}, "read f: the file is empty; want a header line"},
		{"native other kind", `{"fairway":"result","version":1}`, Options{Format: Native},
			`f:1:1: fairway = "result": want "workload" in the header line`},
		{"native newer", `{"fairway":"workload","version":2,"later":true}`, Options{Format: Native},
			`f:1:1: version = "2": this program reads versions 1 to 1; the file was written by a newer one`},
		{"native no version", `{"fairway":"workload"}`, Options{Format: Native},
			`f:1:1: version = "0": this program reads versions 1 to 1`},
		{"native header field", `{"fairway":"workload","version":1,"start":"2024-05-06T08:00:00Z","seed":3}`, Options{Format: Native},
			`f:1:66: seed = "seed": the format has no such field`},
		{"native no start", `{"fairway":"workload","version":1}`, Options{Format: Native},
			`f:1:1: start = "0001-01-01 00:00:00 +0000 UTC": want a time in the years 1970 to 9000`},
		{"native tenant", `{"fairway":"workload","version":1,"start":"2024-05-06T08:00:00Z","tenants":[{"id":"a","quota":-1}]}`, Options{Format: Native},
			`f:1:1: tenants = "a": tenant a: quota = -1; want 0 or more GPUs`},
		{"pollux header", "name,time,application\n", Options{Format: Pollux},
			`f:1:1: header = "name,time,application": column "num_replicas" is missing; want name, time, application, num_replicas, batch_size`},
		{"gavel columns", "a\tb\tc\n", Options{Format: Gavel},
			`f:1:1: header = "a\tb\tc": column "job_type" is missing; want 7, 10 or 12 columns, separated by tabs`},
		{"philly not JSON", "[{\"status\": \"Pass\",\n  oops}]", Options{Format: Philly},
			"read f: line 2, column 3: want a JSON array of jobs: invalid character 'o' looking for beginning of object key string"},
		{"philly cut off", `[{"status": "Killed", "jobid": "a"}`, Options{Format: Philly},
			"read f: line 1, column 36: want a JSON array of jobs: unexpected EOF"},
		{"philly empty", " \n", Options{Format: Philly}, "read f: the file is empty"},
		{"format", "x", Options{Format: "xml"}, `read f: format "xml"; want one of [native pollux philly helios alibaba openb acme tiresias gavel rubick]`},
		{"limit", polluxHead + "a,1,bert,2,12\n", Options{Format: Pollux, Limit: 50},
			"read f: the file has more than 50 bytes; want a higher limit to read it"},
		{"long line", polluxHead + strings.Repeat("a", maxLine+1), Options{Format: Pollux}, "read f: line 2 is longer than 1048576 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.o.Name, test.o.SkipBad = "f", true
			_, report, err := Read(strings.NewReader(test.text), test.o)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if report == nil {
				t.Error("no report beside the error")
			}
		})
	}
}

// A file of exactly the limit is read.
func TestLimitIsInclusive(t *testing.T) {
	text := polluxHead + "a,1,bert,2,12\n"
	wl, _, err := Read(strings.NewReader(text), Options{Limit: int64(len(text))})
	if err != nil || len(wl.Work) != 1 {
		t.Errorf("jobs = %v, error %v; want one job", wl, err)
	}
}

// endless is a JSON array whose first job never ends.
type endless struct{ begun bool }

func (e *endless) Read(p []byte) (int, error) {
	if !e.begun {
		e.begun = true
		return copy(p, `[{"user":"`), nil
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// One job of the log cannot make the reader take memory without bound.
func TestPhillyJobIsBounded(t *testing.T) {
	b := newBuilder(Options{Name: "f"})
	err := readPhilly(bufio.NewReader(&endless{}), b)
	if err == nil || !strings.Contains(err.Error(), "a job takes more than 16777216 bytes") {
		t.Errorf("error = %v; want the bound on one job", err)
	}
}
