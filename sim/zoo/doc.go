// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package zoo knows what is known about models that people train: how fast
// they run on which GPUs, how much they lose when their GPUs are far apart,
// how long a restart takes.
//
// Each model is one JSON file. Those of models/ are part of the program; a
// user adds or replaces models with a folder of such files (Zoo.Extend).
// README.md describes the fields. Every file says where its figures come from
// and which of them are assumptions.
package zoo
