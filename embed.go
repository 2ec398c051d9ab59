// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package fairway has the files of the repository that programs carry, so that they need
// nothing but themselves.
package fairway

import "embed"

// Demo is the demonstration: jobs, their scripts, and the agent they train with, at the
// paths that they have in the repository. "fairway demo" needs only Python besides.
//
//go:embed examples/mix/*.yaml examples/plain_pytorch.* examples/stdlib_train.py python/src/fairway/*.py python/src/fairway/torch/*.py
var Demo embed.FS

// Manifests installs Fairway on Kubernetes.
//
//go:embed deploy/manifests/fairway.yaml
var Manifests []byte
