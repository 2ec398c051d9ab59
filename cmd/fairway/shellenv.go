// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fairway-gpu/fairway/api"
)

// shellVars are the variables of the shell that submits which a job on the same machine
// gets, by the beginning of their names: what an activated environment consists of, and
// where its programs look for libraries, models and data sets. What belongs to the user
// (HOME, USER) is the daemon's business, and what a name says is secret is asked for.
var shellVars = []string{
	"PATH=", "VIRTUAL_ENV=", "CONDA_", "MAMBA_", "PYENV_", "PYTHONPATH=", "PYTHONNOUSERSITE=", "PYTHONUSERBASE=",
	"LD_LIBRARY_PATH=", "CUDA_HOME=", "CUDA_PATH=", "MODULEPATH=", "LOADEDMODULES=", "_LMFILES_=",
	"HF_", "TORCH_HOME=", "XDG_CACHE_HOME=", "WANDB_", "MLFLOW_",
}

// travels reports whether a variable is taken over without being asked for.
func travels(name string) bool {
	return !api.LooksSecret(name) && slices.ContainsFunc(shellVars, func(begin string) bool { return strings.HasPrefix(name+"=", begin) })
}

// maxEnvFile bounds a file of variables, in bytes: more than a job may have.
const maxEnvFile = 64 << 10

// shellFlags say what a job gets of the shell that submits it.
type shellFlags struct {
	env, files           []string
	secrets, secretFiles []string
	clean                bool
}

func (f *shellFlags) register(fl *pflag.FlagSet) {
	fl.StringArrayVarP(&f.env, "env", "e", nil, "environment variable K=V, or K to pass yours on; repeatable")
	fl.StringArrayVar(&f.files, "env-file", nil, "`file` with lines K=V, or K to pass yours on; repeatable")
	fl.StringArrayVar(&f.secrets, "secret", nil, "pass on the environment variable `K` of yours without recording its value; repeatable")
	fl.StringArrayVar(&f.secretFiles, "secret-file", nil, "environment variable with the content of a file, `K=FILE`, that is not recorded; repeatable")
	fl.BoolVar(&f.clean, "clean-env", false, "do not pass on this shell's PATH and activated environment (venv, conda); see docs/job-file.md")
}

// shellEnv is what the jobs of a command get of the shell.
type shellEnv struct {
	base  map[string]string // taken over; a job file goes before it
	given map[string]string // asked for; it goes before a job file

	secrets map[string]string // asked for, and not recorded
}

// read returns what the jobs of a command that speaks to r get.
func (f *shellFlags) read(r *remote) (shellEnv, error) {
	s := shellEnv{base: map[string]string{}, given: map[string]string{}, secrets: map[string]string{}}
	if !f.clean && r.here() {
		for _, kv := range os.Environ() {
			if k, v, ok := strings.Cut(kv, "="); ok && v != "" && travels(k) {
				s.base[k] = v
			}
		}
	}
	for _, path := range f.files {
		if err := readEnvFile(path, s.given); err != nil {
			return s, usageError{err}
		}
	}
	for _, e := range f.env {
		if err := setVariable(e, s.given); err != nil {
			return s, usagef("--env %.60q: %w", e, err)
		}
	}
	for _, name := range f.secrets {
		if strings.Contains(name, "=") {
			return s, usagef("--secret: want the name of a variable of yours; a value would be seen by all users of this machine (or use --secret-file K=FILE)")
		}
		if err := setVariable(name, s.secrets); err != nil {
			return s, usagef("--secret %.60q: it is not set in your environment", name)
		}
	}
	for _, e := range f.secretFiles {
		name, path, ok := strings.Cut(e, "=")
		if !ok {
			return s, usagef("--secret-file %.60q: want K=FILE", e)
		}
		text, err := readBounded(path)
		if err != nil {
			return s, usagef("--secret-file %.60q: %w", e, err)
		}
		s.secrets[name] = strings.TrimRight(string(text), "\r\n")
	}
	return s, nil
}

