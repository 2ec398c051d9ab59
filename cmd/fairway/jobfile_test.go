// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/strictyaml"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
)

func TestParseJobs(t *testing.T) {
	full := `
name: resnet          # a comment
gpus: 1-8
sizes: [1, 2, 4, 8]
gpu_types: [h200, t4]
widest: machine
topology:
- {segment: 4, required: zone}
- preferred: rack
batch: {initial: 128, max: 4096, adapt: true}
estimate: 2h
work: 9e4
command: [python3, train.py, --lr, 0.10, --tag, 3.10, yes]
env:
  SEED: 1
  DEBUG: true
  EMPTY:
notice: 90s
retries: 3
non_preemptible: true
`
	want := api.Submission{
		Spec: sched.Spec{
			GPUs: 1, MinGPUs: 1, MaxGPUs: 8, Sizes: []int{1, 2, 4, 8}, GPUTypes: []sched.GPUType{"h200", "t4"}, MaxSpread: sched.SameMachine, Topology: []sched.Rule{{Segment: 4, Required: "zone"}, {Preferred: "rack"}},
			Batch: sched.Batch{Initial: 128, Max: 4096, Adapt: true}, Estimate: sched.Duration(2 * time.Hour), Work: 90000, NonPreemptible: true,
		},
		Task: api.Task{
			Name: "resnet", Command: []string{"python3", "train.py", "--lr", "0.10", "--tag", "3.10", "yes"},
			Env: map[string]string{"SEED": "1", "DEBUG": "true", "EMPTY": ""}, GracePeriod: sched.Duration(90 * time.Second), Retries: 3,
		},
	}
	simple := func(gpus, low, high int) api.Submission {
		return api.Submission{Spec: sched.Spec{GPUs: gpus, MinGPUs: low, MaxGPUs: high}, Task: api.Task{Command: []string{"a"}}}
	}
	for _, c := range []struct {
		name, text string
		want       []api.Submission
	}{
		{"full", full, []api.Submission{want}},
		{"quoted range", `{gpus: "2-4", command: [a]}`, []api.Submission{simple(2, 2, 4)}},
		{"spaced range", `{gpus: 2 - 4, command: [a]}`, []api.Submission{simple(2, 2, 4)}},
		{"plain range", "min_gpus: 2\nmax_gpus: 4\ngpus: 3\ncommand: [a]", []api.Submission{simple(3, 2, 4)}},
		{"sharing", "share: true\ngpu_memory: 4GiB\nmemory: 1024\nretry: always\nscreen: off\ngraph: m.onnx\ncommand: [a]", []api.Submission{{
			Spec: sched.Spec{Shareable: true, GPUMemory: 4 << 30, Memory: 1024}, Screen: "off",
			Task: api.Task{Command: []string{"a"}, Retry: "always", Graph: "m.onnx"},
		}}},
		{"roles", "roles:\n- {name: trainer, gpus: 2, command: [a]}\n- {name: rollout, gpus: 1-6, run: b, env: {X: 1}}\n- {name: judge, gpus: 1, max_gpus: 1}\n", []api.Submission{{Task: api.Task{Roles: []api.JobRole{
			{Name: "trainer", GPUs: 2, Command: []string{"a"}}, {Name: "rollout", GPUs: 1, MaxGPUs: 6, Run: "b", Env: map[string]string{"X": "1"}}, {Name: "judge", GPUs: 1, MaxGPUs: 1},
		}}}}},
		{"JSON", `{"gpus": 2, "command": ["a"]}`, []api.Submission{simple(2, 0, 0)}},
		{"documents", "---\n# nothing\n---\n{gpus: 1, command: [a]}\n---\n{gpus: 2, command: [a]}\n...\n", []api.Submission{simple(1, 0, 0), simple(2, 0, 0)}},
	} {
		got, err := parseJobs("job.yaml", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestParseJobsErrors(t *testing.T) {
	bomb := "a: &a [x, x, x, x]\n" + "command: [*a, *a, *a]\n"
	for _, c := range []struct{ text, want string }{
		{"", "job.yaml: contains no job"},
		{"# only words", "job.yaml: contains no job"},
		{"name: x\ncomand: [a]", `job.yaml:2:1: unknown field "comand"; did you mean "command"?`},
		{"apiVersion: fairway.dev/v1alpha1\nkind: TrainingJob\nspec: {gpus: 1}", "job.yaml:1:1: the file is a Kubernetes object; create it with kubectl apply -f"},
		{"batch: {intial: 1}", `job.yaml:1:9: unknown field "intial"; did you mean "initial"?`},
		{"name: x\n  gpus: 2", "job.yaml:2:1: mapping"},
		{"gpus: two", `job.yaml:1:7: gpus is "two"; want a whole number`},
		{"gpus: 1.5", `job.yaml:1:7: gpus is "1.5"; want a whole number`},
		{"gpus: 1-", `job.yaml:1:7: gpus "1-" is not a number of GPUs; want one such as 4, or a range such as 1-8`},
		{"gpus: 0-4", `job.yaml:1:7: gpus "0-4" is not a number of GPUs`},
		{"gpus: -2", `job.yaml:1:7: gpus "-2" is not a number of GPUs`},
		{"gpus: 1-4\nmin_gpus: 2", "job.yaml:1:1: gpus is a range, and min_gpus or max_gpus is set too"},
		{"gpus: [1]", "job.yaml:1:7: gpus is a list; want a whole number"},
		{"memory: 9223372036854775808", `job.yaml:1:9: memory is "9223372036854775808"; want a number of bytes, or one with KiB, MiB, GiB or TiB, of up to 4194304TiB`},
		{"gpu_memory: 4GB", `job.yaml:1:13: gpu_memory is "4GB"; want a number of bytes, or one with KiB`},
		{"memory: [1]", "job.yaml:1:9: memory is a list; want a whole number"},
		{"gpus: 99999999999999999999", "want a whole number"},
		{"milli_gpu: 4000000000", "want a whole number"},
		{"gpus:", "job.yaml:1:6: gpus is empty; set a value or remove it"},
		{"gpus: 1\ngpus: 2", "gpus is set twice"},
		{"estimate: 90", `job.yaml:1:11: estimate duration "90": want a number with a unit`},
		{"widest: planet", `widest level "planet"`},
		{"work: .nan", "want a number"},
		{"work: much", "want a number"},
		{"shareable: yes please", "want true or false"},
		{"command: python3 train.py", `job.yaml:1:10: command is "python3 train.py"; want a list`},
		{"command: [a, [b]]", "job.yaml:1:14: command[1] is a list; want text"},
		{"command: [a, ~]", "job.yaml:1:14: command[1] is empty"},
		{"env: [A=1]", "job.yaml:1:6: env is a list; want names with values"},
		{"env: {A: [1]}", "env.A is a list; want text"},
		{"env: {A: 1, A: 2}", "env.A is set twice"},
		{"plans: [fsdp4]", "job.yaml:1:8: plans is a list; want fields"},
		{"plans: {list: [fsdp4, ddp4]}", `job.yaml:1:23: plans.list[1] plan "ddp4"; want a name such as dp4`},
		{"plans: {model: {layer: 4}}", `unknown field "layer"; did you mean "layers"?`},
		{"roles: {a: 1}", "job.yaml:1:8: roles is a mapping; want a list"},
		{"roles: [trainer]", `job.yaml:1:9: roles[0] is "trainer"; want fields`},
		{"roles: [{name: a, gpu: 1}]", `job.yaml:1:19: unknown field "gpu"; did you mean "gpus"?`},
		{"roles: [{gpus: 4-2}]", `job.yaml:1:16: roles[0].gpus "4-2" is not a number of GPUs`},
		{"roles: [{gpus: 1-2, max_gpus: 3}]", "job.yaml:1:16: roles[0].gpus is a range, and max_gpus is set too"},
		{"roles: [" + strings.Repeat("{},", api.MaxRoles) + "{}]", "job.yaml:1:8: roles has 17 entries; want at most 16"},
		{"id: x", "job.yaml:1:5: id is assigned by the daemon"},
		{"submitted: 2026-01-01", "submitted is assigned by the daemon"},
		{"search: {}", "job.yaml:1:1: search is not a job field"},
		{"- a\n- b", "is a list; want fields"},
		{"just text", `is "just text"; want fields`},
		{"? [a]\n: b", "field is a list; want a name"},
		{bomb, `unknown field "a"`},
		{"command: &c [a]\nsizes: *c", "sizes uses a YAML alias; write the value out"},
		{"command: [&c a, *c]", "command[1] is an alias; want text"},
		{"<<: {gpus: 1}", "uses a YAML alias"},
		{"env: {<<: {A: b}}", "without a YAML alias"},
		{strings.Repeat("x", strictyaml.MaxBytes+1), "larger than 1048576 bytes"},
		{strings.Repeat("---\n{gpus: 1}\n", api.MaxSubmit+1), "more than 1000 documents"},
		{strings.Repeat("[", 20_000), "job.yaml: "},
	} {
		_, err := parseJobs("job.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v; want %q", c.text, err, c.want)
		}
	}
}

func TestParseApp(t *testing.T) {
	app, err := parseApp("a.yaml", []byte("id: sweep\njobs:\n- {gpus: 1, command: [a]}\n- {gpus: 1-2, command: [b]}\n"))
	if err != nil || app.ID != "sweep" || len(app.Jobs) != 2 || app.Jobs[1].MaxGPUs != 2 {
		t.Errorf("got %+v, %v; want sweep with 2 jobs", app, err)
	}
	app, err = parseApp("a.yaml", []byte("command: [a]\n---\ncommand: [b]\n"))
	if err != nil || app.ID != "" || len(app.Jobs) != 2 {
		t.Errorf("got %+v, %v; want 2 jobs without an id", app, err)
	}
	for _, c := range []struct{ text, want string }{
		{"id: x\njobs: []", "jobs is empty"},
		{"id: x\njobs: 3", "a.yaml:2:7: jobs is \"3\"; want a list of jobs"},
		{"id: x\njobs:\n- {gpu: 1}", `a.yaml:3:4: unknown field "gpu"; did you mean "gpus"?`},
		{"id: x\njobs: [{command: [a]}]\nserch: 1", `unknown field "serch"`},
		{"id: x\nsearch: {serch: 1}\n", `a.yaml:2:10: unknown field "serch"`},
		{"id: x\nsearch: {}\nsearch: {}\n", "a.yaml:3:1: search is set twice"},
		{"id: x\nid: y\nsearch: {}\n", "a.yaml:2:1: id is set twice"},
		{"id: x\nsearch: {}\njobs: []\n", "a.yaml:3:1: jobs and search are both set"},
		{"id: x\nsearch: {}\ngpu: 1\n", `a.yaml:3:1: unknown field "gpu"`},
		{"search: {parameters: [lr]}", "a.yaml:1:22: search.parameters is a list; want names"},
		{"search: {parameters: {lr: {min: low}}}", "search.parameters.lr.min is \"low\"; want a number"},
		{"search: {parameters: {lr: {low: 1}}}", `unknown field "low"`},
		{"search: {parameters: {lr: [1, 2], lr: [3]}}", "search.parameters.lr is set twice"},
		{"search: {seed: -1}", "search.seed is -1; want 0 or more"},
		{"search: {stopping: {rule: asha, target: ~}}", "search.stopping.target is empty"},
		{"search: {trials: many}", "search.trials is \"many\"; want a whole number"},
		{"id: x\njobs: [" + strings.Repeat("{},", api.MaxSubmit) + "{}]", "at most 1000"},
	} {
		if _, err := parseApp("a.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v; want %q", c.text, err, c.want)
		}
	}
}

// FuzzJobFile: whatever a file holds, reading it ends with jobs or with an
// error, and jobs are no larger than the file.
func FuzzJobFile(f *testing.F) {
	for _, seed := range []string{
		"roles: [{name: a, gpus: 1-3, run: x, env: {A: 1}}, {name: b, gpus: 1, command: [c]}]\n",
		"name: x\ngpus: 1-8\ncommand: [a, b]\nenv: {A: 1}\n", "plans: {model: {parameters: 1e9, layers: 8}, list: [fsdp4, tp2], generate: ['tp<=8']}\n", "---\n---\n", "id: a\njobs: [{gpus: 1}]", "a: &a [*a]", "<<: *x",
		"id: s\nsearch: {parameters: {lr: {min: 1e-4, max: 1, log: true}, o: [a, b]}, method: tpe, stopping: {rule: asha, max: 9, target: 0.1}, metric: {name: acc, goal: maximise}, trials: 8, at_once: 2, seed: 1}\ncommand: [a, '{lr}']\n",
		"search: asha", "search: {stopping: asha, metric: loss}", "search: {parameters: {a: &x [1], b: *x}}",
		"batch: {initial: 1}", "widest: rack", "estimate: 1d", "gpus: !!binary aGVsbG8=", "work: 1e999", "? ? ?", "!!map {gpus: 1}", "\xff\xfe", "%YAML 9.9\n---\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		jobs, err := parseJobs("job.yaml", text)
		if (err == nil) == (len(jobs) == 0) {
			t.Errorf("%d jobs and error %v; want one or the other", len(jobs), err)
		}
		size := 0
		for _, j := range jobs {
			size += len(j.Command) + len(j.Env) + len(j.Sizes) + len(j.Roles)
			if j.ID != "" || !j.Submitted.IsZero() {
				t.Errorf("the file chose what the daemon chooses: id %q, submitted %v", j.ID, j.Submitted)
			}
		}
		if size > len(text) {
			t.Errorf("a file of %d bytes gave %d entries", len(text), size)
		}
		_, _ = parseApp("app.yaml", text) // must not panic
	})
}

