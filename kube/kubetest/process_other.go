// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package kubetest

import (
	"syscall"
	"time"
)

// dieWithParent puts a process into a group of its own. Only Linux can tie its
// life to its parent's: elsewhere a killed test process leaves it running.
func dieWithParent(a *syscall.SysProcAttr) { a.Setpgid = true }

// awaitStop gives a child that was told to stop the time that it takes as a rule.
func awaitStop(int) error {
	time.Sleep(100 * time.Millisecond)
	return nil
}

// claim is for tests that start clusters side by side, which only Linux keeps apart.
func claim(string) bool { return true }
