// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

func newLogs() *cobra.Command {
	var r remote
	var q api.LogQuery
	var since, folder string
	var raw bool
	c := &cobra.Command{
		Use:   "logs JOB",
		Short: "Print the output of a job",
		Long: `Print the output of one process of a job, from its last attempt by default.
With -f it follows the output until the job ends.

Of a line that rewrites itself, such as a progress bar, the last state is printed;
--raw prints everything as the job wrote it. Where lines are missing because the log was
full, a line that begins with [fairway: says how many.` + exitHelp,
		Example: `  fairway logs resnet-7
  fairway logs -f resnet-7 --tail 20
  fairway logs resnet-7 --all-ranks --grep 'loss|error' --since 10m
  fairway logs resnet-7 --rank 3 --attempt 2
  fairway logs resnet-7 --download logs`,
		Args: exactly(1, "fairway logs resnet-7"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkLogQuery(q); err != nil {
				return err
			}
			var err error
			if q.Since, err = parseSince(since, time.Now()); err != nil {
				return err
			}
			_, screen := terminal(c.OutOrStdout())
			q.Collapse = !raw && !(q.Follow && screen && !q.AllRanks && q.Grep == "") // a terminal does it by itself
			daemon, err := r.dial()
			if err != nil {
				return err
			}
			defer daemon.Close()
			if folder != "" {
				return downloadLogs(c.Context(), daemon, sched.JobID(args[0]), folder, c.OutOrStdout())
			}
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
	fl.BoolVar(&q.AllRanks, "all-ranks", false, "all processes of the gang; each line begins with its rank")
	fl.IntVar(&q.Attempt, "attempt", 0, "attempt, from 1; 0: the last one")
	fl.BoolVar(&q.AllAttempts, "all-attempts", false, "from the first attempt to the last")
	fl.IntVar(&q.Tail, "tail", 0, "number of last lines to print; 0: all that are kept")
	fl.StringVar(&since, "since", "", "only what was printed since then, to within 10 seconds: `10m`, 2h, 3d, or a time such as 2026-03-01T12:00:00Z")
	fl.StringVar(&q.Grep, "grep", "", "of these lines, only those that match this regular expression")
	fl.BoolVar(&raw, "raw", false, "do not collapse lines that rewrite themselves, such as progress bars")
	fl.StringVar(&folder, "download", "", "write all logs of the job, as they are, to files in this `folder`")
	fl.StringVar(&q.Stream, "stream", "", "stdout or stderr (default: both, interleaved)")
	r.register(c)
	c.ValidArgsFunction = r.completeJobs()
	c.MarkFlagsMutuallyExclusive("rank", "all-ranks")
	c.MarkFlagsMutuallyExclusive("attempt", "all-attempts")
	c.MarkFlagsMutuallyExclusive("download", "follow")
	return c
}

func checkLogQuery(q api.LogQuery) error {
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
	return nil
}

// parseSince reads --since.
func parseSince(text string, now time.Time) (time.Time, error) { return parseTime("since", text, now) }

// parseTime reads a flag that says how long ago, or when. Empty: the zero time.
func parseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := sched.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("--%s is %.40q; want how long ago, such as 10m or 7d, or a time such as 2026-03-01 or 2026-03-01T12:00:00Z", flag, text)
}

// downloadLogs writes every log of a job to a file of its own.
func downloadLogs(ctx context.Context, daemon *client.Client, id sched.JobID, folder string, w io.Writer) error {
	files, err := daemon.LogFiles(ctx, id)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return api.Errorf(api.Unknown, "job %s has no logs", id)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(folder, fmt.Sprintf("%s-attempt-%d-rank-%d.log", filepath.Base(string(id)), f.Attempt, f.Rank))
		err := writeFile(path, func(w io.Writer) error {
			return daemon.Logs(ctx, id, api.LogQuery{Attempt: f.Attempt, Rank: f.Rank}, w)
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(w, clean(path))
	}
	return nil
}
