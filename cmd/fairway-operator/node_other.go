// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"
	"log/slog"
)

func runNode(context.Context, nodeOptions, *slog.Logger) error {
	return errors.New("the agent of a node runs on Linux only")
}
