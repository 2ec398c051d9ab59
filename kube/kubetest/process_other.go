// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package kubetest

import "syscall"

// dieWithParent puts a process into a group of its own. Only Linux can tie its
// life to its parent's: elsewhere a killed test process leaves it running.
func dieWithParent(a *syscall.SysProcAttr) { a.Setpgid = true }
