// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
)

// room knows whether the machine has what every start needs: space and inodes in
// the data folder, file descriptors, memory for another process. Without it,
// starting is paused: the attempts that would fail are none of the jobs' fault.
type room struct {
	mu    sync.Mutex
	why   string // starting is paused; empty: it is not
	since time.Time
	good  int // probes in a row that worked since then
}

const (
	leastInodes = 64       // that must be free to start an attempt
	leastBytes  = 64 << 20 // the same for bytes, or a twentieth of a small disk
	goodProbes  = 3        // in a row before starting resumes
	probeBytes  = 64 << 10
)

// Paused returns why no attempt is started; empty: starting is not paused.
func (m *Machine) Paused() string {
	m.room.mu.Lock()
	defer m.room.mu.Unlock()
	return m.room.why
}

// watchRoom pauses and resumes starting until the context ends.
func (m *Machine) watchRoom(ctx context.Context) {
	ticker := time.NewTicker(m.cfg.Probe)
	defer ticker.Stop()
	for {
		if m.Paused() != "" {
			m.resume(m.probe())
		} else if err := m.low(1); err != nil {
			m.pause(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// pause stops all starts.
func (m *Machine) pause(err error) {
	m.room.mu.Lock()
	was := m.room.why
	m.room.why, m.room.good = err.Error(), 0
	if was == "" {
		m.room.since = m.cfg.Now()
	}
	m.room.mu.Unlock()
	if was != "" {
		return
	}
	m.cfg.Log.Error("starting jobs is paused", "why", err)
	m.cfg.Tell("starting jobs is paused: " + err.Error())
	m.poke()
}

// resume allows starts again after several probes in a row have worked.
func (m *Machine) resume(probe error) {
	if probe != nil {
		m.pause(probe)
		return
	}
	m.room.mu.Lock()
	m.room.good++
	if m.room.good < goodProbes {
		m.room.mu.Unlock()
		return
	}
	m.room.why = ""
	after := m.cfg.Now().Sub(m.room.since).Round(time.Second)
	m.room.mu.Unlock()
	m.cfg.Log.Info("starting jobs resumes", "after", after)
	m.cfg.Tell(fmt.Sprintf("starting jobs resumes after %s", after))
	m.poke()
}

// low returns an error if the data folder has less room than a start should find,
// times a factor.
func (m *Machine) low(factor uint64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(m.cfg.Dir, &s); err != nil {
		return fmt.Errorf("look at %s: %w", m.cfg.Dir, err)
	}
	// Some file systems report no size, or have no fixed number of inodes.
	block := uint64(s.Bsize)
	if free, least := s.Bavail*block, factor*min(leastBytes, s.Blocks*block/20); s.Blocks > 0 && free < least {
		return fmt.Errorf("the disk of %s is full: %s are free, a start needs %s", m.cfg.Dir, mebibytes(int64(free)), mebibytes(int64(least)))
	}
	if least := factor * min(leastInodes, s.Files/20); s.Files > 0 && s.Ffree < least {
		return fmt.Errorf("the disk of %s is full: %d inodes are free, a start needs %d", m.cfg.Dir, s.Ffree, least)
	}
	return nil
}

// probe does what every start does: it makes a folder, writes a file durably and
// starts a process. It wants twice the room, so that starting does not pause again
// at once.
func (m *Machine) probe() error {
	if err := m.low(2); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(m.cfg.Dir, ".probe-")
	if err != nil {
		return fmt.Errorf("cannot make a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := writeFile(filepath.Join(dir, "probe"), make([]byte, probeBytes), true); err != nil {
		return fmt.Errorf("cannot write a file: %w", err)
	}
	argv := append(slices.Clone(m.cfg.Shim), "probe") // ends at once: this is no attempt's folder
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: "/", Env: ownEnvironment()})
	if err != nil {
		return fmt.Errorf("cannot start a process: %w", err)
	}
	_, err = p.Wait()
	return err
}

// heldBack returns the end of an attempt that the machine could not start, through
// no fault of the job; ok is false if the machine can start others and the error
// does not say that it ran out of something.
func (m *Machine) heldBack(id api.AttemptID, err error) (e api.Exit, ok bool) {
	if lacks := m.probe(); lacks != nil {
		m.pause(lacks)
	} else if !exhausted(err) {
		return e, false
	}
	return heldBackExit(id, m.cfg.Now(), err.Error()), true
}

func heldBackExit(id api.AttemptID, at time.Time, why string) api.Exit {
	return api.Exit{AttemptID: id, At: at, Lost: true, Why: why, Host: []diagnose.Event{{Kind: api.HostHeldBack}}}
}

// exhausted reports whether an error says that the machine ran out of something, or
// that its disk fails.
func exhausted(err error) bool {
	return slices.ContainsFunc([]error{
		unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO, // the disk
		unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, // the kernel
	}, func(lack error) bool { return errors.Is(err, lack) })
}
