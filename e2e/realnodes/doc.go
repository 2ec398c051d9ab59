// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package realnodes tests Fairway on real kubelets, with real containers that train
// real models: jobs that are resized, stopped or lost resume from their checkpoints,
// with the result of an undisturbed training. One test installs Fairway as the
// documents say, with the real Helm, which it builds once. The tests need root on Linux
// and the programs of "tools/controlplane/build.sh --real", and are skipped otherwise.
package realnodes
