// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package realnodes tests Fairway on real kubelets, with real containers that
// train real models: what is resized, stopped and lost goes on where it was, and
// the result is that of a training that nobody disturbed. One installs Fairway as the
// documents say, with the real Helm, which it builds once. The tests need root on
// Linux and the programs of "tools/controlplane/build.sh --real", and skip without.
package realnodes
