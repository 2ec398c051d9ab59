// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package fairway has the files of the repository that the program carries, so that
// "fairway demo" needs nothing but the program and Python.
package fairway

import "embed"

// Demo is the demonstration: jobs, their scripts, and the agent they train with, at the
// paths that they have in the repository.
//
//go:embed examples/mix/*.yaml examples/plain_pytorch.* examples/stdlib_train.py python/src/fairway/*.py python/src/fairway/torch/*.py
var Demo embed.FS
