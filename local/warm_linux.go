// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/proc"
)

const (
	// warmRefill is how long after a start the next standby is made: the import takes a
	// core for seconds, which the start needs itself.
	warmRefill = 3 * time.Second
	warmAgain  = 10 * time.Minute // after an interpreter that has no torch
	warmLook   = 15 * time.Second // between looks for standbys that nobody uses
)

// importVars are the variables that matter while an interpreter starts and imports
// torch, by the beginning of their names: a standby serves attempts with the same. All
// others a rank gets when it is forked.
var importVars = []string{
	"PYTHON", "LD_", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "MALLOC_", "GLIBC_", "TORCH", "PYTORCH_",
	"NCCL_", "CUDA_HOME=", "CUDA_PATH=", "CUDA_MODULE_LOADING=", "VIRTUAL_ENV=", "CONDA_", "HOME=", "PATH=", "LANG=", "LC_", "TZ=",
}

var pythonName = regexp.MustCompile(`^python(3(\.\d+)?)?$`)

// plainFlags are the options of an interpreter with which a standby can be started.
var plainFlags = []string{"-u", "-B", "-O", "-OO", "-s", "-E"}

// python is a command that runs a script or a module.
type python struct {
	flags  []string
	module bool
	args   []string // the script or the module, and its arguments
}

func pythonCommand(command []string) (python, bool) {
	var p python
	if !pythonName.MatchString(filepath.Base(command[0])) {
		return p, false
	}
	for i, arg := range command[1:] {
		switch {
		case slices.Contains(plainFlags, arg):
			p.flags = append(p.flags, arg)
		case arg == "-m" && i+2 < len(command):
			p.module, p.args = true, command[i+2:]
			return p, !strings.HasPrefix(p.args[0], "-")
		default:
			p.args = command[i+1:]
			return p, arg != "" && !strings.HasPrefix(arg, "-")
		}
	}
	return p, false
}

// warmPool keeps standbys for the environments that were used last.
type warmPool struct {
	most   int
	idle   time.Duration
	refill time.Duration // after a start

	mu       sync.Mutex
	standbys map[string]*standby
	until    map[string]time.Time // environments without torch: not tried before
	used     map[string]time.Time
	closed   bool
}

// standby is the daemon's view of one.
type standby struct {
	process *os.Process
	control int // descriptor
	helper  int // process of the interpreter; 0: it is not ready
}

func (p *warmPool) open(c *Config) {
	p.most, p.idle, p.refill = c.Warm, c.WarmIdle, warmRefill
	p.standbys, p.until, p.used = map[string]*standby{}, map[string]time.Time{}, map[string]time.Time{}
}

// standbyFor returns what a standby for an order has to start; ok is false if the order
// must start the ordinary way.
func (m *Machine) standbyFor(o *order) (so standbyOrder, key string, ok bool) {
	c, ok := pythonCommand(o.Task.Command)
	if m.warm.most == 0 || !ok || o.Task.Image != "" || len(o.Task.Roles) > 0 {
		return so, "", false
	}
	who := accountOf(o)
	dir := o.Task.Dir
	if dir == "" {
		dir = o.Work
	}
	env := environment(o, who, rankVars{world: 1})
	program, err := lookProgram(o.Task.Command[0], dir, env)
	if err != nil || !filepath.IsAbs(program) || !isBinary(program) {
		return so, "", false
	}
	so = standbyOrder{Program: program, Flags: c.flags, Credential: who.credential, NewPrivileges: o.NewPrivileges}
	so.Env = slices.DeleteFunc(env, func(kv string) bool {
		return !slices.ContainsFunc(importVars, func(begin string) bool { return strings.HasPrefix(kv, begin) })
	})
	text, err := json.Marshal(so)
	if err != nil {
		return so, "", false
	}
	so.Env = append(so.Env, warmRoom+"="+strings.Repeat("-", 32<<10))
	return so, fmt.Sprintf("%x", sha256.Sum256(text)), true
}

// isBinary reports whether a program is no script: one that chooses an interpreter and
// sets variables for it would do so in vain.
func isBinary(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	_, err = f.ReadAt(head, 0)
	return err == nil && string(head) == "\x7fELF"
}

// takeStandby returns a standby for an order, if one is ready, and has the next one made.
func (m *Machine) takeStandby(o *order) *standby {
	so, key, ok := m.standbyFor(o)
	if !ok {
		return nil
	}
	p := &m.warm
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[key] = m.cfg.Now()
	time.AfterFunc(p.refill, func() { m.makeStandby(key, so) })
	s := p.standbys[key]
	if s == nil || s.helper == 0 {
		return nil
	}
	delete(p.standbys, key)
	return s
}

