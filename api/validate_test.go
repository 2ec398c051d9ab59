// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// wantField checks that an error is Invalid and names a field.
func wantField(t *testing.T, name string, err error, field string) {
	t.Helper()
	if field == "" {
		if err != nil {
			t.Errorf("%s: %v; want no error", name, err)
		}
		return
	}
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.Invalid {
		t.Errorf("%s: error %v; want an invalid one", name, err)
		return
	}
	if e.Field != field || !strings.Contains(err.Error(), field) {
		t.Errorf("%s: field %q in %q; want %q", name, e.Field, err, field)
	}
}

func TestTaskValidate(t *testing.T) {
	many := make([]string, 4097)
	for i := range many {
		many[i] = "x"
	}
	tests := []struct {
		name  string
		edit  func(*api.Task)
		field string
	}{
		{"valid", func(*api.Task) {}, ""},
		{"all set", func(k *api.Task) {
			k.Name, k.Dir, k.Env, k.GracePeriod, k.Retries, k.Single = "größe", "/tmp", map[string]string{"A_1": "=\n"}, sched.Duration(time.Hour), api.MaxRetries, true
		}, ""},
		{"long name", func(k *api.Task) { k.Name = strings.Repeat("n", 201) }, "name"},
		{"name with a line break", func(k *api.Task) { k.Name = "a\nb" }, "name"},
		{"no command", func(k *api.Task) { k.Command = nil }, "command"},
		{"empty program", func(k *api.Task) { k.Command = []string{"", "x"} }, "command"},
		{"many arguments", func(k *api.Task) { k.Command = many }, "command"},
		{"long arguments", func(k *api.Task) { k.Command = []string{"x", strings.Repeat("y", 128<<10)} }, "command"},
		{"zero byte in an argument", func(k *api.Task) { k.Command = []string{"x", "a\x00b"} }, "command"},
		{"relative folder", func(k *api.Task) { k.Dir = "work" }, "dir"},
		{"zero byte in the folder", func(k *api.Task) { k.Dir = "/a\x00b" }, "dir"},
		{"negative notice", func(k *api.Task) { k.GracePeriod = -1 }, "notice"},
		{"long notice", func(k *api.Task) { k.GracePeriod = sched.Duration(time.Hour + 1) }, "notice"},
		{"negative retries", func(k *api.Task) { k.Retries = -1 }, "retries"},
		{"no such retry", func(k *api.Task) { k.Retry = "sometimes" }, "retry"},
		{"long graph", func(k *api.Task) { k.Graph = strings.Repeat("x", 5000) }, "graph"},
		{"many retries", func(k *api.Task) { k.Retries = api.MaxRetries + 1 }, "retries"},
		{"our variable", func(k *api.Task) { k.Env = map[string]string{"FAIRWAY_TOKEN": "x"} }, "env"},
		{"variable with =", func(k *api.Task) { k.Env = map[string]string{"A=B": "x"} }, "env"},
		{"variable without name", func(k *api.Task) { k.Env = map[string]string{"": "x"} }, "env"},
		{"zero byte in a variable", func(k *api.Task) { k.Env = map[string]string{"A": "\x00"} }, "env"},
		{"large environment", func(k *api.Task) { k.Env = map[string]string{"A": strings.Repeat("x", 64<<10)} }, "env"},
	}
	for _, test := range tests {
		task := api.Task{Command: []string{"train"}}
		test.edit(&task)
		wantField(t, test.name, task.Validate(), test.field)
	}
}

