// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// boxTimeout bounds a question to a runtime, which may have to wait for others.
const boxTimeout = time.Minute

// FindRuntime finds what runs the containers of jobs on the machine. Without one it says why.
func FindRuntime(ctx context.Context, c Config, want string) (r Runtime, why string) {
	gpus := false
	for _, d := range c.Devices {
		gpus = gpus || d.Index >= 0
	}
	if want == RuntimeOff {
		return r, "containers.runtime is off in the daemon's configuration"
	}
	kinds := []string{want}
	if want == RuntimeAuto {
		kinds = []string{Podman, Apptainer, Docker}
	}
	var all []string
	for _, kind := range kinds {
		r, err := tryRuntime(ctx, kind, gpus)
		if err == nil {
			return r, ""
		}
		if !errors.Is(err, exec.ErrNotFound) || want != RuntimeAuto {
			all = append(all, err.Error())
		}
	}
	if len(all) == 0 {
		return r, "neither podman nor apptainer nor docker is installed"
	}
	return Runtime{}, strings.Join(all, "; ")
}

func tryRuntime(ctx context.Context, kind string, gpus bool) (Runtime, error) {
	program, err := exec.LookPath(kind)
	if err != nil {
		return Runtime{}, fmt.Errorf("%s is not installed: %w", kind, exec.ErrNotFound)
	}
	if program, err = filepath.Abs(program); err != nil {
		return Runtime{}, err
	}
	args := map[string][]string{
		Podman: {"version", "--format", "{{.Client.Version}}"}, Docker: {"version", "--format", "{{.Server.Version}}"}, Apptainer: {"--version"},
	}[kind]
	r := Runtime{Kind: kind, Program: program}
	text, err := r.ask(ctx, nil, os.Environ(), args...)
	if err != nil {
		return Runtime{}, fmt.Errorf("%s does not answer: %w", kind, err)
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return Runtime{}, fmt.Errorf("%s has no version", kind)
	}
	r.Version = words[len(words)-1]
	if kind == Podman {
		if gpus && !hasCDI("/etc/cdi", "/var/run/cdi") {
			return Runtime{}, errors.New("podman cannot find the GPUs: install the NVIDIA container toolkit and run \"nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml\"")
		}
		r.Init = findInit()
	}
	return r, nil
}

// hasCDI reports whether a folder describes NVIDIA's GPUs for containers (the container
// device interface).
func hasCDI(folders ...string) bool {
	for _, folder := range folders {
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			if text, err := os.ReadFile(filepath.Join(folder, e.Name())); err == nil && bytes.Contains(text, []byte("nvidia.com/gpu")) {
				return true
			}
		}
	}
	return false
}

// findInit finds catatonit, which distributions install with podman, or not.
func findInit() string {
	for _, path := range []string{"/usr/libexec/podman/catatonit", "/usr/local/libexec/podman/catatonit", "/usr/lib/podman/catatonit", "/usr/bin/catatonit"} {
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// ask runs a command of the runtime, as a user, and returns what it prints.
func (r Runtime) ask(ctx context.Context, user *syscall.Credential, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, boxTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.Program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = "/", env, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	out, said := &limited{left: 1 << 20}, &limited{left: 4096}
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %.300s", r.Kind, args[0], err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// unbox removes the containers of an attempt, whose other processes are gone. Where another
// service runs containers, an error means that they may be running.
func (o *order) unbox() error {
	b := o.Box
	if b == nil || b.Kind == Apptainer {
		return nil
	}
	who := accountOf(o)
	env := boxEnvironment(o, who)
	var err error
	for range 3 { // podman misses its monitor at first, if that was killed too
		var ids string
		ids, err = b.ask(context.Background(), who.credential, env, "ps", "--all", "--quiet", "--filter", "label="+boxLabel+"="+groupName(o.AttemptID, o.Nonce))
		if err == nil && strings.TrimSpace(ids) != "" {
			_, err = b.ask(context.Background(), who.credential, env, append([]string{"rm", "--force", "--volumes"}, strings.Fields(ids)...)...)
		}
		if err == nil || errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	switch {
	case errors.Is(err, os.ErrNotExist): // somebody removed the runtime
		return nil
	case err != nil:
		return fmt.Errorf("remove the containers of %s: %w", o.AttemptID, err)
	}
	return nil
}

// boxEnvironment returns the variables of the runtime itself.
func boxEnvironment(o *order, a account) []string {
	vars := hostVars(o, a)
	if a.credential != nil {
		// The runtime of a user who is logged in keeps its state there.
		if dir := fmt.Sprintf("/run/user/%d", a.credential.Uid); exists(dir) {
			vars["XDG_RUNTIME_DIR"] = dir
		}
	}
	return flatten(vars)
}
