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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// MPS lets kernels of several processes run on a GPU at the same time, and bounds
// the GPU memory of each process. One NVIDIA control daemon serves the programs of
// one operating-system user at a time; those of others would wait until all have
// ended. So every user gets their own, with its own folder for pipes. Jobs of
// different users on one GPU share it by time slices, as without MPS.
//
// The control daemon outlives this one, as the jobs do. It is found again by its
// folder, and is told to quit when this daemon ends and no job uses it.

const (
	mpsTimeout = 10 * time.Second
	mpsPause   = 10 * time.Minute // after one died or did not start
	mpsPath    = 80               // bytes: the pipes in it are sockets, which have short paths
)

// mps manages the control daemons.
type mps struct {
	mode, program string
	threads       int
	tell          func(string)

	mu      sync.Mutex
	until   map[string]time.Time // folders of users: not tried again before
	told    bool                 // that it cannot be used
	problem string
}

func (s *mps) open(c *Config) {
	s.mode, s.program, s.threads, s.tell = c.MPS, c.MPSControl, c.MPSThreads, c.Tell
	s.until = map[string]time.Time{}
}

func (m *Machine) mpsDir() string { return filepath.Join(m.cfg.Dir, "mps") }

// shared reports whether a slot is part of a shared GPU.
func shared(slot sched.Slice) bool { return slot.Milli < sched.WholeGPU }

// joinMPS returns the MPS setting of an attempt on a shared GPU, and makes sure
// that its user's control daemon runs; nil: it shares by time slices.
func (m *Machine) joinMPS(o *order) *mpsOrder {
	s := &m.mps
	if s.mode == MPSOff || o.CPU || !shared(o.Placement[0]) {
		return nil
	}
	uid := os.Geteuid()
	if o.Switch {
		uid = o.Owner.UID
	}
	dir := filepath.Join(m.mpsDir(), strconv.Itoa(uid))
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.cfg.Now().Before(s.until[dir]) {
		return nil
	}
	if _, err := exec.LookPath(s.program); err != nil {
		s.unusable(m, "this machine has no "+s.program)
		return nil
	}
	if err := s.ensure(m, dir, o); err != nil {
		s.until[dir] = m.cfg.Now().Add(mpsPause)
		s.unusable(m, err.Error())
		return nil
	}
	s.problem, s.told = "", false
	return &mpsOrder{Pipe: dir, Log: filepath.Join(dir, "log"), Threads: threadsOf(o.Placement[0].Milli, s.threads), Memory: api.MPSMemory(o.Spec.GPUMemory)}
}

// guestShare is the largest share of a GPU, in thousandths, that a guest holds.
const guestShare = sched.WholeGPU / 4

// threadsOf returns the share of a GPU's threads that a job may use, in percent; 0:
// all. A guest may use no more than its share, so that it cannot crowd out the job
// that holds the rest.
func threadsOf(milli int32, configured int) int {
	share := max(1, int(milli)*100/sched.WholeGPU)
	switch {
	case milli > guestShare:
		return configured
	case configured == 0:
		return share
	}
	return min(share, configured)
}

// unusable reports once that MPS is not available, if it was asked for.
func (s *mps) unusable(m *Machine, why string) {
	if s.mode == MPSOn {
		s.problem = "gpu.mps is on, but MPS cannot be used: " + why
	}
	if !s.told {
		s.told = true
		m.cfg.Log.Warn("MPS not available; jobs share GPUs by time slicing", "why", why)
		if s.mode == MPSOn {
			s.tell("jobs share GPUs by time slices, and nothing bounds their memory: MPS cannot be used: " + why)
		}
	}
}

// ensure makes sure that a control daemon serves a folder.
func (s *mps) ensure(m *Machine, dir string, o *order) error {
	if len(dir) > mpsPath {
		return fmt.Errorf("the path %s has %d bytes; MPS needs one of at most %d: use a shorter data folder", dir, len(dir), mpsPath)
	}
	if s.answers(dir) {
		return nil
	}
	// Other users may not list the folder above, but must pass through it.
	if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return err
	}
	for _, d := range []string{dir, filepath.Join(dir, "log")} {
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if o.Switch {
			if err := os.Lchown(d, o.Owner.UID, o.Owner.GID); err != nil {
				return err
			}
		}
	}
	cmd := exec.Command(s.program, "-d")
	cmd.Env = mpsEnvironment(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: accountOf(o).credential}
	said, err := runFor(cmd, mpsTimeout)
	if err != nil {
		return fmt.Errorf("start %s: %w: %.200s", s.program, err, strings.TrimSpace(said))
	}
	for until := time.Now().Add(mpsTimeout); !s.answers(dir); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			return fmt.Errorf("%s started but does not respond", s.program)
		}
	}
	m.cfg.Log.Info("MPS started for shared GPUs", "pipes", dir)
	return nil
}

