// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func newLogs() *cobra.Command {
	var r remote
	var q api.LogQuery
	c := &cobra.Command{
		Use:   "logs JOB",
		Short: "Print the output of a job",
		Long: `Print the output of one process of a job, from its last attempt by default.
With -f it follows the output until the job ends.` + exitHelp,
		Example: `  fairway logs resnet-7
  fairway logs -f resnet-7 --tail 20
  fairway logs resnet-7 --rank 3 --attempt 2 --stream stderr`,
		Args: exactly(1, "fairway logs resnet-7"),
		RunE: func(c *cobra.Command, args []string) error {
			for _, n := range []struct {
				flag  string
				value int
			}{{"rank", q.Rank}, {"attempt", q.Attempt}, {"tail", q.Tail}} {
				if n.value < 0 {
					return usagef("--%s is %d; want 0 or more", n.flag, n.value)
				}
			}
			if q.Stream != "" && q.Stream != "stdout" && q.Stream != "stderr" {
				return usagef("--stream is %.40q; want stdout or stderr", q.Stream)
			}
			daemon, err := r.dial()
			if err != nil {
				return err
			}
			defer daemon.Close()
			err = daemon.Logs(c.Context(), sched.JobID(args[0]), q, c.OutOrStdout())
			if q.Follow && c.Context().Err() != nil {
				return nil // the reader has seen enough
			}
			return err
		},
	}
	fl := c.Flags()
	fl.BoolVarP(&q.Follow, "follow", "f", false, "follow the output until the job ends")
	fl.IntVar(&q.Rank, "rank", 0, "rank of the process, from 0")
	fl.IntVar(&q.Attempt, "attempt", 0, "attempt, from 1; 0: the last one")
	fl.IntVar(&q.Tail, "tail", 0, "number of last lines to print; 0: all that are kept")
	fl.StringVar(&q.Stream, "stream", "", "stdout or stderr (default: both, interleaved)")
	r.register(c)
	return c
}
