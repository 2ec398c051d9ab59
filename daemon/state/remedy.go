// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
)

// What is missing, in the line that says so.
var (
	missingModule   = regexp.MustCompile(`No module named '?([A-Za-z0-9_.]+)`)
	missingVariable = regexp.MustCompile(`KeyError: '([A-Za-z_][A-Za-z0-9_]*)'|([A-Za-z_][A-Za-z0-9_]*): (?:unbound variable|parameter not set)|(api_key) not configured`)
	missingProgram  = regexp.MustCompile(`([^\s:/]+): (?:command not found|program not found|not found)`)
)

// fitRemedy makes a finding about something missing say what is missing where, and what
// would help: the table of signatures does not know the job.
func fitRemedy(e *api.Exit, t *api.Task) {
	f := e.Finding
	if f == nil || f.Evidence == nil {
		return
	}
	line := f.Evidence.Text
	if f.Evidence.Source == diagnose.FromExit {
		line = e.Why // a program that could not be started has no log
	}
	switch f.Reason {
	case "import-error":
		if m := missingModule.FindStringSubmatch(line); m != nil {
			module, _, _ := strings.Cut(m[1], ".")
			f.Text = fmt.Sprintf("the Python module %s is not in %s", module, whereOf(t))
			f.Retry.Say = installIn(t, module)
		}
	case "missing-variable":
		m := missingVariable.FindStringSubmatch(line)
		if m == nil {
			return
		}
		name := m[1] + m[2]
		if m[3] != "" {
			name = "WANDB_API_KEY" // wandb does not say it
		}
		f.Text = fmt.Sprintf("the variable %s is not in the environment of the job", name)
		f.Retry.Say = fmt.Sprintf("submit with -e %s, which passes on the value of your shell, or -e %s=VALUE", name, name)
		if api.LooksSecret(name) {
			f.Retry.Say = fmt.Sprintf("submit with -e %s: it passes on the value of your shell, and nobody else sees it", name)
		}
	case "missing-program":
		if m := missingProgram.FindStringSubmatch(line); m != nil {
			f.Text = fmt.Sprintf("the program %s is not in %s", m[1], whereOf(t))
			f.Retry.Say = fmt.Sprintf("install it there, or submit from a shell in which \"which %s\" finds it", m[1])
			if inContainer(t) {
				f.Retry.Say = "install it in the image, or name another image"
			}
		}
	}
}

// inContainer reports whether a task runs in a container: on Kubernetes, where each has
// an origin, and on one machine if it names an image.
func inContainer(t *api.Task) bool { return t.Origin != "" || t.Image != "" }

// whereOf names the environment of a task.
func whereOf(t *api.Task) string {
	switch kind, dir := t.PythonEnv(); {
	case inContainer(t):
		return strings.TrimSpace("the image " + t.Image)
	case kind == "venv":
		return "the virtual environment " + dir
	case kind == "conda":
		return "the conda environment " + dir
	case t.Env["PATH"] != "":
		return "the environment of the job (no virtual environment was active when it was submitted)"
	}
	return "the environment of the daemon, in which the job runs"
}

// installIn says how a module gets into the environment of a task.
func installIn(t *api.Task, module string) string {
	_, dir := t.PythonEnv()
	say := "activate the environment that has it, and submit again"
	switch {
	case inContainer(t):
		say = "install it in the image"
	case dir != "":
		say = fmt.Sprintf("install it there (%s -m pip install %s), or submit from the shell in which it is installed", filepath.Join(dir, "bin", "python"), module)
	}
	if t.Dir != "" {
		say += fmt.Sprintf("; if it is a file of yours, submit from its folder (this job ran in %s)", t.Dir)
	}
	return say
}