func TestSubmissionValidate(t *testing.T) {
	tests := []struct {
		name string
		edit func(*api.Submission)
		text string // in the error; empty: valid
	}{
		{"valid", func(*api.Submission) {}, ""},
		{"task", func(s *api.Submission) { s.Command = nil }, "command"},
		{"long key", func(s *api.Submission) { s.Key = strings.Repeat("k", 201) }, "key"},
		{"no GPUs", func(s *api.Submission) { s.GPUs = 0 }, "gpus"},
		{"upside down", func(s *api.Submission) { s.MinGPUs, s.MaxGPUs = 4, 2 }, "min_gpus"},
		{"milli", func(s *api.Submission) { s.MilliGPU = 1001 }, "milli_gpu"},
		{"work", func(s *api.Submission) { s.Work = math.NaN() }, "work"},
		{"plans", func(s *api.Submission) { s.Plans = plans() }, ""},
		{"plans without a model", func(s *api.Submission) { s.Plans = plans(); s.Plans.Model.Layers = 0 }, "plans: model: layers = 0"},
		{"no plans", func(s *api.Submission) { s.Plans = plans(); s.Plans.List = nil }, "plans: list is empty"},
		{"plans and adaptation", func(s *api.Submission) { s.Plans, s.Batch.Adapt = plans(), true }, "batch.adapt"},
		{"plans and shares", func(s *api.Submission) { s.Plans, s.Shareable = plans(), true }, "shareable"},
		{"plans and parts", func(s *api.Submission) { s.Plans, s.MilliGPU = plans(), 500 }, "milli_gpu"},
	}
	for _, test := range tests {
		s := api.Submission{Spec: sched.Spec{ID: "j", GPUs: 1}, Task: api.Task{Command: []string{"train"}}}
		test.edit(&s)
		err := s.Validate()
		if test.text == "" {
			wantField(t, test.name, err, "")
		} else if err == nil || api.CodeOf(err) != api.Invalid || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: error %v; want an invalid one that names %s", test.name, err, test.text)
		}
	}
}

func plans() *plan.Options {
	return &plan.Options{
		Model: plan.Model{Parameters: 1e9, Layers: 8, Hidden: 1024, Heads: 8, Sequence: 512, Batch: 32},
		List:  []plan.Plan{{Data: 4, Tensor: 1, Pipeline: 1, Micro: 1, Sharding: plan.Full}, {Data: 1, Tensor: 2, Pipeline: 1, Micro: 1}},
	}
}

// TestSizesOfPlans: a job that only lists plans has their sizes; one that says more keeps
// to what it says.
func TestSizesOfPlans(t *testing.T) {
	for _, c := range []struct {
		edit         func(*api.Submission)
		gpus         int
		least, most  int
		sizes        []int
		withoutPlans bool
	}{
		{func(*api.Submission) {}, 2, 2, 4, []int{2, 4}, false},
		{func(s *api.Submission) { s.Plans.List = s.Plans.List[:1] }, 4, 0, 0, nil, false},
		{func(s *api.Submission) { s.GPUs = 4 }, 4, 0, 0, nil, false},
		{func(s *api.Submission) { s.Plans.Generate = []string{"fsdp"} }, 1, 0, 0, nil, false},
		{func(s *api.Submission) { s.Plans = nil }, 1, 0, 0, nil, true},
	} {
		s := api.Submission{Task: api.Task{Command: []string{"train"}, Plans: plans()}}
		c.edit(&s)
		if err := s.Complete(); err != nil {
			t.Errorf("%v", err)
		}
		if s.GPUs != c.gpus || s.MinGPUs != c.least || s.MaxGPUs != c.most || !slices.Equal(s.Sizes, c.sizes) {
			t.Errorf("%d GPUs, %d to %d, %v; want %+v", s.GPUs, s.MinGPUs, s.MaxGPUs, s.Sizes, c)
		}
		text, err := json.Marshal(s)
		if err != nil || strings.Contains(string(text), "plans") == c.withoutPlans {
			t.Errorf("%s, %v", text, err)
		}
	}
}

