// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/suggest"
)

// jobStates are the states in the order in which they are listed.
var jobStates = []string{
	api.Running, api.Starting, api.Stopping, api.Paused, api.Waiting, api.Failed, api.Finished, api.Cancelled,
}

// openStates says how many of them are of jobs that have not ended.
const openStates = 5

// listing is a question for jobs, and the answer.
type listing struct {
	api.JobFilter
	all bool // ended ones too
	max int  // 0: no bound
	// wide shows why the last attempt failed, and cuts nothing off.
	wide bool
}

func newPs() *cobra.Command {
	var r remote
	var l listing
	var app, tenant string
	var watch bool
	var output string
	c := &cobra.Command{
		Use:     "ps",
		Aliases: []string{"jobs"},
		Short:   "List jobs, and why waiting ones wait",
		Long: `List jobs: running ones first, then waiting ones with the reason and the time they
have waited. --all and --state list ended jobs too. An array is one row, with how many of
its jobs are in which state; --all lists each of them.` + exitHelp,
		Example: `  fairway ps
  fairway ps --all --tenant vision
  fairway ps --state failed,cancelled
  fairway ps --app sweep --watch
  fairway ps --json | jq -r '.jobs[] | select(.state == "waiting") | .id'`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			l.App, l.Tenant = sched.AppID(app), sched.TenantID(tenant)
			if output != "" && output != "wide" {
				return usagef("-o %.20q: want wide, or nothing", output)
			}
			l.wide, l.Fold = output == "wide", !l.all
			for i, s := range l.States {
				if s == cancelled {
					l.States[i] = api.Cancelled
				} else if !slices.Contains(jobStates, s) {
					return usagef("--state: no state %s", suggest.Among(s, stateNames()))
				}
			}
			if !watch {
				return query[api.JobPage]{&r, l.ask, l.printer(widthOf(c.OutOrStdout()))}.run(c)
			}
			return watchJobs(c, &r, l)
		},
	}
	fl := c.Flags()
	fl.BoolVarP(&l.all, "all", "a", false, "include jobs that have ended")
	fl.StringSliceVar(&l.States, "state", nil, "only these states, such as running,waiting")
	fl.StringVar(&app, "app", "", "only jobs of this app")
	fl.StringVar(&tenant, "tenant", "", "only jobs of this tenant")
	fl.StringVar(&l.User, "user", "", "only jobs of this user")
	fl.StringVar(&l.Search, "search", "", "only jobs whose id or name contains this")
	fl.IntVar(&l.max, "limit", 200, "maximum number of jobs; 0: all")
	fl.StringVarP(&output, "output", "o", "", "wide: no truncation, with the last failure and the retry decision")
	fl.BoolVar(&watch, "watch", false, "refresh every two seconds until interrupted")
	_ = c.RegisterFlagCompletionFunc("state", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return stateNames(), cobra.ShellCompDirectiveNoFileComp
	})
	r.registerJSON(c)
	_ = c.RegisterFlagCompletionFunc("tenant", r.completeTenants())
	return c
}

// ask lists group by group, so that a long queue cannot push the running jobs
// out of a listing that is cut.
func (l listing) ask(ctx context.Context, daemon *client.Client) (api.JobPage, error) {
	groups := [][]string{jobStates[:openStates-1], jobStates[openStates-1 : openStates]}
	switch {
	case len(l.States) > 0:
		groups = [][]string{l.States}
	case l.all:
		groups = append(groups, jobStates[openStates:])
	}
	out := api.JobPage{Jobs: []api.Job{}} // in JSON a list, also when there is none
	for _, states := range groups {
		if err := l.askGroup(ctx, daemon, states, &out); err != nil {
			return out, err
		}
	}
	slices.SortStableFunc(out.Jobs, func(a, b api.Job) int {
		return cmp.Or(cmp.Compare(slices.Index(jobStates, a.State), slices.Index(jobStates, b.State)), cmp.Compare(a.Status.Seq, b.Status.Seq), a.Submitted.Compare(b.Submitted), indexOf(a)-indexOf(b))
	})
	return out, nil
}

// indexOf orders jobs of an array that wait for others of it.
func indexOf(j api.Job) int {
	if j.Member == nil {
		return 0
	}
	return j.Member.Index
}

