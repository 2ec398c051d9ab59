// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// enterNetwork moves the calling thread to the network namespace of another process.
func enterNetwork(pid int) error {
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return fmt.Errorf("enter network of process %d: %w", pid, err)
	}
	defer network.Close()
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network of process %d: %w", pid, err)
	}
	return nil
}
