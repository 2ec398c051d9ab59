// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// dryJob is a job that would be submitted, and what that would do; nil: no daemon says.
// What it gets when it is submitted is left out, not empty.
type dryJob struct {
	api.Submission
	ID        sched.JobID  `json:"id,omitempty"`
	Submitted time.Time    `json:"submitted,omitzero"`
	Preview   *api.Preview `json:"preview,omitempty"`
}

// dryly returns a job as a dry run prints it.
func dryly(j api.Submission) dryJob {
	hideSecrets(&j)
	return dryJob{Submission: j, ID: j.ID, Submitted: j.Submitted}
}

// dry prints jobs and what submitting them would do.
func (f *submitFlags) dry(c *cobra.Command, jobs []api.Submission) error {
	previews := f.previews(c, jobs)
	if !f.asJSON {
		for i, p := range previews {
			fmt.Fprintf(c.ErrOrStderr(), "%s, under %s:\n", nameOf(jobs[i], i, len(jobs)), clean(p.Policy))
			printPreview(c.ErrOrStderr(), p, p.Now.Local())
		}
		return printDry(c, jobs)
	}
	list := make([]dryJob, len(jobs))
	for i := range jobs {
		list[i] = dryly(jobs[i])
		if i < len(previews) {
			list[i].Preview = &previews[i]
		}
	}
	return printAnswer(c.OutOrStdout(), list)
}

// previews asks the daemon what submitting each job would do, and ends at the first one
// that it refuses.
func (f *submitFlags) previews(c *cobra.Command, jobs []api.Submission) (out []api.Preview) {
	daemon, err := f.dial()
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "no preview: %v\n", err)
		return nil
	}
	defer daemon.Close()
	for i, j := range jobs {
		p, err := daemon.Preview(c.Context(), j)
		if err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "no preview of %s: %v\n", nameOf(j, i, len(jobs)), err)
			break
		}
		out = append(out, p)
	}
	return out
}

func printPreview(w io.Writer, p api.Preview, now time.Time) {
	fmt.Fprintf(w, "  starts       %s\n", startText(p.Size, now))
	if r := p.Size.Reason; r != nil {
		fmt.Fprintf(w, "  waits for    %s [%s]\n", clean(r.Text), clean(r.Code))
		if r.Rough != "" {
			fmt.Fprintf(w, "  rough        because %s\n", clean(r.Rough))
		}
	}
	if p.RunTime != nil {
		fmt.Fprintf(w, "  runs for     %s\n", clean(p.RunTime.Text()))
	}
	for _, v := range p.Size.Victims {
		then := "waits"
		if v.To > 0 {
			then = "goes on with " + several(v.To, "GPU")
		}
		fmt.Fprintf(w, "  makes room   %s (%s) %s; it loses up to %s if it cannot save in time\n",
			clean(string(v.Job)), several(v.GPUs, "GPU"), then, several(int(v.LostS+0.5), "GPU-second"))
	}
	for _, s := range p.Sooner {
		fmt.Fprintf(w, "  sooner       with %s: %s\n", several(s.GPUs, "GPU"), startText(s, now))
	}
	if p.Cut != "" {
		fmt.Fprintf(w, "  cut short    %s\n", clean(p.Cut))
	}
}

// startText says when a job of one size would start.
func startText(s api.SizePreview, now time.Time) string {
	if s.Starts {
		text := "now, on " + several(s.GPUs, "GPU")
		if n := len(s.Victims); n > 0 {
			text += ", for which " + several(n, "job") + " would make room"
		}
		return text
	}
	if s.Reason == nil || s.Reason.Code == sched.Impossible.String() {
		return "never on this cluster"
	}
	return expectedStart(*s.Reason, now)
}
