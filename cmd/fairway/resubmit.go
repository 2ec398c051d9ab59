// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func newResubmit() *cobra.Command {
	f := &submitFlags{}
	c := &cobra.Command{
		Use:   "resubmit JOB [flags] [-- COMMAND [ARGUMENT...]]",
		Short: "Submit a job again, with changes",
		Long: `Submit a job or an array again, as it was submitted: the same command, folder,
environment and resources. Flags change what they name, and a command after "--" replaces
the command. Its key, its checkpoints and what it depended on are not taken over; values of
secret variables come from your environment.

The id of the new job is printed, alone, on standard output.

Exit codes: 0 submitted (with --wait: the job finished), 1 failure, 2 wrong usage, 3 not
found, 4 with --wait: the job failed or was cancelled.`,
		Example: `  fairway resubmit resnet-7
  fairway resubmit resnet-7 --gpus 2 --time-limit 12h
  fairway resubmit sweep --array 3,17 --wait
  fairway resubmit resnet-7 --dry-run -- python3 train.py --lr 0.1`,
		Args: func(c *cobra.Command, args []string) error {
			if n := c.ArgsLenAtDash(); n == 0 || n > 1 || n < 0 && len(args) != 1 {
				return usagef("fairway resubmit: want one job, for example: fairway resubmit resnet-7")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			daemon, err := f.dial()
			if err != nil {
				return err
			}
			defer daemon.Close()
			s, err := daemon.Submission(c.Context(), sched.JobID(args[0]))
			if err != nil {
				return err
			}
			f.shell.clean = true // it has the environment that it had
			own := s.Dir == "" && !c.Flags().Changed("dir")
			jobs, err := f.finish(c, []api.Submission{s}, args[1:])
			if err != nil {
				return err
			}
			if own {
				jobs[0].Dir = ""
			}
			return f.send(c, jobs)
		},
	}
	f.flags(c)
	for _, name := range []string{"file", "template", "clean-env"} {
		_ = c.Flags().MarkHidden(name)
	}
	f.registerJSON(c)
	c.ValidArgsFunction = f.completeJobs()
	return c
}
