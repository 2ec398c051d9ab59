// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/client"
)

// program builds the fairway command once, without the race detector: the tests
// here are about processes, and the detector makes each of them ten times larger.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fairway-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "fairway")
	build := exec.Command("go", "build", "-o", path, "../cmd/fairway")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build fairway: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	printLedger()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// daemon is a running "fairway up".
type daemon struct {
	t    *testing.T
	data string
	args []string
	wrap []string // the command that runs it
	path string   // of the program; empty: as it is built by default
	cmd  *exec.Cmd
	log  *lockedBuffer

	ended <-chan struct{} // closed when the process has ended
	end   error           // how

	*client.Client
}

// startDaemon starts the daemon on a folder; the test's end stops it and
// everything it started.
func startDaemon(t *testing.T, data string, args ...string) *daemon {
	t.Helper()
	return startDaemonIn(t, nil, data, args...)
}

// startDaemonIn is startDaemon with a command that runs the daemon.
func startDaemonIn(t *testing.T, wrap []string, data string, args ...string) *daemon {
	t.Helper()
	return (&daemon{wrap: wrap}).on(t, data, args...)
}

// on starts a daemon on a folder.
func (d *daemon) on(t *testing.T, data string, args ...string) *daemon {
	t.Helper()
	d.t, d.data, d.args, d.log = t, data, args, &lockedBuffer{}
	var err error
	d.Client, err = client.New(client.Options{Address: "unix://" + filepath.Join(data, "fairway.sock")})
	if err != nil {
		t.Fatal(err)
	}
	d.start()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemon's log ends:\n%s", d.log.tail(4000))
		}
		d.kill()
		endOrphans(data)
	})
	return d
}

// shortDir returns a new folder with a short name: the path of a Unix socket
// has little room.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// launch starts the process.
func (d *daemon) launch() {
	d.t.Helper()
	path := d.path
	if path == "" {
		var err error
		if path, err = program(); err != nil {
			d.t.Fatal(err)
		}
	}
	command := slices.Concat(d.wrap, []string{path, "up", "--data", d.data, "--listen="}, d.args)
	d.cmd = exec.Command(command[0], command[1:]...)
	d.cmd.Stderr, d.cmd.Stdout = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	ended := make(chan struct{})
	d.ended = ended
	go func(cmd *exec.Cmd) { d.end = cmd.Wait(); close(ended) }(d.cmd)
}

// start starts the daemon and waits until it answers.
func (d *daemon) start() {
	d.t.Helper()
	if err := d.tryStart(); err != nil {
		d.t.Fatalf("%v\n%s", err, d.log.tail(4000))
	}
}

// patience is how long a test waits for something that is quick on an idle machine.
const patience = 3 * time.Minute

// tryStart is start, and returns why the daemon does not answer.
func (d *daemon) tryStart() error {
	d.t.Helper()
	d.launch()
	for deadline := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		_, err := d.Overview(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the daemon does not answer: %w", err)
		}
		select {
		case <-d.ended:
			return fmt.Errorf("the daemon has ended: %w", d.end)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// kill is kill -9.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may have exited by itself
	<-d.ended
}

// stop asks the daemon to exit and returns its exit error.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-d.ended
	return d.end
}

// endOrphans kills the processes that jobs of a data folder left running.
func endOrphans(data string) {
	procs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range procs {
		env, err := os.ReadFile(p)
		if err == nil && bytes.Contains(env, []byte(data)) {
			var pid int
			if _, err := fmt.Sscanf(p, "/proc/%d/environ", &pid); err == nil && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				thaw(pid)
			}
		}
	}
}

// thaw lets a suspended process go, which in a frozen control group of version 1 cannot
// even be killed.
func thaw(pid int) {
	groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.SplitSeq(string(groups), "\n") {
		if _, group, ok := strings.Cut(line, ":freezer:"); ok && strings.HasPrefix(filepath.Base(group), "fairway-") {
			_ = os.WriteFile(filepath.Join("/sys/fs/cgroup/freezer", group, "freezer.state"), []byte("THAWED"), 0)
		}
	}
}

// lockedBuffer keeps the end of what is written to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	if const64 := 64 << 10; len(l.b) > 2*const64 {
		l.b = append([]byte(nil), l.b[len(l.b)-const64:]...)
	}
	return len(p), nil
}

func (l *lockedBuffer) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b[max(0, len(l.b)-n):])
}
