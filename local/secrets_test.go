// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

// TestSecrets: a job has its secrets in its environment and nowhere else in its folder,
// and one whose secrets are gone fails with a sentence that says so.
func TestSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s, err := OpenSecrets(r.m.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	const value = "s3cr3t-value"
	ref, err := s.Keep(map[string]string{"WANDB_API_KEY": value})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(secretsPath(r.m.cfg.Dir, ref)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v; want mode 0600", info, err)
	}
	has := attempt("has", 1, 0b11, `printf %s "$WANDB_API_KEY" | wc -c`)
	has.Task.Secrets, has.Task.SecretsRef = []string{"WANDB_API_KEY"}, ref
	gone := attempt("gone", 1, 0b100, "echo ran")
	gone.Task.Secrets, gone.Task.SecretsRef = []string{"HF_TOKEN", "OTHER"}, strings.Repeat("0", 32)
	odd := attempt("odd", 1, 0b1000, "echo ran")
	odd.Task.SecretsRef = "../../x"
	r.orders.set(has, gone, odd)
	if e := r.exit(has.AttemptID); !e.OK() {
		t.Errorf("%+v; want success", e)
	}
	if log := read(t, r.m.cfg.Dir, "jobs/has/1/rank-0.log"); !strings.Contains(log, "12") {
		t.Errorf("the job printed %q; want the length of its secret, 12", log)
	}
	err = filepath.WalkDir(filepath.Join(r.m.cfg.Dir, "jobs"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), value) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	e := r.exit(gone.AttemptID)
	if e.OK() || !e.Saw(api.HostRefused) || !strings.HasPrefix(e.Text(), "could not be started: the values of HF_TOKEN, OTHER are gone: ") {
		t.Errorf("%+v: %s; want that it says what is gone", e, e.Text())
	}
	if e := r.exit(odd.AttemptID); !e.Lost || !strings.Contains(e.Why, "cannot name a file") {
		t.Errorf("%+v; want that no path is followed", e)
	}
}

// TestSweepSecrets: what is in use, and what is not decided, stays; all else goes, with
// what a crash left half written.
func TestSweepSecrets(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenSecrets(dir)
	if err != nil {
		t.Fatal(err)
	}
	keep := func() string {
		t.Helper()
		ref, err := s.Keep(map[string]string{"A": "b"})
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	used, undecided, ended := keep(), keep(), keep()
	s.Decided(used)
	s.Decided(ended)
	half := secretsPath(dir, used) + ".17.new"
	if err := os.WriteFile(half, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(func() (map[string]bool, error) { return nil, errors.New("the journal does not answer") }); err == nil || !exists(secretsPath(dir, ended)) {
		t.Errorf("swept without knowing what is in use: %v", err)
	}
	var late string // is accepted while the sweep is going on
	err = s.Sweep(func() (map[string]bool, error) {
		late = keep()
		s.Decided(late)
		s.Decided(undecided)
		return map[string]bool{used: true, "": true}, nil
	})
	if err != nil {
		t.Error(err)
	}
	for path, want := range map[string]bool{
		secretsPath(dir, used): true, secretsPath(dir, undecided): true, secretsPath(dir, late): true, secretsPath(dir, ended): false, half: false,
	} {
		if exists(path) != want {
			t.Errorf("%s is there: %v; want %v", path, !want, want)
		}
	}
	if s, err = OpenSecrets(dir); err != nil { // the daemon restarts
		t.Fatal(err)
	}
	if err := s.Sweep(func() (map[string]bool, error) { return map[string]bool{used: true}, nil }); err != nil || !exists(secretsPath(dir, used)) || exists(secretsPath(dir, late)) {
		t.Errorf("after a restart: %v", err)
	}
}
