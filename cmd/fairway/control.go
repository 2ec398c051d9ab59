// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

func newCancel() *cobra.Command {
	return newControl(api.Cancel, "Cancel jobs", `Cancel jobs. A running job is asked to stop, and killed when its grace period
ends.`)
}

func newPause() *cobra.Command {
	return newControl(api.Pause, "Pause jobs and free their GPUs", `Pause jobs and free their GPUs until "fairway resume". A running job is asked to
save its work first. One that has not shown that it can is suspended in place and loses
nothing, where its node can do that ("fairway nodes"); elsewhere it is paused only with
--force: it may have to start from the beginning.`)
}

func newResume() *cobra.Command {
	return newControl(api.Resume, "Resume paused jobs", `Resume paused jobs: they queue for GPUs again and continue where they were
suspended, or from their last checkpoint.`)
}

// newControl makes the command that tells jobs something.
func newControl(cmd api.Command, short, long string) *cobra.Command {
	var r remote
	var force bool
	name := string(cmd)
	c := &cobra.Command{
		Use: name + " JOB...", Short: short, Long: long + exitHelp,
		Example: fmt.Sprintf("  fairway %s resnet-7\n  fairway %s bert-12 bert-13", name, name),
		Args:    atLeastOne("fairway " + name + " resnet-7"),
		RunE: func(c *cobra.Command, ids []string) error {
			daemon, err := r.dial()
			if err != nil {
				return err
			}
			defer daemon.Close()
			done := []api.Job{}
			var faults []error
			for _, id := range ids {
				var j api.Job
				var err error
				if cmd == api.Pause && !force {
					err = mayPause(c.Context(), daemon, sched.JobID(id))
				}
				if err == nil {
					j, err = daemon.Command(c.Context(), sched.JobID(id), cmd)
				}
				if err != nil {
					faults = append(faults, fmt.Errorf("%s %s: %w", name, clean(id), err))
					continue
				}
				done = append(done, j)
			}
			if err := printControlled(c, done, r.asJSON); err != nil {
				return err
			}
			return errors.Join(faults...)
		},
	}
	r.registerJSON(c)
	c.ValidArgsFunction = r.completeJobs(jobStates[:openStates]...)
	if cmd == api.Pause {
		c.Flags().BoolVar(&force, "force", false, "also pause jobs that may lose all their work")
	}
	return c
}

// mayPause refuses to pause a job that would lose its work.
func mayPause(ctx context.Context, daemon *client.Client, id sched.JobID) error {
	j, err := daemon.Job(ctx, id)
	if err == nil && j.State == api.Running && j.Protected && j.Status.Can == sched.Unproven && !j.Status.Suspends {
		return errors.New("it has not shown that it can save its work and may have to start from the beginning; use --force to pause it all the same")
	}
	return err
}

// printControlled prints the jobs as they are after a command.
func printControlled(c *cobra.Command, jobs []api.Job, asJSON bool) error {
	if asJSON {
		return printAnswer(c.OutOrStdout(), api.JobList{Jobs: jobs})
	}
	for _, j := range jobs {
		note := ""
		if j.Status.Paused && len(j.Status.Suspended) > 0 {
			note = ": suspended in place, nothing is lost"
		}
		if j.Members != nil {
			note = ": " + membersText(j)
		}
		fmt.Fprintf(c.OutOrStdout(), "%s %s%s\n", clean(string(j.ID)), stateText(j.State), note)
	}
	return nil
}
