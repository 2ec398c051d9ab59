// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

const boxImage = "localhost/fairway-test:1"

// realPodman returns a podman with images of its own: one, with one program. The test is
// skipped where podman cannot run a container at all.
func realPodman(t *testing.T) Runtime {
	t.Helper()
	podman, err := exec.LookPath("podman")
	if err != nil {
		t.Skip("podman is not installed")
	}
	if testing.Short() {
		t.Skip("runs containers")
	}
	dir := t.TempDir()
	own := fmt.Sprintf("%s --root %s/root --runroot %s/run --tmpdir %s/tmp --runtime-flag root=%s/oci --storage-driver vfs", podman, dir, dir, dir, dir)
	r := Runtime{Kind: Podman, Program: filepath.Join(dir, "podman"), Init: findInit()}
	ask := func(args ...string) error {
		_, err := r.ask(context.Background(), nil, os.Environ(), args...)
		return err
	}
	writeProgram(t, r.Program, "#!/bin/sh\nexec "+own+` "$@"`+"\n")
	if err := ask("import", packBox(t, dir), boxImage); err != nil {
		t.Skipf("podman cannot import an image: %v", err)
	}
	o := order{Box: &boxOrder{Runtime: r}}
	try := func() error {
		return ask(append(append([]string{"run", "--rm", "--network", "host"}, o.podman(boxUser{})...), boxImage, "/box", "none")...)
	}
	first := try()
	if first != nil {
		// crun refuses machines that have both versions of control groups, so podman gets
		// to see only one of them.
		writeProgram(t, r.Program, "#!/bin/sh\nexec unshare --mount sh -c 'umount /sys/fs/cgroup/unified && exec "+own+` "$@"' podman "$@"`+"\n")
		if err := try(); err != nil {
			t.Skipf("podman cannot run a container here: %v; nor with one version of control groups: %v", first, err)
		}
	}
	t.Cleanup(func() {
		if left, err := r.ask(context.Background(), nil, os.Environ(), "ps", "--all", "--quiet"); err != nil || strings.TrimSpace(left) != "" {
			t.Errorf("containers are left: %s, %v", left, err)
			_ = ask("rm", "--all", "--force")
		}
	})
	return r
}

// packBox builds the program of testdata/box and packs it for an image.
func packBox(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(dir, "box")
	build := exec.Command("go", "build", "-o", program, "./testdata/box")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program of the image: %v: %s", err, out)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var pack bytes.Buffer
	w := tar.NewWriter(&pack)
	if err := w.WriteHeader(&tar.Header{Name: "box", Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "image.tar")
	if err := os.WriteFile(path, pack.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func boxAttempt(number int, args ...string) api.Attempt {
	a := attempt("boxed", number, 0b1, "")
	a.Task.Image, a.Task.Command = boxImage, append([]string{"/box"}, args...)
	return a
}

// TestPodman: a real container behaves as a process of the machine does.
func TestPodman(t *testing.T) {
	t.Setenv("FROM_THE_DAEMON", "must not be inside")
	runtime := realPodman(t)
	r := newRig(t, func(c *Config) { c.Runtime = runtime })
	log := func(id api.AttemptID) string { return read(t, r.m.attemptDir(id), rankLog(0)) }
	ready := func(id api.AttemptID) {
		t.Helper()
		eventually(t, "its output", func() bool { return strings.Contains(log(id), "ready") || len(r.orders.exitsOf(id)) > 0 })
		if e := r.orders.exitsOf(id); len(e) > 0 {
			t.Fatalf("it has ended: %s, log %s", show(e[0]), log(id))
		}
	}

	t.Run("runs", func(t *testing.T) {
		a := boxAttempt(1, "show", "7")
		a.Task.Dir = t.TempDir()
		a.Task.Env = map[string]string{"PATH": "/inside", "HIDDEN": "four"}
		r.orders.set(a)
		e, said := r.exit(a.AttemptID), log(a.AttemptID)
		if e.Code != 7 || e.Lost || e.Signal != "" {
			t.Errorf("%s; want code 7; log %s", show(e), said)
		}
		for _, want := range []string{
			fmt.Sprintf("user %d dir %s rank 0 of 1\n", os.Geteuid(), a.Task.Dir), "secret 4 path /inside shell \n",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("log %s\nhas no %q", said, want)
			}
		}
		if r.m.group && !strings.Contains(said, "/fairway-boxed.1-") {
			t.Errorf("the container is not in the control group of its attempt: %s", said)
		}
		for _, path := range []string{filepath.Join(a.Task.Dir, "made"), filepath.Join(r.m.jobDir(a.Job), checkpointDir, "kept")} {
			if read(t, path) != "x" {
				t.Errorf("%s was not written from inside: %s", path, said)
			}
		}
	})
	t.Run("is suspended, and saves when the next daemon asks it to stop", func(t *testing.T) {
		a := boxAttempt(2, "save")
		r.orders.set(a)
		ready(a.AttemptID)
		a.Suspended = true
		r.orders.set(a)
		eventually(t, "it is suspended", func() bool { return len(r.orders.suspensions()) == 1 })
		if s := r.orders.suspensions()[0]; s.Failed != "" || !isStill(t, r, "boxed") {
			t.Errorf("%+v, and it goes on", s)
		}
		r.reopen()
		before := len(countOf(t, r, "boxed"))
		a.Suspended = false
		r.orders.set(a)
		eventually(t, "it goes on", func() bool { return len(countOf(t, r, "boxed")) > before })
		r.orders.set()
		if e := r.exit(a.AttemptID); !e.Yielded || !e.Noticed {
			t.Errorf("%s; want that it has saved its work; log %s", show(e), log(a.AttemptID))
		}
		if !strings.Contains(log(a.AttemptID), "saved") {
			t.Errorf("log %s", log(a.AttemptID))
		}
	})
	t.Run("is killed when it does not stop", func(t *testing.T) {
		a := boxAttempt(3, "stay")
		a.Task.GracePeriod = 1
		r.orders.set(a)
		ready(a.AttemptID)
		r.orders.set()
		if e := r.exit(a.AttemptID); e.Signal != "SIGKILL" || !e.Noticed {
			t.Errorf("%s; want SIGKILL", show(e))
		}
		if n := ranksOf(r, a.Job); n > 0 {
			t.Errorf("%d processes are left", n)
		}
	})
	for i, group := range []bool{r.m.group, false} {
		t.Run(fmt.Sprintf("ends with its supervisor, group %t", group), func(t *testing.T) {
			r.m.update(func() { r.m.group = group })
			a := boxAttempt(4+i, "stay")
			r.orders.set(a)
			ready(a.AttemptID)
			r.killShim(a.AttemptID)
			if e := r.exit(a.AttemptID); !e.Lost {
				t.Errorf("%s; want that it is lost", show(e))
			}
			if n := ranksOf(r, a.Job); n > 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}
