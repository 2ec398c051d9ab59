// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"

	"github.com/fairway-gpu/fairway/daemon/strictyaml"
	"github.com/fairway-gpu/fairway/diagnose"
)

// Signatures returns the built-in signatures of failures with those of a file, if
// one is named, before them.
func Signatures(path string) (*diagnose.Table, error) {
	table, err := diagnose.Builtin()
	if err != nil || path == "" {
		return table, err
	}
	var mine diagnose.File
	if err := strictyaml.ReadFile(path, &mine); err != nil {
		return nil, fmt.Errorf("read signatures: %w", err)
	}
	if table, err = table.With(mine); err != nil {
		return nil, fmt.Errorf("read signatures %s: %w", path, err)
	}
	return table, nil
}