func TestAgentReportValidate(t *testing.T) {
	limits := goodput.Limits{Initial: 8, Max: 64, LocalMin: 1, LocalMax: 32}
	good := goodput.Sample{Nodes: 1, GPUs: 1, Local: 8, Step: 0.1}
	metrics := func(n int) map[string]float64 {
		m := map[string]float64{}
		for i := range n {
			m[fmt.Sprint(i)] = 1
		}
		return m
	}
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		name  string
		r     api.AgentReport
		field string
	}{
		{"empty", api.AgentReport{}, ""},
		{"full", api.AgentReport{Done: 1, Work: 2, Rate: 3, Training: &api.Training{Limits: limits, Fixed: 64, Noise: 1, Samples: []goodput.Sample{good}}, Point: &api.Point{Metrics: metrics(32)}}, ""},
		{"negative done", api.AgentReport{Done: -1}, "done"},
		{"done is no number", api.AgentReport{Done: nan}, "done"},
		{"done without bound", api.AgentReport{Done: math.MaxFloat64}, "done"},
		{"work is no number", api.AgentReport{Work: nan}, "work"},
		{"infinite rate", api.AgentReport{Rate: inf}, "rate"},
		{"no limits", api.AgentReport{Training: &api.Training{}}, "training.limits"},
		{"negative noise", api.AgentReport{Training: &api.Training{Limits: limits, Noise: -1}}, "training.noise"},
		{"noise is no number", api.AgentReport{Training: &api.Training{Limits: limits, Noise: nan}}, "training.noise"},
		{"a part of a step that is negative", api.AgentReport{Training: &api.Training{Limits: limits, Parts: &plan.Parts{Wait: -1}}}, "training.parts"},
		{"batch beyond the limit", api.AgentReport{Training: &api.Training{Limits: limits, Fixed: 65}}, "training.fixed"},
		{"many samples", api.AgentReport{Training: &api.Training{Limits: limits, Samples: make([]goodput.Sample, 1001)}}, "training.samples"},
		{"bad sample", api.AgentReport{Training: &api.Training{Limits: limits, Samples: []goodput.Sample{good, {}}}}, "training.samples[1]"},
		{"many metrics", api.AgentReport{Point: &api.Point{Metrics: metrics(33)}}, "point.metrics"},
		{"long metric", api.AgentReport{Point: &api.Point{Metrics: map[string]float64{strings.Repeat("x", 101): 1}}}, "point.metrics"},
		{"metric is no number", api.AgentReport{Point: &api.Point{Metrics: map[string]float64{"x": nan}}}, "point.metrics"},
		{"loss is no number", api.AgentReport{Point: &api.Point{Loss: &nan}}, "point.loss"},
		{"infinite goodput", api.AgentReport{Point: &api.Point{Goodput: inf}}, "point.goodput"},
		{"negative batch", api.AgentReport{Point: &api.Point{Batch: -1}}, "point"},
	}
	for _, test := range tests {
		wantField(t, test.name, test.r.Validate(), test.field)
	}
}

func TestScreenTime(t *testing.T) {
	for text, want := range map[string]struct {
		d     time.Duration
		asked bool
		bad   bool
	}{
		"": {}, "off": {asked: true}, "90s": {d: 90 * time.Second, asked: true}, "24h": {d: api.MaxScreen, asked: true},
		"0s": {bad: true}, "-1s": {bad: true}, "25h": {bad: true}, "never": {bad: true},
	} {
		s := api.Submission{Screen: text}
		d, asked, err := s.ScreenTime()
		if (err != nil) != want.bad || err == nil && (d.D() != want.d || asked != want.asked) {
			t.Errorf("screen %q: %s, %t, %v; want %+v", text, d, asked, err, want)
		}
	}
}