func (l listing) askGroup(ctx context.Context, daemon *client.Client, states []string, out *api.JobPage) error {
	f := l.JobFilter
	f.States = states
	for {
		room := api.MaxPage
		if l.max > 0 {
			room = min(room, l.max-len(out.Jobs))
		}
		f.Limit = max(1, room) // at least one, to learn how many there are
		page, err := daemon.Page(ctx, f)
		if err != nil {
			return err
		}
		for _, j := range page.Jobs[:min(len(page.Jobs), max(0, room))] {
			if j.Members != nil && slices.ContainsFunc(out.Jobs, func(o api.Job) bool { return o.ID == j.ID }) {
				page.Total-- // an array has jobs in several groups
				continue
			}
			out.Jobs = append(out.Jobs, j)
		}
		if page.Next == "" || l.max > 0 && len(out.Jobs) >= l.max {
			out.Total += page.Total
			return nil
		}
		f.After = page.Next
	}
}

func (l listing) printer(width int) func(io.Writer, api.JobPage) {
	return func(w io.Writer, page api.JobPage) {
		if l.wide {
			printWide(w, page, time.Now())
			return
		}
		printJobs(w, page, view{time.Now(), width})
	}
}

// printWide prints jobs with why they failed last and what was decided.
func printWide(w io.Writer, page api.JobPage, now time.Time) {
	if len(page.Jobs) == 0 {
		fmt.Fprintln(w, "no jobs")
		return
	}
	g := grid{right: []bool{false, false, true, true, true, true, true}}
	g.add("JOB", "STATE", "GPUS", "WANTS", "STARTS", "FAILURES", "RAN", "TENANT", "USER", "REASON", "CATEGORY", "DECIDED", "WHERE OR WHY")
	for _, j := range page.Jobs {
		reason, category, decided := "-", "-", "-"
		if j.Exit != nil && j.Exit.Finding != nil {
			reason, category, decided = clean(j.Exit.Finding.Reason), clean(string(j.Exit.Finding.Category)), orDash(clean(j.Exit.Next))
		}
		g.add(clean(string(j.ID)), fullState(j), fmt.Sprint(j.HeldGPUs()), wants(j), fmt.Sprint(j.Status.Starts), fmt.Sprint(j.Status.Failures),
			sched.Brief(ranFor(j, now)), orDash(string(j.Tenant)), orDash(j.User), reason, category, decided, whereOrWhy(j))
	}
	g.print(w, "", 0)
	if more := page.Total - len(page.Jobs); more > 0 {
		fmt.Fprintf(w, "… and %d more (see --limit)\n", more)
	}
}

// fullState is the state of a job, with whether it is being screened.
func fullState(j api.Job) string {
	if j.Status.Screening {
		return stateText(j.State) + " (screening)"
	}
	return stateText(j.State)
}

// view is when something is shown, and how wide.
type view struct {
	now   time.Time
	width int // 0: as wide as it needs to be
}

// printJobs prints jobs as a table.
func printJobs(w io.Writer, page api.JobPage, v view) {
	if len(page.Jobs) == 0 {
		fmt.Fprintln(w, "no jobs")
		return
	}
	const narrow = 110
	g := grid{right: []bool{false, false, true, true, true, true, true, true}}
	head := []string{"JOB", "STATE", "GPUS", "WANTS", "DONE", "WAITED", "RAN", "LEFT", "TENANT", "WHERE OR WHY"}
	if v.width > 0 && v.width < narrow { // room for the reason
		g.right = g.right[:6]
		head = slices.Concat(head[:5], []string{"TIME", "WHERE OR WHY"})
	}
	g.add(head...)
	for _, j := range page.Jobs {
		held := "-"
		if n := j.HeldGPUs(); n > 0 {
			held = fmt.Sprint(n)
		}
		waited, ran := waitedFor(j, v.now), ranFor(j, v.now)
		row := []string{clean(string(j.ID)), stateText(j.State), held, wants(j), percent(j)}
		switch {
		case len(head) > 7:
			row = append(row, sched.Brief(waited), sched.Brief(ran), left(j), orDash(string(j.Tenant)))
		case j.Status.Phase == sched.Pending:
			row = append(row, sched.Brief(waited))
		default:
			row = append(row, sched.Brief(ran))
		}
		g.add(append(row, whereOrWhy(j))...)
	}
	g.print(w, "", v.width)
	if more := page.Total - len(page.Jobs); more > 0 {
		fmt.Fprintf(w, "… and %d more (see --limit)\n", more)
	}
}

// watchJobs lists again and again.
func watchJobs(c *cobra.Command, r *remote, l listing) error {
	out := c.OutOrStdout()
	_, screen := terminal(out)
	for {
		if screen {
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		if err := (query[api.JobPage]{r, l.ask, l.printer(widthOf(out))}).run(c); err != nil && (c.Context().Err() == nil) {
			return err
		}
		select {
		case <-c.Context().Done():
			return nil
		case <-time.After(2 * time.Second):
		}
		if !screen && !r.asJSON {
			fmt.Fprintln(out)
		}
	}
}
