// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

// submitSearch begins a search and, if asked to, waits for its end.
func submitSearch(c *cobra.Command, s *api.SearchSpec, r *remote, wait bool) error {
	daemon, err := r.dial()
	if err != nil {
		return err
	}
	defer daemon.Close()
	made, err := daemon.CreateSearch(c.Context(), *s)
	if err != nil {
		return fmt.Errorf("submit search %s: %w", clean(string(s.ID)), err)
	}
	if !r.asJSON {
		fmt.Fprintln(c.OutOrStdout(), clean(string(made.Spec.ID)))
	}
	if wait {
		if made, err = waitSearch(c.Context(), daemon, made, c.ErrOrStderr()); err != nil {
			return err
		}
	}
	if r.asJSON {
		if err := printAnswer(c.OutOrStdout(), made); err != nil {
			return err
		}
	}
	if wait && made.State != api.Finished {
		return jobError{fmt.Errorf("search %s %s: %s", clean(string(made.ID)), stateText(made.State), clean(made.Why))}
	}
	return nil
}

// waitSearch asks again and again, as waitFor does for a job.
func waitSearch(ctx context.Context, daemon *client.Client, s api.Search, log io.Writer) (api.Search, error) {
	gap, away, said := soonest, time.Time{}, ""
	for {
		if line := searchLine(s); line != said {
			said = line
			fmt.Fprintf(log, "%s: %s\n", clean(string(s.ID)), line)
		}
		if s.Over() {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("stopped waiting for %s, which keeps running (see \"fairway app show %s\", \"fairway app cancel %s\")", s.ID, s.ID, s.ID)
		case <-time.After(gap):
		}
		gap = min(gap*3/2, longestGap)
		now, err := daemon.Search(ctx, s.Spec.ID)
		switch {
		case err == nil:
			s, away = now, time.Time{}
		case ctx.Err() != nil: // told above
		case api.CodeOf(err) != api.Unavailable && api.CodeOf(err) != api.TooMany:
			return s, fmt.Errorf("wait for %s: %w", s.ID, err)
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > patience:
			return s, fmt.Errorf("wait for %s: %w", s.ID, err)
		}
	}
}

// searchLine says in a few words how a search is.
func searchLine(s api.Search) string {
	if s.Over() {
		return stateText(s.State) + ": " + clean(s.Why)
	}
	ended, running := 0, 0
	for _, t := range s.Trials {
		switch t.State {
		case api.Finished, api.Failed, api.Cancelled:
			ended++
		case api.Running:
			running++
		}
	}
	line := fmt.Sprintf("%s: %d of %s started, %d running, %d ended", stateText(s.State), len(s.Trials), several(max(s.Spec.Trials, len(s.Trials)), "trial"), running, ended)
	if s.Best != nil {
		line += fmt.Sprintf("; trial %d is best so far", *s.Best)
	}
	return line
}

// showSearch shows a search; ok is false if the app is none.
func showSearch(c *cobra.Command, r *remote, id string) (ok bool, err error) {
	daemon, err := r.dial()
	if err != nil {
		return false, err
	}
	defer daemon.Close()
	s, err := daemon.Search(c.Context(), sched.AppID(id))
	if err != nil {
		return false, nil // the jobs of an app say what is wrong, if anything is
	}
	if r.asJSON {
		return true, printAnswer(c.OutOrStdout(), s)
	}
	printSearch(c.OutOrStdout(), s, widthOf(c.OutOrStdout()))
	return true, nil
}

// printSearch prints a search and its trials, the best with a star.
func printSearch(w io.Writer, s api.Search, width int) {
	fmt.Fprintf(w, "%s  %s\n", clean(string(s.ID)), searchLine(s))
	metric := s.Spec.Metric
	fmt.Fprintf(w, "%s %s, %s, stopping: %s\n", metric.Goal, clean(metric.Name), s.Spec.Method, s.Spec.Stopping.Rule)
	if s.Best != nil && *s.Best < len(s.Trials) {
		best := s.Trials[*s.Best]
		fmt.Fprintf(w, "best: trial %d, %s %s with %s\n", best.Number, clean(metric.Name), valueText(best.Value), paramsText(best.Params))
	}
	if len(s.Trials) == 0 {
		return
	}
	fmt.Fprintln(w)
	g := grid{right: []bool{true, false, true, true}}
	g.add("TRIAL", "STATE", strings.ToUpper(clean(metric.Name)), "DONE", "PARAMETERS", "JOB", "WHY")
	for _, t := range s.Trials {
		number := strconv.Itoa(t.Number)
		if s.Best != nil && *s.Best == t.Number {
			number = "* " + number
		}
		why := clean(t.Why)
		if t.Held {
			why = "waiting for other trials at this rung"
		}
		g.add(number, trialState(t), valueText(t.Value), strconv.FormatFloat(t.Done, 'g', 6, 64), paramsText(t.Params), orDash(string(t.Job)), why)
	}
	g.print(w, "", width)
}

func valueText(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'g', 5, 64)
}

func paramsText(params map[string]string) string {
	parts := make([]string, 0, len(params))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		parts = append(parts, clean(name)+"="+clean(params[name]))
	}
	return strings.Join(parts, " ")
}
