// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command fairway is the one program of Fairway: the simulator, the workload
// tools and the list of policies. See "fairway help".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes: 1 the command failed, 2 it was called wrongly.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "fairway:", err)
	var usage usageError
	if errors.As(err, &usage) {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

// usageError is a mistake in how a command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "fairway",
		Short: "Schedule deep-learning training on shared GPUs",
		Long: `Fairway schedules deep-learning training on shared GPU clusters.

The simulator replays a workload under any of the built-in policies, with the
same code that schedules real jobs.`,
		Example: `  fairway trace gen --kind pollux --jobs 160 --gpus 64 --seed 1 --out jobs.jsonl
  fairway sim --workload jobs.jsonl --policy fifo,las,tiresias --cluster 16x4
  fairway policies`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%s: %w (see %s --help)", c.CommandPath(), err, c.CommandPath())
	})
	root.AddCommand(newSim(), newTrace(), newPolicies(), newRepro())
	return root
}
