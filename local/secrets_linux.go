// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
)

const (
	secretsDir = "secrets"
	secretsEnd = ".json"
)

var secretsRef = regexp.MustCompile(`^[0-9a-f]{32}$`)

// secretsPath returns the file of what a record names ref.
func secretsPath(dir, ref string) string { return filepath.Join(dir, secretsDir, ref+secretsEnd) }

// Secrets keeps the values of secret variables: a file of mode 0600 for each set,
// outside the journal. A set that no record names is swept.
type Secrets struct {
	dir string // of the machine

	mu        sync.Mutex
	undecided map[string]bool // written; whether a record names them is not known yet
}

// OpenSecrets opens those of a machine's folder.
func OpenSecrets(dir string) (*Secrets, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil { // users walk through to the folders of their jobs
		return nil, fmt.Errorf("open secrets: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, secretsDir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("open secrets: %w", err)
	}
	return &Secrets{dir: dir, undecided: map[string]bool{}}, syncDir(dir)
}

// Keep writes a set; it is durable when Keep returns.
func (s *Secrets) Keep(values map[string]string) (ref string, err error) {
	ref = newNonce()
	s.mu.Lock()
	s.undecided[ref] = true // before the file is there, so that no sweep takes it
	s.mu.Unlock()
	if err := writeRecord(secretsPath(s.dir, ref), values); err != nil {
		s.Decided(ref)
		return "", err
	}
	return ref, nil
}

// Decided says that a record names a set, or that none ever will.
func (s *Secrets) Decided(ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.undecided, ref)
}

// Sweep removes the sets that no record names: their jobs have ended, or were never
// accepted. It looks at the files first: a set that is written meanwhile stays.
func (s *Secrets) Sweep(inUse func() (map[string]bool, error)) error {
	files, err := os.ReadDir(filepath.Join(s.dir, secretsDir))
	if err != nil || len(files) == 0 {
		return err
	}
	s.mu.Lock()
	undecided := make(map[string]bool, len(s.undecided))
	for ref := range s.undecided {
		undecided[ref] = true
	}
	s.mu.Unlock() // before asking: a set that is decided from here on is in use by then
	used, err := inUse()
	if err != nil {
		return err
	}
	var faults []error
	for _, f := range files {
		ref, whole := strings.CutSuffix(f.Name(), secretsEnd)
		if !whole { // being written, or left by a crash
			ref, _, _ = strings.Cut(f.Name(), secretsEnd)
		}
		if used[ref] && whole || undecided[ref] {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, secretsDir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// readSecrets gives the order of a supervisor the values of its secret variables.
func (o *order) readSecrets() (api.Exit, bool) {
	if o.SecretsFile == "" {
		return api.Exit{}, true
	}
	err := readRecord(o.SecretsFile, &o.secrets)
	if err == nil {
		return api.Exit{}, true
	}
	names := strings.Join(o.Task.Secrets, ", ")
	if !errors.Is(err, fs.ErrNotExist) {
		return lostExit(o.AttemptID, fmt.Errorf("read the values of %.200s: %w", names, err)), false
	}
	why := fmt.Sprintf("the values of %.200s are gone: %s is missing; submit the job again", names, o.SecretsFile)
	return api.Exit{AttemptID: o.AttemptID, At: time.Now(), Code: 126, Why: why, Host: []diagnose.Event{{Kind: api.HostRefused, Text: why}}}, false
}