// mpsEnvironment is the environment of a control daemon. It sees all GPUs, under
// the numbers that jobs use; with fewer, they would be renumbered.
func mpsEnvironment(dir string) []string {
	var env []string
	for _, kv := range ownEnvironment() {
		if !strings.HasPrefix(kv, "CUDA_") {
			env = append(env, kv)
		}
	}
	return append(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_MPS_PIPE_DIRECTORY="+dir, "CUDA_MPS_LOG_DIRECTORY="+filepath.Join(dir, "log"))
}

// answers reports whether a control daemon serves a folder: it asks a question
// that needs no GPU.
func (s *mps) answers(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "nvidia-cuda-mps-control.pid")); err != nil {
		return false
	}
	_, err := s.ask(dir, "get_default_active_thread_percentage")
	return err == nil
}

// ask sends a command to the control daemon of a folder.
func (s *mps) ask(dir, command string) (string, error) {
	cmd := exec.Command(s.program)
	cmd.Env = mpsEnvironment(dir)
	cmd.Stdin = strings.NewReader(command + "\n")
	return runFor(cmd, mpsTimeout)
}

// runFor runs a program that may leave a daemon behind, or hang in a broken
// driver: its output goes to a file, which is not waited for.
func runFor(cmd *exec.Cmd, limit time.Duration) (said string, err error) {
	out, err := os.CreateTemp("", "fairway-mps-")
	if err != nil {
		return "", err
	}
	defer out.Close()
	os.Remove(out.Name())
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err = <-done:
	case <-time.After(limit):
		_ = cmd.Process.Kill()
		return "", fmt.Errorf("no answer in %s", limit)
	}
	text := make([]byte, 4096)
	n, _ := out.ReadAt(text, 0)
	return string(bytes.TrimSpace(text[:n])), err
}

// watchMPS looks at the control daemons that jobs use, until the context ends.
func (m *Machine) watchMPS(ctx context.Context) {
	if m.mps.mode == MPSOff {
		return
	}
	ticker := time.NewTicker(m.cfg.MPSCheck)
	defer ticker.Stop()
	for {
		for dir := range m.mpsUsers() {
			m.checkMPS(dir)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// checkMPS falls back to time slices for new jobs if a control daemon is gone.
func (m *Machine) checkMPS(dir string) {
	if !m.mps.answers(dir) {
		m.dropMPS(dir, "MPS died")
	}
}

// mpsErrors are CUDA's messages when a program cannot use its MPS.
var mpsErrors = []string{"MPS client failed to connect", "MPS server is not ready", "MPS RPC failure", "MPS client have been exhausted", "CUDA_ERROR_MPS", "cudaErrorMps"}

// suspectMPS falls back to time slices for a while if an attempt failed because of
// MPS, which may answer and still not work.
func (m *Machine) suspectMPS(r *run, e *api.Exit) {
	if r.order.MPS == nil {
		return
	}
	for _, l := range e.Tails {
		for _, text := range mpsErrors {
			if strings.Contains(l.Text, text) {
				m.dropMPS(r.order.MPS.Pipe, "a job could not use MPS ("+text+")")
				return
			}
		}
	}
}

// dropMPS stops the use of a control daemon by new attempts for a while, and
// reports it.
func (m *Machine) dropMPS(dir, why string) {
	s := &m.mps
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.cfg.Now().Before(s.until[dir]) {
		return
	}
	s.until[dir] = m.cfg.Now().Add(mpsPause)
	m.cfg.Log.Error("MPS failed; new jobs share GPUs by time slicing", "why", why, "pipes", dir, "for", mpsPause)
	s.tell(fmt.Sprintf("%s: jobs that run under it may fail, and new ones share GPUs by time slices, with nothing to bound their memory, for %s; its log is in %s",
		why, mpsPause, filepath.Join(dir, "log")))
}

// servesMPS reports whether a process is an MPS server.
func servesMPS(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.HasPrefix(string(name), "nvidia-cuda-mps")
}

// mpsUsers returns the folders of control daemons that attempts use.
func (m *Machine) mpsUsers() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]bool{}
	for _, r := range m.runs {
		if r.order.MPS != nil && (r.state == running || r.state == launching) {
			out[r.order.MPS.Pipe] = true
		}
	}
	return out
}

// quitMPS ends the control daemons that no job uses.
func (m *Machine) quitMPS() {
	used := m.mpsUsers()
	m.mps.mu.Lock()
	defer m.mps.mu.Unlock()
	dirs, _ := filepath.Glob(filepath.Join(m.mpsDir(), "*"))
	for _, dir := range dirs {
		if used[dir] || !m.mps.answers(dir) {
			continue
		}
		if said, err := m.mps.ask(dir, "quit"); err != nil {
			m.cfg.Log.Warn("MPS does not exit", "pipes", dir, "err", err, "said", said)
		}
	}
}

// variables returns the environment for a program on n GPUs.
func (o *mpsOrder) variables(n int) map[string]string {
	vars := api.MPSLimits(n, o.Memory, o.Threads)
	vars["CUDA_MPS_PIPE_DIRECTORY"], vars["CUDA_MPS_LOG_DIRECTORY"] = o.Pipe, o.Log
	return vars
}
