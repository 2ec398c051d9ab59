// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

// container is a runtime of this machine, with an image of one program.
type container struct {
	Runtime
	image string
}

// realContainer returns a runtime; the test is skipped where it cannot run a container at all.
func realContainer(t *testing.T, kind string) container {
	t.Helper()
	program, err := exec.LookPath(kind)
	if err != nil {
		t.Skipf("%s is not installed", kind)
	}
	if testing.Short() {
		t.Skip("runs containers")
	}
	dir := t.TempDir()
	c := container{Runtime{Kind: kind, Program: filepath.Join(dir, kind)}, "localhost/fairway-test:1"}
	content := buildBox(t, dir)
	switch kind {
	case Podman:
		c.Init = findInit()
		// Its images are its own.
		own := fmt.Sprintf("%s --root %s/root --runroot %s/run --tmpdir %s/tmp --runtime-flag root=%s/oci --storage-driver vfs", program, dir, dir, dir, dir)
		c.wrap(t, own)
		if err := c.try("import", packBox(t, dir, content), c.image); err != nil {
			t.Skipf("podman cannot import an image: %v", err)
		}
		o := order{Box: &boxOrder{Runtime: c.Runtime}}
		run := append(append([]string{"run", "--rm", "--network", "host"}, o.podman(boxUser{})...), c.image, "/box", "none")
		if first := c.try(run...); first != nil {
			// crun refuses machines that have both versions of control groups, so podman gets
			// to see only one of them.
			writeProgram(t, c.Program, "#!/bin/sh\nexec unshare --mount sh -c 'umount /sys/fs/cgroup/unified && exec "+own+` "$@"' podman "$@"`+"\n")
			if err := c.try(run...); err != nil {
				t.Skipf("podman cannot run a container here: %v; nor with one version of control groups: %v", first, err)
			}
		}
	case Docker:
		host := cmp.Or(os.Getenv("DOCKER_HOST"), "unix:///var/run/docker.sock")
		if !strings.HasPrefix(host, "unix://") {
			t.Skipf("docker's service is at %s; want one of this machine", host)
		}
		c.wrap(t, program+" --host "+host)
		if err := c.try("import", packBox(t, dir, content), c.image); err != nil {
			t.Skipf("docker cannot import an image: %v", err)
		}
		t.Cleanup(func() { _ = c.try("rmi", "--force", c.image) })
		if err := c.try("run", "--rm", "--network", "host", c.image, "/box", "none"); err != nil {
			t.Skipf("docker cannot run a container here: %v", err)
		}
	case Apptainer:
		c.wrap(t, program)
		c.image = filepath.Join(dir, "image") // a folder is an image too
		if err := errors.Join(os.MkdirAll(c.image, 0o755), os.WriteFile(filepath.Join(c.image, "box"), content, 0o755)); err != nil {
			t.Fatal(err)
		}
		if first := c.try("exec", c.image, "/box", "none"); first != nil {
			// It asks for all of root's powers, which root may lack in a virtual machine.
			c.wrap(t, "env APPTAINER_USERNS=1 "+program)
			if err := c.try("exec", c.image, "/box", "none"); err != nil {
				t.Skipf("apptainer cannot run a container here: %v; nor with a user namespace: %v", first, err)
			}
		}
	}
	if kind != Apptainer {
		t.Cleanup(func() {
			left, err := c.ask(context.Background(), nil, os.Environ(), "ps", "--all", "--quiet", "--filter", "label="+boxLabel)
			if ids := strings.Fields(left); err != nil || len(ids) > 0 {
				t.Errorf("containers are left: %s, %v", left, err)
				_ = c.try(append([]string{"rm", "--force"}, ids...)...)
			}
		})
	}
	return c
}

// wrap makes a program that calls the runtime as the test wants it.
func (c container) wrap(t *testing.T, command string) {
	t.Helper()
	writeProgram(t, c.Program, "#!/bin/sh\nexec "+command+` "$@"`+"\n")
}

func (c container) try(args ...string) error {
	_, err := c.ask(context.Background(), nil, os.Environ(), args...)
	return err
}

// buildBox builds the program of testdata/box.
func buildBox(t *testing.T, dir string) []byte {
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
	return content
}

// packBox packs the program for an image.
func packBox(t *testing.T, dir string, content []byte) string {
	t.Helper()
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

func (c container) attempt(number int, args ...string) api.Attempt {
	a := attempt("boxed", number, 0b1, "")
	a.Task.Image, a.Task.Command = c.image, append([]string{"/box"}, args...)
	return a
}

// TestContainers: a real container behaves as a process of the machine does.
func TestContainers(t *testing.T) {
	for _, kind := range []string{Podman, Docker, Apptainer} {
		t.Run(kind, func(t *testing.T) { testContainer(t, kind) })
	}
}

func testContainer(t *testing.T, kind string) {
	t.Setenv("FROM_THE_DAEMON", "must not be inside")
	box := realContainer(t, kind)
	r := newRig(t, func(c *Config) { c.Runtime = box.Runtime })
	log := func(id api.AttemptID) string { return read(t, r.m.attemptDir(id), rankLog(0)) }
	ready := func(id api.AttemptID) {
		t.Helper()
		eventually(t, "its output", func() bool { return strings.Contains(log(id), "ready") || len(r.orders.exitsOf(id)) > 0 })
		if e := r.orders.exitsOf(id); len(e) > 0 {
			t.Fatalf("it has ended: %s, log %s", show(e[0]), log(id))
		}
	}

	t.Run("runs", func(t *testing.T) {
		a := box.attempt(1, "show", "7")
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
		if r.m.group && kind != Docker && !strings.Contains(said, "/fairway-boxed.1-") {
			t.Errorf("the container is not in the control group of its attempt: %s", said)
		}
		for _, path := range []string{filepath.Join(a.Task.Dir, "made"), filepath.Join(r.m.jobDir(a.Job), checkpointDir, "kept")} {
			if read(t, path) != "x" {
				t.Errorf("%s was not written from inside: %s", path, said)
			}
		}
	})
	t.Run("is suspended, and saves when the next daemon asks it to stop", func(t *testing.T) {
		a := box.attempt(2, "save")
		r.orders.set(a)
		ready(a.AttemptID)
		a.Suspended = true
		r.orders.set(a)
		eventually(t, "it is suspended, or that is refused", func() bool { return len(r.orders.suspensions()) == 1 })
		if s := r.orders.suspensions()[0]; (s.Failed != "") != (kind == Docker) || isStill(t, r, "boxed") == (kind == Docker) {
			t.Errorf("%+v; want that all but docker suspend it", s)
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
		a := box.attempt(3, "stay")
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
			a := box.attempt(4+i, "stay")
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
