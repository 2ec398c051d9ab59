// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package kubetest

import "errors"

// enterNetwork is for real nodes, which exist on Linux only.
func enterNetwork(int) error { return errors.New("networks of processes exist on Linux only") }
