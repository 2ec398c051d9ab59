// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

func newRun() *cobra.Command {
	f := &submitFlags{}
	c := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Submit a job, follow its output and exit with its exit code",
		Long: `Submit a job, print its output as it comes, and exit with its exit code: as if the
command ran here, but on GPUs that it waits for its turn to get.

The flags are those of "fairway submit". What comes after the command belongs to it.
The output is that of rank 0; "fairway logs" has the others. What happens to the job
meanwhile goes to standard error.

Ctrl-C asks: once more cancels the job, Enter leaves it running. Without a terminal,
SIGINT and SIGTERM cancel it.

Exit codes: that of the job; 130 if it was cancelled; 1 if it could not be submitted or
followed; 2 wrong usage; 4 if it failed without an exit code of its own.`,
		Example: `  fairway run python3 train.py --epochs 3
  fairway run --gpus 2 --time-limit 1h python3 train.py && echo trained
  fairway run "cd experiments && ./sweep.sh | tee out.txt"`,
		RunE: func(c *cobra.Command, args []string) error { return f.attach(c, args) },
	}
	f.flags(c)
	c.Flags().SetInterspersed(false)
	_ = c.Flags().MarkHidden("wait") // it is what run does
	f.register(c)
	return c
}

// attach submits the job and stays with it to its end.
func (f *submitFlags) attach(c *cobra.Command, command []string) error {
	if f.dryRun {
		return f.run(c, command)
	}
	jobs, err := f.jobs(c, command)
	if err != nil {
		return err
	}
	if len(jobs) != 1 {
		return usagef("run: the file has %d jobs; want one (see fairway submit)", len(jobs))
	}
	if jobs[0].Array != "" {
		return usagef("run: array %.40q makes several jobs; want one (see fairway submit)", jobs[0].Array)
	}
	daemon, err := f.dial()
	if err != nil {
		return err
	}
	defer daemon.Close()
	if err := foresee(c, jobs, daemon); err != nil {
		return err
	}
	j, err := daemon.Submit(c.Context(), jobs[0])
	if err != nil {
		return fmt.Errorf("submit job: %w", err)
	}
	a := attached{daemon: daemon, job: j, in: c.InOrStdin(), out: c.OutOrStdout(), told: c.ErrOrStderr()}
	j, err = a.stay(c.Context(), func(ctx context.Context) { a.follow(ctx) })
	if err != nil {
		return err
	}
	return ownExit(j)
}

// attached is a job that somebody sits in front of.
type attached struct {
	daemon    *client.Client
	job       api.Job
	in        io.Reader
	out, told io.Writer
}

// stay waits for the end of the job while show runs, and handles Ctrl-C.
func (a *attached) stay(parent context.Context, show func(context.Context)) (api.Job, error) {
	// Ctrl-C ends the context of the command: here it is a question.
	ctx, leave := context.WithCancel(context.WithoutCancel(parent))
	defer leave()
	interrupts := make(chan os.Signal, 4)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupts)
	var detached atomic.Bool
	go a.answer(ctx, interrupts, func() { detached.Store(true); leave() })
	shown := make(chan struct{})
	go func() { defer close(shown); show(ctx) }()
	j, err := waitFor(ctx, waiting{daemon: a.daemon, log: a.told}, a.job)
	if detached.Load() {
		return j, fmt.Errorf("%s keeps running: see \"fairway logs -f %s\", \"fairway cancel %s\"", j.ID, j.ID, j.ID)
	}
	if err != nil {
		return j, err
	}
	const rest = 10 * time.Second // of the output, once the job has ended
	select {
	case <-shown:
	case <-time.After(rest):
	}
	return j, nil
}

// answer handles interrupts until the context ends.
func (a *attached) answer(ctx context.Context, interrupts <-chan os.Signal, detach func()) {
	_, person := terminal(a.in)
	id := a.job.ID
	for n := 1; ; n++ {
		var s os.Signal
		select {
		case <-ctx.Done():
			return
		case s = <-interrupts:
		}
		switch {
		case n == 1 && person && s == os.Interrupt:
			fmt.Fprintf(a.told, "\n%s: Ctrl-C again cancels it; Enter leaves it running and goes\n", id)
			go func() {
				if _, err := bufio.NewReader(a.in).ReadString('\n'); err == nil {
					detach()
				}
			}()
			continue
		case n <= 2:
			n = 2
			fmt.Fprintf(a.told, "\n%s: cancelling it; once more stops waiting for its end\n", id)
			if _, err := a.daemon.Command(ctx, id, api.Cancel); err != nil && api.CodeOf(err) != api.Conflict {
				fmt.Fprintf(a.told, "%s: cancel it: %v\n", id, err)
			}
		default:
			detach()
		}
	}
}

// follow prints the output of the job until it ends. A daemon that restarts in between
// is waited for.
func (a *attached) follow(ctx context.Context) {
	out := &clocked{w: a.out}
	q := api.LogQuery{Follow: true}
	for ctx.Err() == nil {
		err := a.daemon.Logs(ctx, a.job.ID, q, out)
		if api.CodeOf(err) != api.Unavailable || ctx.Err() != nil {
			if err != nil && ctx.Err() == nil && api.CodeOf(err) != api.Unknown { // a job that never ran has no log
				fmt.Fprintf(a.told, "%s: its output cannot be followed: %v\n", a.job.ID, err)
			}
			return
		}
		if q.Since = out.last; !q.Since.IsZero() {
			fmt.Fprintf(a.told, "%s: the daemon does not answer; lines of the last seconds may be printed again\n", a.job.ID)
		}
		select {
		case <-ctx.Done():
		case <-time.After(longestGap):
		}
	}
}

// clocked remembers when something was last written.
type clocked struct {
	w    io.Writer
	last time.Time
}

func (c *clocked) Write(b []byte) (int, error) {
	c.last = time.Now()
	return c.w.Write(b)
}

// codeError makes the program end with a code that is not its own.
type codeError struct {
	error
	code int
}

func (e codeError) Unwrap() error { return e.error }

// ownExit returns an error that ends the program as the job has ended.
func ownExit(j api.Job) error {
	err := outcome([]api.Job{j})
	const interrupted = 128 + int(syscall.SIGINT)
	switch {
	case err == nil:
		return nil
	case j.Status.Phase == sched.Cancelled:
		return codeError{err, interrupted}
	case j.Exit == nil:
		return err
	}
	if f := j.Exit.Finding; f != nil && f.Retry.Budget == 0 {
		err = fmt.Errorf("%w\n%s: %s", err, clean(f.Text), clean(f.Retry.Say))
	}
	if j.Exit.Code > 0 && !j.Exit.Lost {
		return codeError{err, j.Exit.Code}
	}
	return err
}
