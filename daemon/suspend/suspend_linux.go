// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/daemon/proc"
)

// record is the content of a target's file.
type record struct {
	Processes []identity        `json:"processes,omitempty"` // that use GPUs; suspended ones have closed their files
	Memory    int64             `json:"memory,omitempty"`    // bytes that they had there
	Limits    map[string]string `json:"limits,omitempty"`    // files of control groups that were changed, with what they held
	Out       time.Duration     `json:"out,omitempty"`       // how long it took
	Told      bool              `json:"told,omitempty"`
}

// identity names a process.
type identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// spareMemory is how many bytes of the host a suspension leaves.
const spareMemory = 1 << 30

// maxRecord bounds a target's file.
const maxRecord = 16 << 20

func read(path string) (r record, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if len(data) > maxRecord {
		return r, fmt.Errorf("read %s: more than %d bytes", path, maxRecord)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// write replaces the file in one step. It need not survive a power cut: the processes do
// not either.
func (r record) write(path string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temp := path + ".new"
	if err = os.WriteFile(temp, data, 0o600); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// TakeOff takes processes off their GPUs and freezes them. After an error they are to be
// put back. Processes that are suspended already give the result of the time when they
// were.
func (h *Host) TakeOff(t Target) (Result, error) {
	began := time.Now()
	all, err := t.Processes()
	if err != nil {
		return Result{}, err
	}
	r, err := read(t.File)
	begun := err == nil // by somebody who may not have come to the end
	if begun && frozen(&t, all) {
		return Result{Memory: r.Memory, Out: max(1, r.Out), Told: r.Told}, nil
	}
	uses := h.Uses
	if uses == nil {
		uses = holdsGPU
	}
	for _, p := range all {
		u := identity{p.PID, p.Start}
		if !slices.Contains(r.Processes, u) && uses(p.PID) {
			r.Processes = append(r.Processes, u)
		}
	}
	if err := h.moveOut(&t, &r, all, begun); err != nil {
		return Result{}, err
	}
	if err := freeze(&t); err != nil {
		return Result{}, err
	}
	r.Out, r.Told = max(1, time.Since(began)), false
	return Result{Memory: r.Memory, Out: r.Out}, r.write(t.File)
}

// moveOut moves what processes have on their GPUs to the host.
func (h *Host) moveOut(t *Target, r *record, all []proc.Process, begun bool) error {
	pids := alive(r.Processes)
	if len(pids) == 0 {
		return r.write(t.File)
	}
	if h.Memory != nil {
		r.Memory = max(r.Memory, h.Memory(pids))
	}
	if free := memoryFree(); !begun && free > 0 && r.Memory+spareMemory > free {
		return fmt.Errorf("%w: %.1f GB are on its GPUs, and %.1f GB are free", ErrShort, float64(r.Memory)/1e9, float64(free)/1e9)
	}
	r.remember(t.Limits)
	if err := r.write(t.File); err != nil {
		return err
	}
	before := residentSize(all)
	if err := r.raise(r.Memory + r.Memory/10 + spareMemory); err != nil {
		return err
	}
	d, err := h.open()
	if err != nil {
		return err
	}
	defer d.Close()
	if err := offGPUs(d, pids); err != nil {
		return err
	}
	if all, err = t.Processes(); err != nil {
		return err
	}
	r.Memory = max(r.Memory, residentSize(all)-before)
	return r.write(t.File)
}

// Told remembers that the suspension was reported.
func Told(t Target) error {
	r, err := read(t.File)
	if err != nil {
		return err
	}
	r.Told = true
	return r.write(t.File)
}

// Begun reports whether a target is suspended, or was being suspended or let go on.
func Begun(t Target) bool {
	_, err := os.Lstat(t.File)
	return err == nil
}

// PutBack undoes TakeOff, however far that came.
func (h *Host) PutBack(t Target) error {
	r, err := read(t.File)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := Thaw(t); err != nil {
		return err
	}
	if pids := alive(r.Processes); len(pids) > 0 {
		d, err := h.open()
		if err != nil {
			return err
		}
		defer d.Close()
		if err := ontoGPUs(d, pids); err != nil {
			return err
		}
	}
	r.restore()
	return os.Remove(t.File)
}

func alive(users []identity) (pids []int) {
	for _, u := range users {
		if p, err := proc.Read(u.PID); err == nil && p.Start == u.Start && p.State != 'Z' {
			pids = append(pids, u.PID)
		}
	}
	return pids
}
