// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command fairway-operator schedules deep-learning training on a Kubernetes cluster.
// It is the only program of Fairway that speaks to Kubernetes. See
// "fairway-operator help".
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fairway-operator:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "fairway-operator",
		Short: "Schedule deep-learning training on a Kubernetes cluster",
		Long: `Fairway's operator schedules training jobs on the GPUs of a Kubernetes cluster. It
runs in the cluster, in two or more replicas of which one leads; deploy/chart
installs it.`,
		SilenceUsage: true, SilenceErrors: true, Version: daemon.Release,
	}
	root.AddCommand(newRun(), newNode(), newConfigCommand(), newJournal())
	return root
}

func newRun() *cobra.Command {
	var path string
	w := where{namespace: os.Getenv("POD_NAMESPACE"), pod: os.Getenv("POD_NAME")}
	c := &cobra.Command{
		Use:   "run [--config FILE]",
		Short: "Run the operator",
		Long: `Run the operator until it is told to stop, or another one leads.

It ends with an error when it loses the lead, so that whatever started it starts
it again: nothing of what it believed then can be used by mistake.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			conf := defaultConfig()
			if path != "" {
				var err error
				if conf, err = readConfig(path); err != nil {
					return err
				}
			}
			if err := w.complete(); err != nil {
				return err
			}
			return run(c.Context(), w, conf, conf.Log.New(c.ErrOrStderr()))
		},
	}
	c.Flags().StringVar(&path, "config", "", "configuration `file` (see fairway-operator config default)")
	w.register(c)
	return c
}
