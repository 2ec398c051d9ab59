// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import "syscall"

// dieWithParent puts a process into a group of its own, and has the kernel kill
// it when the test process ends in any way.
func dieWithParent(a *syscall.SysProcAttr) {
	a.Setpgid = true
	a.Pdeathsig = syscall.SIGKILL
}
