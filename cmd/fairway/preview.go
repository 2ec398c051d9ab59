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

// preview prints what submitting each job would do, if a daemon answers.
func (f *submitFlags) preview(c *cobra.Command, jobs []api.Submission) {
	w := c.ErrOrStderr()
	daemon, err := f.dial()
	if err != nil {
		fmt.Fprintf(w, "no preview: %v\n", err)
		return
	}
	defer daemon.Close()
	for i, j := range jobs {
		p, err := daemon.Preview(c.Context(), j)
		if err != nil {
			fmt.Fprintf(w, "no preview of %s: %v\n", nameOf(j, i, len(jobs)), err)
			return
		}
		fmt.Fprintf(w, "%s, under %s:\n", nameOf(j, i, len(jobs)), clean(p.Policy))
		printPreview(w, p, p.Now.Local())
	}
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
