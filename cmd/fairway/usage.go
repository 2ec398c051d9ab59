// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
)

func newUsage() *cobra.Command {
	var r remote
	var q api.UsageQuery
	var since, until, currency string
	var rate float64
	var asCSV bool
	c := &cobra.Command{
		Use:   "usage",
		Short: "Sum GPU-hours by user, tenant, job or day",
		Long: `Sum what jobs used, over whole days (UTC).

  GPU-hours  time that jobs held GPUs; half a GPU counts half
  lost       of these, work that was not saved when a job was stopped or failed
  idle       share of the GPU-hours whose use was measured in which the GPUs did nothing
  waited     hours that jobs waited for GPUs, pauses aside

Jobs that the daemon no longer lists count too, for 400 days; with --by job, those of a
tenant share one row. With a price for a GPU-hour (--rate, or "price" in the daemon's
configuration), the cost is shown too.` + exitHelp,
		Example: `  fairway usage
  fairway usage --by tenant --since 30d --rate 2.50 --currency EUR
  fairway usage --by tenant --roll-up
  fairway usage --by day --csv > usage.csv`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			now := time.Now()
			var err error
			switch {
			case !slices.Contains(api.UsageKinds(), q.By):
				return usagef("--by is %.40q; want %s", q.By, strings.Join(api.UsageKinds(), ", "))
			case q.RollUp && q.By != "tenant":
				return usagef("--roll-up goes with --by tenant, not with --by %s", q.By)
			case rate < 0:
				return usagef("--rate is %g; want 0 or more", rate)
			case asCSV && r.asJSON:
				return usagef("--csv and --json are both set; want one of them")
			}
			if q.Since, err = parseSince(since, now); err != nil {
				return err
			}
			if q.Until, err = parseTime("until", until, now); err != nil {
				return err
			}
			daemon, err := r.dial()
			if err != nil {
				return err
			}
			defer daemon.Close()
			u, err := daemon.Usage(c.Context(), q)
			if err != nil {
				return err
			}
			if rate > 0 {
				u.Price.GPUHour = rate
			}
			u.Price.Currency = cmp.Or(currency, u.Price.Currency)
			switch w := c.OutOrStdout(); {
			case r.asJSON:
				return printAnswer(w, u)
			case asCSV:
				return writeUsage(w, u)
			default:
				printUsage(w, u, widthOf(w))
				return nil
			}
		},
	}
	fl := c.Flags()
	fl.StringVar(&q.By, "by", "user", "what to sum by: user, tenant, job or day")
	fl.BoolVar(&q.RollUp, "roll-up", false, "with --by tenant: count what a tenant uses for all tenants above it too")
	fl.StringVar(&since, "since", "30d", "first day to count: how long ago, or a time; empty: all that is kept")
	fl.StringVar(&until, "until", "", "last day to count (default: today)")
	fl.Float64Var(&rate, "rate", 0, "price of a GPU-hour (default: that of the daemon's configuration)")
	fl.StringVar(&currency, "currency", "", "of the price, such as EUR")
	fl.BoolVar(&asCSV, "csv", false, "print comma-separated values, times in hours")
	r.registerJSON(c)
	return c
}

// usageName returns what a row is about, in columns.
func usageName(by string, r api.UsageRow) []string {
	switch by {
	case "tenant":
		return []string{string(r.Tenant)}
	case "job":
		return []string{string(r.Job), r.Name, r.User, string(r.Tenant)}
	case "day":
		return []string{r.Day}
	}
	return []string{r.User, string(r.Tenant)}
}

var usageHeads = map[string][]string{"tenant": {"tenant"}, "job": {"job", "name", "user", "tenant"}, "day": {"day"}, "user": {"user", "tenant"}}

func writeUsage(w io.Writer, u api.Usage) error {
	out := csv.NewWriter(w)
	hours := func(s float64) string { return strconv.FormatFloat(s/3600, 'f', 4, 64) }
	_ = out.Write(append(slices.Clone(usageHeads[u.By]), "ended", "failed", "gpu_hours", "lost_gpu_hours", "measured_gpu_hours", "idle_gpu_hours", "waited_hours", "cost", "currency")) // Error has it
	for _, r := range u.Rows {
		cells := usageName(u.By, r)
		for i, text := range cells {
			if strings.ContainsAny(text[:min(1, len(text))], "=+-@\t\r") {
				cells[i] = "'" + text // a spreadsheet would take it for a formula
			}
		}
		cost := ""
		if u.Price.GPUHour > 0 {
			cost = strconv.FormatFloat(r.GPUs/3600*u.Price.GPUHour, 'f', 2, 64)
		}
		_ = out.Write(append(cells, strconv.Itoa(r.Ended), strconv.Itoa(r.Failed), hours(r.GPUs), hours(r.Lost), hours(r.Measured), hours(r.Idle), hours(r.Waited), cost, u.Price.Currency))
	}
	out.Flush()
	return out.Error()
}

func printUsage(w io.Writer, u api.Usage, width int) {
	fmt.Fprintf(w, "%s to %s (UTC)\n\n", u.From.UTC().Format("Jan 02"), u.To.UTC().Format("Jan 02 15:04"))
	if len(u.Rows) == 0 {
		fmt.Fprintln(w, "nothing was used")
		return
	}
	usageGrid(u).print(w, "", width)
}

// usageGrid is the table of a usage, the total last.
func usageGrid(u api.Usage) *grid {
	heads := usageHeads[u.By]
	g := &grid{right: make([]bool, len(heads), len(heads)+7)}
	head := make([]string, len(heads))
	for i, h := range heads {
		head[i] = strings.ToUpper(h)
	}
	head = append(head, "ENDED", "FAILED", "GPU-HOURS", "LOST", "IDLE", "WAITED")
	if u.Price.GPUHour > 0 {
		head = append(head, strings.TrimSpace("COST "+clean(u.Price.Currency)))
	}
	for len(g.right) < len(head) {
		g.right = append(g.right, true)
	}
	g.add(head...)
	row := func(names []string, r api.UsageRow) {
		cells := make([]string, len(heads))
		for i, n := range names {
			cells[i] = orDash(n)
		}
		cells = append(cells, strconv.Itoa(r.Ended), strconv.Itoa(r.Failed), inHours(r.GPUs), inHours(r.Lost), idleText(r), inHours(r.Waited))
		if u.Price.GPUHour > 0 {
			cells = append(cells, fmt.Sprintf("%.2f", r.GPUs/3600*u.Price.GPUHour))
		}
		g.add(cells...)
	}
	for _, r := range u.Rows {
		row(usageName(u.By, r), r)
	}
	if len(u.Rows) > 1 {
		row([]string{"total"}, u.Total)
		last := g.rows[len(g.rows)-1]
		for i := 1; i < len(heads); i++ {
			last[i] = ""
		}
	}
	return g
}

// idleText prints the idle share of what was measured.
func idleText(r api.UsageRow) string {
	if r.Measured == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*r.Idle/r.Measured)
}

// inHours prints seconds as hours.
func inHours(s float64) string {
	switch h := s / 3600; {
	case s == 0:
		return "0"
	case h < 10:
		return fmt.Sprintf("%.2f", h)
	case h < 100:
		return fmt.Sprintf("%.1f", h)
	default:
		return fmt.Sprintf("%.0f", h)
	}
}
