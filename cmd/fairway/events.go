// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

// eventFlags select what happened.
type eventFlags struct {
	remote
	job, app, kind string
	after          uint64
	tail           int
	follow         bool
}

func newEvents() *cobra.Command {
	var f eventFlags
	c := &cobra.Command{
		Use:   "events",
		Short: "Print events: submissions, starts, stops, reports, failures",
		Long: `Print recent events, oldest first. With -f it prints new events as they happen, and
reconnects when the daemon restarts.

With --json each line is one object.` + exitHelp,
		Example: `  fairway events
  fairway events -f --kind job-started
  fairway events --job resnet-7 --tail 1000 --json
  fairway events --app sweep --kind job-failed`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	fl := c.Flags()
	fl.StringVar(&f.job, "job", "", "only events of this job, or of the jobs of this array")
	fl.StringVar(&f.app, "app", "", "only events of this app and its jobs")
	fl.StringVar(&f.kind, "kind", "", "only this kind, such as job-started, attempt-ended, policy-set")
	fl.Uint64Var(&f.after, "after", 0, "only events after this sequence number")
	fl.IntVar(&f.tail, "tail", 50, "number of past events to print; with -f, 0 prints none")
	fl.BoolVarP(&f.follow, "follow", "f", false, "print new events as they happen")
	f.registerJSON(c)
	_ = c.RegisterFlagCompletionFunc("job", f.completeJobs())
	return c
}

func (f *eventFlags) run(c *cobra.Command) error {
	if f.tail < 0 {
		return usagef("--tail is %d; want 0 or more", f.tail)
	}
	daemon, err := f.dial()
	if err != nil {
		return err
	}
	defer daemon.Close()
	var unknown error
	if f.job != "" { // events know only ids
		j, err := daemon.Job(c.Context(), sched.JobID(f.job))
		switch {
		case err == nil:
			f.job = string(j.ID)
		case api.CodeOf(err) != api.Unknown:
			return err
		}
		unknown = err // there may be events of a job that is no longer kept
	}
	past, last, err := f.past(c.Context(), daemon)
	if err != nil {
		return err
	}
	if len(past) == 0 && unknown != nil {
		return unknown
	}
	print := f.printer(c.OutOrStdout())
	for _, r := range past {
		if err := print(r); err != nil {
			return err
		}
	}
	if !f.follow {
		return nil
	}
	err = daemon.Watch(c.Context(), f.filter(last), print)
	if c.Context().Err() != nil {
		return nil // the reader has seen enough
	}
	return err
}

func (f *eventFlags) filter(after uint64) api.RecordFilter {
	return api.RecordFilter{After: after, Job: sched.JobID(f.job), App: sched.AppID(f.app), Kind: f.kind}
}

// past returns the last records and the number after which the future begins.
func (f *eventFlags) past(ctx context.Context, daemon *client.Client) ([]api.Record, uint64, error) {
	o, err := daemon.Overview(ctx)
	if err != nil {
		return nil, 0, err
	}
	q := f.filter(f.after)
	q.Limit = api.MaxPage
	if f.job == "" && f.app == "" && f.kind == "" && o.Seq > uint64(f.tail) {
		q.After = max(q.After, o.Seq-uint64(f.tail))
	}
	var out []api.Record
	for f.tail > 0 && q.After < o.Seq {
		page, err := daemon.Events(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, page.Records...)
		out = out[max(0, len(out)-f.tail):]
		if len(page.Records) == 0 || page.Next <= q.After {
			break
		}
		q.After = page.Next
	}
	last := max(o.Seq, f.after)
	if len(out) > 0 {
		last = max(last, out[len(out)-1].Seq)
	}
	return out, last, nil
}

func (f *eventFlags) printer(w io.Writer) func(api.Record) error {
	if f.asJSON {
		enc := json.NewEncoder(w)
		return func(r api.Record) error { return enc.Encode(r) }
	}
	width := widthOf(w)
	return func(r api.Record) error {
		line := recordLine(r, time.Local)
		if width > 0 {
			line = fit(line, width)
		}
		_, err := fmt.Fprintln(w, line)
		return err
	}
}

// recordLine prints a record on one line.
func recordLine(r api.Record, zone *time.Location) string {
	job := clean(string(r.Job()))
	return strings.TrimRight(fmt.Sprintf("%7d  %s  %-14s  %-16s  %s", r.Seq, r.At.In(zone).Format("Jan 02 15:04:05"), r.Kind(), job, recordText(r)), " ")
}

// recordText says what a record is about, if it does not say so itself.
func recordText(r api.Record) string {
	if r.Policy != "" && r.Text != "" {
		return clean(r.Policy + "; " + r.Text)
	}
	if r.Text != "" {
		return clean(r.Text)
	}
	text := ""
	switch e := r.Event; {
	case e != nil && e.Text != "":
		text = e.Text
	case e != nil && e.Kind == sched.JobStarted:
		text = "on " + several(e.Placement.GPUs(), "GPU")
	case e != nil && e.Kind == sched.JobStopped && e.Moving:
		text = "to move or resize"
	case e != nil && e.Kind == sched.JobEnded:
		text = e.Phase.String()
	case e != nil && (e.Kind == sched.JobReported || e.Kind == sched.JobCheckpoint):
		text = "done " + number(e.Done)
	case e != nil && e.Node != nil:
		text = "node " + e.Node.Name
	case e != nil && e.Tenant != nil:
		text = "tenant " + string(e.Tenant.ID)
	case r.Exit != nil:
		text = r.Exit.Text()
	case r.Policy != "":
		text = r.Policy
	case r.Token != nil:
		text = "token " + r.Token.ID + " of " + r.Token.User
	}
	if r.Actor != "" && r.Actor != "scheduler" && r.Actor != "machine" && r.Actor != "agent" {
		text = strings.TrimSpace(text + " (by " + r.Actor + ")")
	}
	return clean(text)
}
