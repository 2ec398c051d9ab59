// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// TestRemedy: a module, a variable or a program that is missing is named, with where it
// is missing and what would help.
func TestRemedy(t *testing.T) {
	table, err := diagnose.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	venv := api.Task{Dir: "/x", Env: map[string]string{"PATH": "/v/bin:/bin", "VIRTUAL_ENV": "/v"}}
	const trace = "Traceback (most recent call last):\n"
	for _, c := range []struct {
		task             api.Task
		code             int
		log, reason      string
		wantText, wantDo string
	}{
		{api.Task{Image: "torch:2", Env: venv.Env}, 1, trace + "ModuleNotFoundError: No module named 'einops'\n", "import-error",
			"the Python module einops is not in the image torch:2", "install it in the image"},
		{venv, 1, trace + "  File \"a.py\", line 1, in <module>\n    import torch.nn\nModuleNotFoundError: No module named 'torch.nn'\n", "import-error",
			"the Python module torch is not in the virtual environment /v",
			"install it there (/v/bin/python -m pip install torch), or submit from the shell in which it is installed; if it is a file of yours, submit from its folder (this job ran in /x)"},
		{api.Task{Image: "torch:2", Origin: "TrainingJob/a/b"}, 1, trace + "ModuleNotFoundError: No module named 'einops'\n", "import-error",
			"the Python module einops is not in the image torch:2", "install it in the image"},
		{api.Task{Env: map[string]string{"PATH": "/bin"}}, 1, trace + "ModuleNotFoundError: No module named 'einops'\n", "import-error",
			"the Python module einops is not in the environment of the job (no virtual environment was active when it was submitted)", "activate the environment that has it, and submit again"},
		{venv, 1, trace + "  File \"<frozen os>\", line 714, in __getitem__\nKeyError: 'DATA'\n", "missing-variable",
			"the variable DATA is not in the environment of the job", "submit with -e DATA, which passes on the value of your shell, or -e DATA=VALUE"},
		{venv, 1, "wandb: ERROR api_key not configured (no-tty). call wandb login\n", "missing-variable",
			"the variable WANDB_API_KEY is not in the environment of the job", "submit with -e WANDB_API_KEY: it passes on the value of your shell, and nobody else sees it"},
		{venv, 127, "bash: line 1: pythn: command not found\n", "missing-program",
			"the program pythn is not in the virtual environment /v", "install it there, or submit from a shell in which \"which pythn\" finds it"},
		{venv, 127, "", "missing-program", "the program pythn is not in the virtual environment /v", "install it there, or submit from a shell in which \"which pythn\" finds it"},
		{venv, 1, trace + "KeyError: 'DATA'\n", "program-bug", "the program has a bug", "correct the program; it will fail in the same way again"},
	} {
		d := open(t, func(cfg *Config) { cfg.Failures = table })
		s := submission("net", 1)
		s.Dir, s.Env, s.Image, s.Origin = c.task.Dir, c.task.Env, c.task.Image, c.task.Origin
		id := d.submit(ann, s)
		d.decide(wants{id: on(0)})
		e := exitOf(id, 1)
		e.Code, e.Tails = c.code, []diagnose.Log{{Name: "rank-0.log", Text: c.log}}
		if c.log == "" {
			e.Tails, e.Why = nil, "pythn: program not found" // as the executor says it
		}
		d.exited(e)
		j, err := d.Job(ann, id)
		if err != nil || j.Exit == nil || j.Exit.Finding == nil || j.Status.Phase != sched.Failed {
			t.Fatalf("%+v, %v; want a failed job with a finding", j, err)
		}
		f := j.Exit.Finding
		if f.Reason != c.reason || f.Text != c.wantText || f.Retry.Say != c.wantDo {
			t.Errorf("%q:\n got %s: %s: %s\nwant %s: %s: %s", c.log, f.Reason, f.Text, f.Retry.Say, c.reason, c.wantText, c.wantDo)
		}
	}
}
