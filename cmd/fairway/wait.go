// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

// jobError says that a job that was waited for did not finish.
type jobError struct{ error }

const (
	// patience is how long a daemon may be away while somebody waits: it may be
	// restarted, and the jobs go on.
	patience   = 10 * time.Minute
	soonest    = 100 * time.Millisecond
	longestGap = 2 * time.Second
)

func newWait() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use: "wait JOB...", Short: "Wait until jobs have ended",
		Long: `Wait until jobs, or all jobs of arrays, have ended. What happens to them meanwhile is
printed to standard error.

Exit codes: 0 all finished, 1 failure, 2 wrong usage, 3 not found, 4 a job failed or was
cancelled.`,
		Example: "  fairway wait resnet-7\n  fairway wait prepare sweep && fairway submit -- ./report.sh",
		Args:    atLeastOne("fairway wait resnet-7"),
		RunE: func(c *cobra.Command, ids []string) error {
			daemon, err := r.dial()
			if err != nil {
				return err
			}
			defer daemon.Close()
			jobs := make([]api.Job, len(ids))
			for i, id := range ids {
				if jobs[i], err = daemon.Job(c.Context(), sched.JobID(id)); err != nil {
					return fmt.Errorf("wait for %s: %w", clean(id), err)
				}
			}
			jobs, err = waitAll(c.Context(), waiting{daemon: daemon, jobs: jobs, log: c.ErrOrStderr()})
			if err != nil {
				return err
			}
			if r.asJSON {
				if err := printAnswer(c.OutOrStdout(), api.JobList{Jobs: jobs}); err != nil {
					return err
				}
			}
			return outcome(jobs)
		},
	}
	r.registerJSON(c)
	c.ValidArgsFunction = r.completeJobs()
	return c
}

// waiting is what waitAll needs.
type waiting struct {
	daemon *client.Client
	jobs   []api.Job
	log    io.Writer // what happens meanwhile
}

// waitAll waits for the end of all jobs and returns them as they ended.
func waitAll(ctx context.Context, w waiting) ([]api.Job, error) {
	ended := make([]api.Job, len(w.jobs))
	for i, j := range w.jobs {
		var err error
		if ended[i], err = waitFor(ctx, w, j); err != nil {
			return nil, err
		}
	}
	return ended, nil
}

// waitFor asks for the job again and again. Asking survives a restart of the
// daemon, and a job that ended while nobody listened.
func waitFor(ctx context.Context, w waiting, j api.Job) (api.Job, error) {
	gap, away, state := soonest, time.Time{}, ""
	for !j.Status.Phase.Ended() {
		if j.State != state {
			state = j.State
			fmt.Fprintf(w.log, "%s: %s\n", clean(string(j.ID)), stateLine(j))
		}
		select {
		case <-ctx.Done():
			return j, fmt.Errorf("stopped waiting for %s, which keeps running (see \"fairway ps\", \"fairway cancel %s\")", j.ID, j.ID)
		case <-time.After(gap):
		}
		gap = min(gap*3/2, longestGap)
		now, err := w.daemon.Job(ctx, j.ID)
		switch {
		case err == nil:
			j, away = now, time.Time{}
		case ctx.Err() != nil: // told above
		case api.CodeOf(err) != api.Unavailable && api.CodeOf(err) != api.TooMany:
			return j, fmt.Errorf("wait for %s: %w", j.ID, err)
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > patience:
			return j, fmt.Errorf("wait for %s: %w", j.ID, err)
		}
	}
	fmt.Fprintf(w.log, "%s: %s\n", clean(string(j.ID)), stateLine(j))
	return j, nil
}

// stateLine says in a few words how a job is.
func stateLine(j api.Job) string {
	if j.Members != nil {
		return membersText(j)
	}
	if text := why(j); text != "" {
		return stateText(j.State) + ": " + text
	}
	if held := heldText(j.Held); held != "" {
		return stateText(j.State) + " on " + held
	}
	return stateText(j.State)
}

// outcome returns an error if a job did not finish.
func outcome(jobs []api.Job) error {
	bad := 0
	var first api.Job
	for _, j := range jobs {
		if j.State != api.Finished {
			if bad == 0 {
				first = j
			}
			bad++
		}
	}
	switch {
	case bad == 0:
		return nil
	case len(jobs) == 1:
		return jobError{fmt.Errorf("job %s %s", clean(string(first.ID)), ending(first))}
	}
	return jobError{fmt.Errorf("%d of %d jobs did not finish, the first: %s %s", bad, len(jobs), clean(string(first.ID)), ending(first))}
}

func ending(j api.Job) string {
	if j.Members != nil {
		return "has ended: " + membersText(j)
	}
	if j.State == api.Cancelled {
		return strings.TrimSuffix("was cancelled: "+clean(j.Why), ": ")
	}
	if j.Exit == nil {
		return j.State
	}
	return j.State + ": " + clean(j.Exit.Text())
}
