// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// envFolder names a folder with the programs, instead of the cache folder.
	envFolder = "FAIRWAY_CONTROLPLANE"
	// envMust says that tests that need the programs must run (1), or are skipped (0).
	envMust = "FAIRWAY_E2E"

	modulePath = "github.com/fairway-gpu/fairway"
	toolFolder = "tools/controlplane"
)

// ErrAbsent means that programs are missing. The error says how to get them.
var ErrAbsent = errors.New("the control plane is not built")

// errNoNodePrograms is the ErrAbsent for programs that only real nodes need. Not every
// machine can have them, so these tests may be skipped even with FAIRWAY_E2E=1.
var errNoNodePrograms = fmt.Errorf("%w for real nodes", ErrAbsent)

// digested are the files of the tools module that decide what is built, in the
// order in which build.sh reads them.
var digested = []string{"go.mod", "go.sum", "build.sh", "etcd/main.go", "pod/main.go"}

// findPrograms returns the folder that holds all the named programs.
func findPrograms(programs ...string) (string, error) {
	if os.Getenv(envMust) == "0" {
		return "", fmt.Errorf("%w, or skipped by %s=0", ErrAbsent, envMust)
	}
	folder := os.Getenv(envFolder)
	if folder == "" {
		var err error
		if folder, err = cacheFolder(); err != nil {
			return "", fmt.Errorf("%w: %w", ErrAbsent, err)
		}
	}
	for _, p := range programs {
		if _, err := os.Stat(filepath.Join(folder, p)); err != nil {
			absent, command := ErrAbsent, "make controlplane"
			if isNodeProgram(p) {
				absent, command = errNoNodePrograms, toolFolder+"/build.sh --real"
			}
			return "", fmt.Errorf("%w: no %s in %s; build it with %q, or name a folder that has it in %s", absent, p, folder, command, envFolder)
		}
	}
	return folder, nil
}

// isNodeProgram reports whether only a real node needs the program.
func isNodeProgram(p string) bool {
	return p == "kubelet" || p == "pod" || strings.HasPrefix(p, "node/")
}

// cacheFolder returns the folder into which build.sh of this checkout builds.
func cacheFolder() (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range digested {
		data, err := os.ReadFile(filepath.Join(root, toolFolder, name))
		if err != nil {
			return "", fmt.Errorf("find the control plane's cache folder: %w", err)
		}
		sum.Write(data)
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the control plane's cache folder: %w", err)
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "fairway", "controlplane", fmt.Sprintf("%x", sum.Sum(nil))[:16]), nil
}

// ModuleRoot returns the folder of Fairway's go.mod, at or above the working
// folder of the test.
func ModuleRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for at := folder; ; at = filepath.Dir(at) {
		data, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), "module "+modulePath+"\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("find the module: no go.mod of %s at or above %s; name the programs' folder in %s", modulePath, folder, envFolder)
		}
	}
}
