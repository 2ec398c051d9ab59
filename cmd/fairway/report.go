// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/replay"
)

// periods are the names of times that a report covers.
var periods = map[string]time.Duration{"day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour}

type reportFlags struct {
	remote
	since, html, journal string
	policies             []string
}

func newReport() *cobra.Command {
	f := &reportFlags{}
	c := &cobra.Command{
		Use:   "report [day|week|month]",
		Short: "Write a page on who used what, who waited for whom, what failed, and what another policy would have changed",
		Long: `Write one page to send round: who used what, who waited for whom, what failed and why,
and what another policy would have changed. As text, or with --html as a page in one
file that needs nothing else.

What was used is asked of the daemon. The rest is read from its journal, as
"fairway sim --journal" does: run this where the daemon runs, as a user who may read its
data folder. The jobs submitted in the time are replayed under each of --policies
("none" leaves that out); docs/what-if.md says what such a replay is worth.` + exitHelp,
		Example: `  fairway report week
  fairway report week --html week.html
  fairway report --since 2026-03-01 --policies fifo,las --html march.html`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s: got %d arguments; want one at most, for example: fairway report week", c.CommandPath(), len(args))
			}
			now := time.Now()
			from := now.Add(-periods["week"])
			if len(args) > 0 {
				d, known := periods[args[0]]
				if !known {
					return usagef("report %.40q: want day, week or month", args[0])
				}
				from = now.Add(-d)
			}
			if f.since != "" {
				var err error
				if from, err = parseSince(f.since, now); err != nil {
					return err
				}
			}
			if !from.Before(now) {
				return usagef("--since is %.40q; want a time that is past", f.since)
			}
			return f.run(c, from, now)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.since, "since", "", "from then on instead: how long ago, or a time")
	fl.StringVar(&f.html, "html", "", "write an HTML page to this `file` (\"-\": standard output)")
	fl.StringVar(&f.journal, "journal", defaultDataDir(), "data `folder` of the daemon, or a file written by \"fairway journal export\"")
	fl.StringSliceVar(&f.policies, "policies", []string{"fairway", "fifo", "las"}, "policies to compare with the present one; none: do not compare")
	f.registerJSON(c)
	return c
}

// week is what a report says.
type week struct {
	From     time.Time        `json:"from"`
	To       time.Time        `json:"to"`
	GPUs     int              `json:"gpus"` // now
	Policy   string           `json:"policy"`
	Users    api.Usage        `json:"users"`
	Tenants  api.Usage        `json:"tenants"`
	Days     api.Usage        `json:"days"`
	Waits    []replay.Wait    `json:"waits"`
	Failures []replay.Failure `json:"failures"`
	WhatIf   []sim.Summary    `json:"what_if"` // the first is what happened, the second the present policy
	Missing  []string         `json:"missing,omitempty"`
}

func (f *reportFlags) run(c *cobra.Command, from, to time.Time) error {
	d, err := f.dial()
	if err != nil {
		return err
	}
	defer d.Close()
	if !c.Flags().Changed("journal") {
		f.journal = dataDirOf(cmp.Or(f.address, defaultAddress()))
	}
	w, err := f.ask(c.Context(), d, from, to)
	if err != nil {
		return err
	}
	if err := f.look(c, w); err != nil {
		return err
	}
	switch {
	case f.asJSON:
		return printAnswer(c.OutOrStdout(), w)
	case f.html == "-":
		return w.writeHTML(c.OutOrStdout())
	case f.html != "":
		if err := writeFile(f.html, w.writeHTML); err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "wrote %s\n", clean(f.html))
		return nil
	}
	w.print(c.OutOrStdout(), widthOf(c.OutOrStdout()))
	return nil
}

// ask asks the daemon what was used.
func (f *reportFlags) ask(ctx context.Context, d *client.Client, from, to time.Time) (*week, error) {
	w := &week{From: from, To: to}
	for by, into := range map[string]*api.Usage{"user": &w.Users, "tenant": &w.Tenants, "day": &w.Days} {
		var err error
		if *into, err = d.Usage(ctx, api.UsageQuery{By: by, Since: from}); err != nil {
			return nil, err
		}
	}
	o, err := d.Overview(ctx)
	if err != nil {
		return nil, err
	}
	w.GPUs, w.Policy = o.GPUs, o.Policy
	return w, nil
}