func FuzzSubmission(f *testing.F) {
	f.Add([]byte(`{"id":"j","gpus":1,"command":["train"]}`))
	f.Add([]byte(`{"id":"j","gpus":2,"min_gpus":1,"max_gpus":4,"sizes":[1,2,4],"command":["python3","t.py"],"dir":"/w","env":{"A":"b"},"notice":"30s","retries":2,"retry":"never","screen":"2m","graph":"m.onnx","shareable":true,"key":"k","batch":{"adapt":true},"widest":"rack","estimate":"1h"}`))
	f.Add([]byte(`{"id":"j","gpus":4,"command":["a"],"plans":{"model":{"parameters":1e9,"layers":8,"hidden":1024,"heads":8,"sequence":512,"batch":32},"generate":["fsdp","tp<=8"],"list":["fsdp2-tp2/4+recompute"]}}`))
	f.Add([]byte(`{"gpus":-1}`))
	f.Add([]byte(`{"id":"j","gpus":1,"command":["\u0000"]}`))
	f.Add([]byte(`{"id":"j","gpus":1,"command":["x"],"name":"\ud800"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var s api.Submission
		if json.Unmarshal(in, &s) == nil && s.Validate() == nil {
			roundTrip(t, s)
		}
	})
}

func FuzzAgentReport(f *testing.F) {
	f.Add([]byte(`{"done":1,"work":2,"rate":3,"checkpoint":true}`))
	f.Add([]byte(`{"done":1e308,"rate":1e308}`))
	f.Add([]byte(`{"training":{"limits":{"initial":8,"max":64,"local_min":1,"local_max":32},"noise":3,"samples":[{"nodes":1,"gpus":1,"local":8,"step":0.1,"sync":0}]},"point":{"loss":0.5,"metrics":{"acc":1}}}`))
	f.Add([]byte(`{"point":{"at":"2026-01-01T00:00:00Z","loss":null}}`))
	f.Add([]byte(`{"pace":{"windows":[[1,2]],"probes":[{"ranks":2,"bytes":262144,"links":[{"a":0,"b":1,"seconds":0.001}]}]}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var r api.AgentReport
		if json.Unmarshal(in, &r) == nil && r.Validate() == nil {
			roundTrip(t, r)
		}
	})
}

// roundTrip fails the test if a value that is valid cannot be kept as JSON.
func roundTrip[T any](t *testing.T, v T) {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("write %+v: %v", v, err)
	}
	var again T
	if err := json.Unmarshal(out, &again); err != nil {
		t.Fatalf("read %s: %v", out, err)
	}
	if diff := cmp.Diff(v, again, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)); diff != "" {
		t.Fatalf("(-before +after):\n%s", diff)
	}
}

func TestExitOK(t *testing.T) {
	tests := []struct {
		exit api.Exit
		want bool
		text string
	}{
		{api.Exit{}, true, "exited with code 0"},
		{api.Exit{Noticed: true}, false, "exited with code 0"},
		{api.Exit{Lost: true, Why: "reboot"}, false, "lost by the machine: reboot"},
		{api.Exit{Yielded: true, Code: api.YieldCode}, false, "saved its work"},
		{api.Exit{Code: 3, Rank: 2}, false, "rank 2 exited with code 3"},
		{api.Exit{Signal: "SIGKILL"}, false, "killed by SIGKILL"},
	}
	for _, test := range tests {
		if got := test.exit.OK(); got != test.want {
			t.Errorf("%+v: OK = %t; want %t", test.exit, got, test.want)
		}
		if got := test.exit.Text(); !strings.Contains(got, test.text) {
			t.Errorf("%+v: text %q; want %q in it", test.exit, got, test.text)
		}
	}
}

func TestAccess(t *testing.T) {
	tests := []struct {
		who    api.Identity
		tenant sched.TenantID
		want   bool
	}{
		{api.Identity{Role: api.Admin}, "blue", true},
		{api.Identity{Role: api.User, Tenant: "blue"}, "blue", true},
		{api.Identity{Role: api.Viewer, Tenant: "blue"}, "blue", true},
		{api.Identity{Role: api.User, Tenant: "red"}, "blue", false},
		{api.Identity{Tenant: "blue"}, "blue", false},
	}
	for _, test := range tests {
		if got := test.who.Sees(test.tenant); got != test.want {
			t.Errorf("%+v sees %s: %t; want %t", test.who, test.tenant, got, test.want)
		}
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		token api.Token
		want  bool
	}{{api.Token{}, true}, {api.Token{Revoked: true}, false}, {api.Token{Expires: now}, false}, {api.Token{Expires: now.Add(1)}, true}} {
		if got := test.token.Valid(now); got != test.want {
			t.Errorf("%+v is valid: %t; want %t", test.token, got, test.want)
		}
	}
	for _, name := range []string{"", "none", "Admin", "root"} {
		var r api.Role
		if r.UnmarshalText([]byte(name)) == nil {
			t.Errorf("role %q was read as %s; want an error", name, r)
		}
	}
}
