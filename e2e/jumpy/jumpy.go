// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package jumpy builds programs whose clock a test moves.
package jumpy

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Variable names the file that has the seconds by which the clock of a program is off.
const Variable = "CHAOS_CLOCK"

// source is a file of package time in such a program. The file that Variable names is mapped,
// because the runtime asks for the time where no system call is allowed.
const source = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var jump = func() *int64 {
	path, _ := syscall.Getenv("` + Variable + `")
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("` + Variable + `: " + err.Error())
	}
	defer syscall.Close(fd)
	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("` + Variable + `: " + err.Error())
	}
	return (*int64)(unsafe.Pointer(&page[0]))
}()

func jumped() int64 {
	if jump == nil {
		return 0
	}
	return atomic.LoadInt64(jump)
}
`

// Overlay writes into a folder what "go build -overlay" needs for such a program, and returns
// the file to name there. Everything is compiled anew: this takes minutes.
func Overlay(dir string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the sources of Go: %w", err)
	}
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		return "", err
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if !strings.Contains(string(text), now) {
		return "", fmt.Errorf("package time of %s is not as this package knows it: change Overlay", root)
	}
	files := map[string]string{"time.go": strings.Replace(string(text), now, now+"\tsec += jumped()\n", 1), "jumped.go": source}
	replace := map[string]string{}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(std, name)] = path
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// Clock is the clock of programs.
type Clock struct{ file *os.File }

// NewClock returns a clock that is right at first. Programs find it by Variable.
func NewClock(dir string) (*Clock, error) {
	f, err := os.Create(filepath.Join(dir, "clock"))
	if err != nil {
		return nil, err
	}
	c := &Clock{f}
	return c, c.Set(0)
}

// Name is the value of Variable.
func (c *Clock) Name() string { return c.file.Name() }

// Set moves the clock: it is off by so much from now on.
func (c *Clock) Set(off time.Duration) error {
	_, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(off.Seconds()))), 0)
	return err
}