// TestJobFileDocumented: every field is in the reference, and its example can
// be submitted.
func TestJobFileDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/job-file.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	var s api.Submission
	fields := strictyaml.Fields(reflect.ValueOf(&s).Elem())
	for name := range strictyaml.Fields(fields["batch"]) {
		fields["batch."+name] = reflect.Value{}
	}
	var plans plan.Options
	for name, field := range strictyaml.Fields(reflect.ValueOf(&plans).Elem()) {
		fields["plans."+name] = field
	}
	for name := range strictyaml.Fields(reflect.ValueOf(&plans.Model).Elem()) {
		fields["plans.model."+name] = reflect.Value{}
	}
	for name := range strictyaml.Fields(reflect.ValueOf(&api.JobRole{}).Elem()) {
		fields["roles."+name] = reflect.Value{}
	}
	for name := range fields {
		if !strings.Contains(doc, "| `"+name+"` |") {
			t.Errorf("docs/job-file.md does not describe the field %s", name)
		}
	}
	for line := range strings.Lines(doc) {
		name, found := strings.CutPrefix(line, "| `")
		name, _, _ = strings.Cut(name, "`")
		if _, known := fields[name]; found && !known && !slices.Contains([]string{"jobs"}, name) {
			t.Errorf("docs/job-file.md describes the field %s, which is not there", name)
		}
	}
	examples := strings.Split(doc, "```yaml\n")[1:]
	if len(examples) < 3 {
		t.Fatalf("docs/job-file.md has %d examples; want 3", len(examples))
	}
	for i, example := range examples {
		example, _, _ = strings.Cut(example, "```")
		app, err := parseApp("example", []byte(example))
		if err != nil {
			t.Errorf("example %d: %v", i+1, err)
		}
		for _, j := range app.Jobs {
			if err := check(&j); err != nil {
				t.Errorf("example %d: %v", i+1, err)
			}
		}
	}
}
