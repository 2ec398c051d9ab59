// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package kubetest

import (
	"syscall"
	"time"
)

// dieWithParent puts a process into its own process group. Only Linux can tie its life
// to its parent's: elsewhere, a killed test process leaves it running.
func dieWithParent(a *syscall.SysProcAttr) { a.Setpgid = true }

// awaitStop waits as long as a child usually takes to stop.
func awaitStop(int) error {
	time.Sleep(100 * time.Millisecond)
	return nil
}

// claim always succeeds: only on Linux can tests start clusters in parallel.
func claim(string) bool { return true }
