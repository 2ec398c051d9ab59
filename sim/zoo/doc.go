// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package zoo describes known models: how fast they train on which GPUs, how much
// speed they lose when their GPUs are far apart, how long a restart takes.
//
// Each model is one JSON file. Those of models/ are built in; a user adds or replaces
// models with a folder of such files (Zoo.Extend). README.md describes the fields.
// Every file says where its figures come from and which of them are assumptions.
package zoo