// makeStandby makes a standby, in the place of the one that was used least lately if there
// are too many.
func (m *Machine) makeStandby(key string, so standbyOrder) {
	p := &m.warm
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.standbys[key] != nil || m.cfg.Now().Before(p.until[key]) {
		return
	}
	for len(p.standbys) >= p.most {
		p.drop(slices.MinFunc(keys(p.standbys), func(a, b string) int { return p.used[a].Compare(p.used[b]) }))
	}
	s, err := m.startStandby(so)
	if err != nil {
		m.cfg.Log.Warn("cannot prepare a warm start", "python", so.Program, "err", err)
		return
	}
	p.standbys[key] = s
	control, err := unix.Dup(s.control) // for the goroutine: the pool may close its own
	if err != nil {
		p.drop(key)
		return
	}
	go func() { // ends when the standby does, or has said that it is ready
		defer unix.Close(control)
		buffer := make([]byte, 4<<10)
		n, _ := unix.Read(control, buffer)
		var said warmAnswer
		err := json.Unmarshal(buffer[:max(0, n)], &said)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.standbys[key] != s {
			return
		}
		if s.helper = said.PID; err != nil || said.Error != "" || said.PID == 0 {
			m.cfg.Log.Info("no warm starts with an interpreter", "python", so.Program, "why", said.Error)
			p.until[key] = m.cfg.Now().Add(warmAgain)
			p.drop(key)
		}
	}()
}

func keys(standbys map[string]*standby) []string {
	out := make([]string, 0, len(standbys))
	for k := range standbys {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// drop ends a standby. The caller holds the mutex.
func (p *warmPool) drop(key string) {
	s := p.standbys[key]
	delete(p.standbys, key)
	unix.Close(s.control)
	go func() { _, _ = s.process.Wait() }()
}

// startStandby starts the supervisor of a standby.
func (m *Machine) startStandby(so standbyOrder) (*standby, error) {
	text, err := json.Marshal(so)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	defer null.Close()
	argv := append(append([]string{}, m.cfg.Shim...), standbyArg)
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir: "/",
		// Its interpreter counts as part of a job, though of none that exists.
		Env:   append(ownEnvironment(), shimDirVar+"="+filepath.Join(m.jobsDir(), ".standby", "0")),
		Files: []*os.File{null, null, null, theirs, null, null}, // reserves readyFD and warmFD
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	s := &standby{process: p, control: pair[0]}
	if err := unix.Sendto(s.control, text, unix.MSG_NOSIGNAL, nil); err != nil {
		unix.Close(s.control)
		_ = p.Kill()
		_, _ = p.Wait()
		return nil, err
	}
	return s, nil
}

// launch gives the standby an attempt: from here on it is its supervisor. If that fails,
// it has got nothing.
func (s *standby) launch(r *run, files ...*os.File) error {
	defer unix.Close(s.control)
	text, err := json.Marshal(standbyLaunch{Dir: r.dir, Nonce: r.order.Nonce})
	if err != nil {
		return err
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	if err := unix.Sendmsg(s.control, text, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL); err != nil {
		_ = s.process.Kill()
		go func() { _, _ = s.process.Wait() }()
		return fmt.Errorf("hand over to a standby: %w", err)
	}
	return nil
}

// watchWarm ends standbys that nobody has used for a while, and those that died.
func (m *Machine) watchWarm(ctx context.Context) {
	p := &m.warm
	for p.most > 0 && ctx.Err() == nil {
		p.mu.Lock()
		for key, s := range p.standbys {
			_, err := proc.Read(s.helper)
			if m.cfg.Now().Sub(p.used[key]) > p.idle || s.helper > 0 && errors.Is(err, os.ErrNotExist) {
				p.drop(key)
			}
		}
		p.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(warmLook):
		}
	}
}

// closeWarm ends all standbys.
func (m *Machine) closeWarm() {
	p := &m.warm
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for key := range p.standbys {
		p.drop(key)
	}
}

// Warm returns what waits to start jobs quickly; nil: that is turned off.
func (m *Machine) Warm() *api.Warm {
	p := &m.warm
	if p.most == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &api.Warm{Most: p.most}
	for _, s := range p.standbys {
		if info, err := proc.Read(s.helper); err == nil && s.helper > 0 {
			w.Ready++
			w.Memory += info.RSS
		}
	}
	return w
}