// put adds the variables to a job. Secrets that its file names come from the shell. What
// is installed on the machine is not in an image, so the shell's environment stays outside.
func (s shellEnv) put(j *api.Submission) {
	env := map[string]string{}
	if j.Image == "" {
		maps.Copy(env, s.base)
	}
	if len(env)+len(s.given) > 0 {
		maps.Copy(env, j.Env)
		maps.Copy(env, s.given)
		j.Env = env
	}
	values := maps.Clone(s.secrets)
	for _, name := range j.Secrets {
		_, plain := j.Env[name]
		if v, ok := os.LookupEnv(name); ok && !plain {
			if _, given := values[name]; !given {
				values[name] = v
			}
		}
	}
	for name := range values {
		delete(j.Env, name)
	}
	if len(values) > 0 {
		maps.Copy(values, j.SecretValues)
		j.SecretValues = values
	}
}

// hideSecrets replaces the values of secrets, for a person who looks over a shoulder.
func hideSecrets(j *api.Submission) {
	for k := range j.TakeSecrets() {
		if j.SecretValues == nil {
			j.SecretValues = map[string]string{}
		}
		j.SecretValues[k] = "(not shown)"
	}
}

// setVariable reads "K=V", or "K" for the shell's own value.
func setVariable(text string, env map[string]string) error {
	name, value, given := strings.Cut(text, "=")
	if !given {
		if value, given = os.LookupEnv(name); !given {
			return fmt.Errorf("not set in your environment; want K=V")
		}
	}
	env[name] = value
	return nil
}

func readEnvFile(path string, env map[string]string) error {
	text, err := readBounded(path)
	if err != nil {
		return fmt.Errorf("read --env-file: %w", err)
	}
	if err := parseEnvFile(string(text), env); err != nil {
		return fmt.Errorf("read --env-file: %s:%w", path, err)
	}
	return nil
}

// readBounded reads a file of variables.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	if err == nil && len(text) > maxEnvFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxEnvFile)
	}
	return text, err
}

// parseEnvFile reads variables, one on each line, as most tools write them: a value may
// be in quotes, "export" may stand before the name, and # begins a comment.
func parseEnvFile(text string, env map[string]string) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "export "))
		name, value, given := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, " \t\"'") {
			return fmt.Errorf("%d: %.40q is not a variable; want K=V", number, name)
		}
		if given {
			value = strings.TrimSpace(value)
			if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
				value = value[1 : n-1]
			}
			line = name + "=" + value
		}
		if err := setVariable(line, env); err != nil {
			return fmt.Errorf("%d: %.40q: %w", number, name, err)
		}
	}
	return nil
}

// here reports whether the daemon is on this machine and runs jobs as the user who
// submits them: behind a token there may be another.
func (r *remote) here() bool {
	address, token := cmp.Or(r.address, defaultAddress()), cmp.Or(r.token, os.Getenv(envToken), r.tokenFile)
	p, err := r.place()
	if err != nil {
		return false // dialling tells why
	}
	if p != nil {
		address, token = p.Address, cmp.Or(token, p.TokenFile, strings.Join(p.TokenCommand, " "), strings.Join(p.Tunnel, " "))
	}
	return token == "" && (strings.HasPrefix(address, "unix:") || strings.HasPrefix(address, "/"))
}

// explainEnv says in which environment a job runs.
func explainEnv(j api.Job) string {
	var text string
	switch kind, dir := j.PythonEnv(); {
	case j.Image != "":
		text = "image " + clean(j.Image)
	case j.Origin != "":
		text = "that of its pods"
	case kind == "venv":
		text = "virtual environment " + clean(dir)
	case kind == "conda":
		text = "conda environment " + clean(dir)
	case j.Env["PATH"] != "":
		text = "no virtual environment; PATH is that of the shell that submitted it"
	default:
		text = "that of the daemon"
	}
	if j.Dir != "" {
		text += ", in " + clean(j.Dir)
	}
	if j.Origin == "" && j.Image != "" {
		text += "; in a container it starts cold, and changes its size by a restart"
	}
	var own []string
	for name := range j.Env {
		if !travels(name) {
			own = append(own, clean(name))
		}
	}
	slices.Sort(own)
	const most = 12
	if n := len(own) - most; n > 0 {
		own = append(own[:most], fmt.Sprintf("and %d more", n))
	}
	if len(own) > 0 {
		text += "; variables: " + strings.Join(own, ", ")
	}
	if len(j.Secrets) > 0 {
		text += "; secrets: " + clean(strings.Join(j.Secrets, ", "))
	}
	return text
}
