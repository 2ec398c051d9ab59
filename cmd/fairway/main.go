// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command fairway is the one program of Fairway: the simulator, the workload
// tools and the list of policies. See "fairway help".
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/daemon"
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
	if code, ok := err.(codeError); !ok || code.error != nil {
		fmt.Fprintln(os.Stderr, "fairway:", err)
	}
	os.Exit(exitCode(err))
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

"fairway up" runs the scheduler on this machine; other commands submit jobs and show
what happens to them and why. "fairway sim" replays a workload, or a machine's own
journal, under any policy, with the code that schedules real jobs.`,
		Example: `  fairway demo
  fairway up
  fairway submit --gpus 1-8 --name resnet -- python train.py
  fairway explain resnet-1
  fairway sim --policy tiresias,pollux --journal ~/.local/state/fairway`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       daemon.Release,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%s: %w (see %s --help)", c.CommandPath(), err, c.CommandPath())
	})
	root.AddCommand(newSim(), newTrace(), newPolicies(), newRepro(), newJournal(), newUp(), newDemo(), newConfig(), newClassify(), newPredict(), newVersion(), newShim(), newTerminal())
	root.AddCommand(newInterfere())
	root.AddCommand(clientCommands()...)
	return root
}