// look reads the rest from the journal. A report without it is still worth something.
func (f *reportFlags) look(c *cobra.Command, w *week) error {
	records, err := readJournal(c, f.journal)
	if err != nil {
		w.Missing = append(w.Missing, "who waited for whom, what failed, and other policies: "+err.Error()+"; --journal names the data folder of the daemon")
		return nil
	}
	w.Waits, w.Failures = replay.Waits(records, w.From, w.To), replay.Failures(records, w.From, w.To)
	if len(f.policies) == 0 || slices.Equal(f.policies, []string{"none"}) {
		return nil
	}
	if w.WhatIf, err = whatIf(c, replay.Within(records, w.From, w.To), append([]string{w.Policy}, f.policies...)); err != nil {
		if c.Context().Err() != nil {
			return err
		}
		w.Missing = append(w.Missing, "other policies: "+err.Error())
	}
	return nil
}

// whatIf replays records under policies, by the command that does so.
func whatIf(c *cobra.Command, records []api.Record, policies []string) ([]sim.Summary, error) {
	dir, err := os.MkdirTemp("", "fairway-report-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "journal.jsonl")
	if err := writeFile(path, func(w io.Writer) error { return daemon.WriteRecords(w, records) }); err != nil {
		return nil, err
	}
	var distinct []string
	for _, p := range policies {
		if !slices.Contains(distinct, p) {
			distinct = append(distinct, p)
		}
	}
	run, out := newSim(), &bytes.Buffer{}
	run.SilenceUsage, run.SilenceErrors = true, true
	run.SetArgs([]string{"--journal", path, "--policy", strings.Join(distinct, ","), "--json"})
	run.SetOut(out)
	run.SetErr(io.Discard)
	if err := run.ExecuteContext(c.Context()); err != nil {
		return nil, err
	}
	var answer struct {
		Runs []sim.Summary `json:"runs"`
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return nil, err
	}
	return answer.Runs, nil
}

// headline says the week in sentences.
func (w *week) headline() []string {
	t := w.Users.Total
	lines := []string{fmt.Sprintf("%s GPU-hours were used by %s; %s ended, %d of them failed.",
		inHours(t.GPUs), several(len(w.Users.Rows), "user"), several(t.Ended, "job"), t.Failed)}
	if hours := w.To.Sub(w.Users.From).Hours() * float64(w.GPUs); hours > 0 && w.GPUs > 0 {
		lines[0] += fmt.Sprintf(" That is %.0f %% of what %s have in these days.", min(100, 100*t.GPUs/3600/hours), several(w.GPUs, "GPU"))
	}
	if p := w.Users.Price; p.GPUHour > 0 {
		money := func(n string) string { return strings.TrimSpace(n + " " + p.Currency) }
		lines = append(lines, fmt.Sprintf("At %s for a GPU-hour that is %s.", money(fmt.Sprintf("%g", p.GPUHour)), money(fmt.Sprintf("%.2f", t.GPUs/3600*p.GPUHour))))
	}
	if t.Lost > 0 {
		lines = append(lines, fmt.Sprintf("%s GPU-hours of work were lost: not saved when a job was stopped or failed.", inHours(t.Lost)))
	}
	if t.Measured > 0 {
		lines = append(lines, fmt.Sprintf("GPUs did nothing in %.0f %% of the time in which jobs held them and their use was measured.", 100*t.Idle/t.Measured))
	}
	if t.Waited > 0 {
		lines = append(lines, fmt.Sprintf("Jobs waited %s hours for GPUs.", inHours(t.Waited)))
	}
	return lines
}

// waitRows is who waited for whom, those that matter.
func (w *week) waitRows() [][]string {
	const most = 10
	var out [][]string
	for _, x := range w.Waits {
		if len(out) == most || x.Time < 60 {
			break
		}
		text := "waited for " + cmp.Or(x.Holder, "a start, while no GPU was held")
		if x.Holder == x.User {
			text = "waited for jobs of their own"
		}
		out = append(out, []string{x.User, text, inHours(x.Time) + " h"})
	}
	return out
}

// whatIfRows compares policies, and says in a sentence what the best would have changed.
func (w *week) whatIfRows() (rows [][]string, verdict string) {
	for i, s := range w.WhatIf {
		name := s.Policy
		if i == 0 {
			name = "as it was"
		}
		rows = append(rows, []string{name, human(s.AvgJCT), human(s.P99JCT), human(s.AvgWait), fmt.Sprint(s.Restarts)})
	}
	if len(w.WhatIf) < 3 {
		return rows, ""
	}
	now, best := w.WhatIf[1], w.WhatIf[1]
	for _, s := range w.WhatIf[2:] {
		if s.AvgJCT < best.AvgJCT {
			best = s
		}
	}
	if best.Policy == now.Policy || best.AvgJCT > 0.98*now.AvgJCT {
		return rows, fmt.Sprintf("None of them would have been faster than the present policy, %s.", now.Policy)
	}
	return rows, fmt.Sprintf("Under %s jobs would have taken %s on average from submission to end, instead of %s under the present policy, %s; the mean wait would have been %s instead of %s.",
		best.Policy, human(best.AvgJCT), human(now.AvgJCT), now.Policy, human(best.AvgWait), human(now.AvgWait))
}

func (w *week) title() string {
	return fmt.Sprintf("GPU use from %s to %s", w.From.Format("Jan 02"), w.To.Format("Jan 02, 2006"))
}

// failureRows is what failed most often, for whom, and what helps.
func (w *week) failureRows() (rows [][]string) {
	const most = 20
	for _, f := range w.Failures[:min(most, len(w.Failures))] {
		rows = append(rows, failureRow(f))
	}
	if more := len(w.Failures) - most; more > 0 {
		rows = append(rows, []string{"", "", "", fmt.Sprintf("and %s that happened less often", several(more, "failure")), ""})
	}
	return rows
}

func failureRow(f replay.Failure) []string {
	users := slices.Clone(f.Users)
	slices.Sort(users)
	who := strings.Join(users[:min(3, len(users))], ", ")
	if more := len(users) - 3; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	example := sched.JobID("")
	if len(f.Jobs) > 0 {
		example = f.Jobs[len(f.Jobs)-1]
	}
	return []string{several(f.Attempts, "attempt"), who, string(example), f.Text, f.Advice}
}

// print prints the report as text.
func (w *week) print(out io.Writer, width int) {
	fmt.Fprintln(out, w.title())
	fmt.Fprintln(out)
	head := grid{wrap: true}
	for _, line := range w.headline() {
		head.add(clean(line))
	}
	head.print(out, "", cmp.Or(width, 90))
	section := func(title string) { fmt.Fprintf(out, "\n%s\n", title) }
	if len(w.Users.Rows) > 0 {
		section("Who used what")
		usageGrid(w.Users).print(out, "  ", width)
	}
	if len(w.Tenants.Rows) > 1 {
		section("By tenant")
		usageGrid(w.Tenants).print(out, "  ", width)
	}
	table := func(title string, rows [][]string, right ...bool) {
		if len(rows) == 0 {
			return
		}
		section(title)
		g := grid{right: right, wrap: len(right) == 0}
		for _, row := range rows {
			cells := make([]string, len(row))
			for i, cell := range row {
				cells[i] = orDash(cell)
			}
			g.add(cells...)
		}
		g.print(out, "  ", cmp.Or(width, 110))
	}
	table("Who waited for whom", w.waitRows(), false, false, true)
	var failures [][]string
	for _, row := range w.failureRows() {
		row[3] = strings.TrimSuffix(row[3]+": "+row[4], ": ")
		failures = append(failures, row[:4])
	}
	table("What failed, and why", failures)
	rows, verdict := w.whatIfRows()
	if len(rows) > 0 {
		table("What another policy would have changed", append([][]string{{"POLICY", "AVG TIME", "P99", "AVG WAIT", "RESTARTS"}}, rows...), false, true, true, true, true)
		if verdict != "" {
			g := grid{wrap: true}
			g.add(clean(verdict))
			g.print(out, "  ", cmp.Or(width, 90))
		}
	}
	for _, m := range w.Missing {
		fmt.Fprintf(out, "\nnot in this report: %s\n", clean(m))
	}
}
