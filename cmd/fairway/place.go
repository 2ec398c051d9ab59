// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
)

// Variables that say where the daemon is and who asks.
const (
	envAddress = "FAIRWAY_ADDRESS"
	envData    = "FAIRWAY_DATA"
	envToken   = "FAIRWAY_API_TOKEN"
)

// rootDataDir is where the daemon of root keeps its data: other users cannot walk
// through root's home, and their jobs must reach their folders and their agent's socket.
const rootDataDir = "/var/lib/fairway"

// defaultDataDir is the folder of everything the daemon keeps.
func defaultDataDir() string {
	if dir := os.Getenv(envData); dir != "" {
		return absolute(dir)
	}
	dir := homeDir("XDG_STATE_HOME", ".local", "state")
	if root, err := user.LookupId("0"); err == nil && os.Geteuid() == 0 {
		return dataDirOfRoot(dir, root.HomeDir)
	}
	return dir
}

// dataDirOfRoot returns the data folder of root, whose folder in a home would be dir. One
// outside of root's own home was chosen, and one that holds a journal is used.
func dataDirOfRoot(dir, home string) string {
	_, err := os.Stat(filepath.Join(dir, "journal"))
	if below, e := filepath.Rel(home, dir); err == nil || e != nil || !filepath.IsLocal(below) {
		return dir
	}
	return rootDataDir
}

// dataDirOf returns the data folder of the daemon at an address: the folder of its socket, if
// there is a journal too, else the usual one.
func dataDirOf(address string) string {
	if socket, ok := strings.CutPrefix(address, "unix://"); ok {
		if _, err := os.Stat(filepath.Join(filepath.Dir(socket), "journal")); err == nil {
			return filepath.Dir(socket)
		}
	}
	return defaultDataDir()
}

// defaultAddress is where the daemon answers unless told otherwise.
func defaultAddress() string {
	return cmp.Or(os.Getenv(envAddress), "unix://"+filepath.Join(defaultDataDir(), "fairway.sock"))
}

// defaultTokenFile is where a token for a daemon behind TCP is looked for.
func defaultTokenFile() string {
	return filepath.Join(homeDir("XDG_CONFIG_HOME", ".config"), "token")
}

// homeDir returns Fairway's folder below the one that a variable names, else
// below a folder of the user's home.
func homeDir(variable string, below ...string) string {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) { // the XDG rules: others are ignored
		return filepath.Join(dir, "fairway")
	}
	home, err := os.UserHomeDir()
	if err != nil { // a service without a home
		home = os.TempDir()
	}
	return absolute(filepath.Join(append(append([]string{home}, below...), "fairway")...))
}

func absolute(dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		return full
	}
	return dir
}

// maxToken bounds a token file, in bytes.
const maxToken = 4 << 10

// readTokenFile reads a token that only its owner may read. A file that is not
// there gives an empty token if it need not be.
func readTokenFile(path string, mustExist bool) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !mustExist {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("read token: %s is readable by others (mode %04o); run \"chmod 600 %s\"", path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(text) > maxToken || token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("read token: %s does not contain exactly one token", path)
	}
	return token, nil
}
