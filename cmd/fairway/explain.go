// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
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

func newExplain() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:   "explain JOB",
		Short: "Explain why a job waits, or why it runs where it does",
		Long: `Explain on one screen why a job waits, or why it runs where it does: what it waits
for, which jobs go first and why, and when it is expected to start; why it does not
get more GPUs; its fair share and finish-time fairness (rho); every allocation and
preemption with the reason, and what each preemption cost.` + exitHelp,
		Example: `  fairway explain resnet-7
  fairway explain resnet-7 --json`,
		Args: exactly(1, "fairway explain resnet-7"),
		RunE: func(c *cobra.Command, args []string) error {
			width := widthOf(c.OutOrStdout())
			return query[api.Explanation]{&r,
				func(ctx context.Context, daemon *client.Client) (api.Explanation, error) {
					return daemon.Explain(ctx, sched.JobID(args[0]))
				},
				func(w io.Writer, e api.Explanation) { printExplanation(w, e, view{e.Now.Local(), width}) },
			}.run(c)
		},
	}
	r.registerJSON(c)
	c.ValidArgsFunction = r.completeJobs()
	return c
}

// printExplanation prints an explanation for a screen.
func printExplanation(w io.Writer, e api.Explanation, v view) {
	j := e.Job
	title := clean(string(j.ID))
	if j.Name != "" {
		title += " (" + clean(j.Name) + ")"
	}
	head := grid{wrap: true}
	head.add(fmt.Sprintf("%s: %s. %s", title, stateText(j.State), clean(e.Summary)))
	head.print(w, "", v.width)
	fmt.Fprintln(w)
	g := grid{wrap: true}
	explainRequest(&g, j, e.Policy, v.now)
	if e.RunTime != nil {
		g.add("runs for", clean(e.RunTime.Text()))
	}
	if j.Status.Phase == sched.Pending {
		explainWait(&g, e, v.now)
	}
	explainRun(&g, j, v.now)
	explainUse(&g, e)
	if e.Plans != "" {
		g.add("plan", clean(e.Plans))
	}
	if e.Larger != "" && j.Kept() == "" { // the reason is in the row on preemption
		g.add("no more GPUs", clean(e.Larger))
	}
	if !j.Status.Phase.Ended() {
		fair := fmt.Sprintf("%.1f GPUs if all apps shared equally; it has %d", j.FairShare, j.HeldGPUs())
		g.add("fair share", fair)
		if j.Rho > 0 {
			g.add("rho so far", fmt.Sprintf("%.2f: %s", j.Rho, rhoMeaning(j.Rho)))
		} else {
			g.add("rho so far", "unknown until every job of its app reports progress or has an estimate")
		}
	}
	g.add("policy", clean(e.Policy))
	g.print(w, "  ", v.width)
	if j.State == api.Waiting {
		printRivals(w, e, v.width)
		printHolders(w, e, v.width)
	}
	printLedger(w, e, v)
}

// explainRequest says what was asked for, by whom and when.
func explainRequest(g *grid, j api.Job, policy string, now time.Time) {
	at := j.Submitted
	if !j.Accepted.IsZero() {
		at = j.Accepted
	}
	g.add("submitted", fmt.Sprintf("%s (%s ago) by %s, tenant %s, app %s", clock(now, at), sched.Brief(now.Sub(at)),
		orDash(j.User), orDash(string(j.Tenant)), orDash(string(j.App))))
	if len(j.DependsOn) > 0 {
		g.add("depends on", clean(strings.Join(j.DependsOn, ", ")))
	}
	if at.Before(j.Submitted) {
		g.add("queued", fmt.Sprintf("%s, after what it depends on", clock(now, j.Submitted)))
	}
	asked := wants(j) + " GPUs"
	if j.MaxGPUs <= j.MinGPUs {
		asked = several(j.GPUs, "GPU")
	}
	if j.MilliGPU > 0 && j.MilliGPU < sched.WholeGPU {
		asked = fmt.Sprintf("%g of %s", float64(j.MilliGPU)/sched.WholeGPU, several(j.GPUs, "GPU"))
	}
	if len(j.GPUTypes) > 0 {
		types := make([]string, len(j.GPUTypes))
		for i, t := range j.GPUTypes {
			types[i] = clean(string(t))
		}
		asked += " of type " + strings.Join(types, " or ")
	}
	if j.MaxSpread != sched.NoLevel {
		asked += ", within one " + j.MaxSpread.String()
	}
	for _, r := range j.Topology {
		asked += ", " + clean(r.String())
	}
	if j.Shareable {
		asked += ", may share GPUs"
	}
	if j.Spec.Screen > 0 && !j.Status.ProbationPassed && strings.Contains(policy, screenLayer) {
		asked += ", screened for " + j.Spec.Screen.String() + " first"
	}
	if j.Priority != 0 {
		asked += fmt.Sprintf(", priority %d", j.Priority)
	}
	if j.Estimate > 0 {
		asked += ", estimate " + j.Estimate.String()
	}
	if j.TimeLimit > 0 && j.Status.Phase.Ended() {
		asked += ", time limit " + j.TimeLimit.String()
	}
	g.add("requested", asked)
	if len(j.Roles) > 0 {
		g.add("roles", clean(j.RolesShown()))
	}
	g.add("environment", explainEnv(j))
}

// explainUse says how the GPUs were expected to be used, and how they are.
func explainUse(g *grid, e api.Explanation) {
	text := func(util float64, memory int64, p *api.PredictedUse) string {
		var parts []string
		if util > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% busy", 100*util))
			if p != nil {
				parts[0] += fmt.Sprintf(" (%.0f to %.0f)", 100*p.UtilLow, 100*p.UtilHigh)
			}
		}
		if memory > 0 {
			size := gibibytes(memory)
			if p != nil {
				size = fmt.Sprintf("%s (%s booked)", gibibytes(p.Memory), size)
			}
			parts = append(parts, size+" of memory")
		}
		if p != nil && p.StepHigh > 0 {
			parts = append(parts, fmt.Sprintf("a step in %.3g to %.3g ms", 1e3*p.StepLow.D().Seconds(), 1e3*p.StepHigh.D().Seconds()))
		}
		return strings.Join(parts, ", ")
	}
	var parts []string
	if expected := text(e.Job.GPUUtil, e.Job.GPUMemory, e.Job.Predicted); expected != "" {
		parts = append(parts, "expected: "+expected)
	}
	var measured []string
	if u := e.Use; u != nil {
		measured = append(measured, text(u.Util, u.Memory, nil))
	}
	if ms := measuredStep(e.Job); ms > 0 && e.Job.Predicted != nil {
		measured = append(measured, fmt.Sprintf("a step in %.3g ms", ms))
	}
	if len(measured) > 0 {
		parts = append(parts, "measured: "+strings.Join(measured, ", "))
	}
	if len(parts) > 0 {
		g.add("GPU use", strings.Join(parts, "; "))
	}
}

// measuredStep is how long the job's steps take, in milliseconds, at the batch size and on
// the number of GPUs that its prediction is for; 0: it has not run so. A job that reports
// no batch size reports units of its work, not steps.
func measuredStep(j api.Job) float64 {
	if j.Status.Perf == nil || j.Batch.Initial == 0 {
		return 0
	}
	for _, s := range j.Status.Perf.StepTimes {
		if s.GPUs == max(1, j.GPUs) && s.Batch == j.Batch.Initial && !s.Borrowed {
			return 1e3 * s.Time
		}
	}
	return 0
}

// explainWait says what a job waits for.
func explainWait(g *grid, e api.Explanation, now time.Time) {
	if r := e.Job.Reason; r != nil {
		g.add("waits for", fmt.Sprintf("%s [%s]", clean(r.Text), clean(r.Code)))
		if e.Job.State == api.Waiting {
			g.add("starts", expectedStart(*r, now))
			if r.Rough != "" {
				g.add("", "rough, because "+clean(r.Rough))
			}
			if r.Promised.After(now) {
				g.add("", fmt.Sprintf("at %s at the latest: the policy promises that", clock(now, r.Promised)))
			}
		}
	}
	if code := e.Job.Reason; code != nil && notQueued(code.Code) {
		return
	}
	if e.Order != "" {
		g.add("queue", fmt.Sprintf("%s waiting ahead of it (by %s)", several(e.Ahead, "job"), clean(e.Order)))
	} else {
		g.add("queue", several(e.Ahead, "job")+" submitted earlier still waiting")
	}
	g.add("cluster", fmt.Sprintf("%d of %s free", e.FreeGPUs, several(e.AllGPUs, "GPU")))
}

// notQueued reports whether a job with that reason does not queue for GPUs yet.
func notQueued(code string) bool { return code == api.WaitsForJobs || code == api.WaitsForArray }

// expectedStart says when a waiting job may start.
func expectedStart(r api.Reason, now time.Time) string {
	switch {
	case r.Code == sched.Impossible.String():
		return "never on the nodes there are now: request less, wait for other nodes, or cancel the job"
	case r.Until.IsZero() && r.Earliest.IsZero():
		return "unknown: " + cmp.Or(clean(r.Unknown), "the end of the running jobs cannot be estimated")
	case r.Until.IsZero():
		return fmt.Sprintf("after %s; how long after cannot be told", clock(now, r.Earliest))
	case !r.Until.After(now):
		return "now"
	case r.Rough != "" && !r.Latest.IsZero():
		return fmt.Sprintf("between %s and %s in 9 of 10 cases, perhaps at about %s (in %s)", clock(now, r.Earliest), clock(now, r.Latest), clock(now, r.Until), sched.Brief(r.Until.Sub(now)))
	}
	text := fmt.Sprintf("at about %s (in %s)", clock(now, r.Until), sched.Brief(r.Until.Sub(now)))
	switch {
	case !r.Latest.IsZero():
		text += fmt.Sprintf(", in 9 of 10 cases from %s to %s", clock(now, r.Earliest), clock(now, r.Latest))
	case !r.Earliest.IsZero():
		text += fmt.Sprintf(", not before %s, perhaps much later", clock(now, r.Earliest))
	}
	return text
}

// explainRun says where a job runs and how far it is.
func explainRun(g *grid, j api.Job, now time.Time) {
	if len(j.Held) > 0 {
		g.add("allocated", fmt.Sprintf("%s: %s, for %s", several(j.HeldGPUs(), "GPU"), heldText(j.Held), sched.Brief(now.Sub(j.Status.Since))))
	}
	if j.Warning != "" {
		g.add("warning", clean(j.Warning))
	}
	if text := j.Kept(); text != "" {
		g.add("preemption", "it "+text)
	}
	if text := progressText(j, now); text != "" {
		g.add("progress", text)
	}
	if p := j.Last; p != nil {
		if text := trainingText(*p); text != "" {
			g.add("training", text)
		}
	}
	for _, l := range j.Links {
		g.add(clean(l.Name), clean(l.URL))
	}
	if j.SaveFailed != "" {
		g.add("checkpoints", "its last save failed: "+clean(j.SaveFailed))
	}
	times := fmt.Sprintf("waited %s, ran %s, started %s", sched.Brief(waitedFor(j, now)), sched.Brief(ranFor(j, now)), several(j.Status.Starts, "time"))
	if n := j.Status.Failures; n > 0 {
		times += fmt.Sprintf(", failed %s, %s allowed", several(n, "time"), retriesText(j))
	}
	g.add("time", times)
	if text := limitText(j, now); text != "" {
		g.add("time limit", text)
	}
	if j.Exit != nil && !(j.State == api.Failed) { // the summary tells why it failed
		g.add("last exit", clean(j.Exit.Text()))
	}
	if j.Exit != nil {
		title := "last failure"
		if j.State == api.Failed {
			title = "reason"
		}
		explainFailure(g, *j.Exit, title)
	}
	if j.Status.Slowdown > 0 {
		g.add("slowdown", fmt.Sprintf("steps take %.2f times as long as when alone on its GPUs", j.Status.Slowdown))
	}
}

// limitText says how much of its time limit a job has left; empty: it has none, or has
// ended.
func limitText(j api.Job, now time.Time) string {
	left := j.TimeLimit.D() - ranFor(j, now)
	switch {
	case j.TimeLimit == 0 || j.Status.Phase.Ended():
		return ""
	case j.Status.Phase == sched.Running:
		return fmt.Sprintf("%s in all: it is stopped at %s, in %s", j.TimeLimit, clock(now, now.Add(max(0, left))), sched.Brief(max(0, left)))
	}
	return fmt.Sprintf("%s in all, %s left", j.TimeLimit, sched.Brief(max(0, left)))
}

// explainFailure says why the last attempt failed and what was decided.
func explainFailure(g *grid, e api.Exit, title string) {
	f := e.Finding
	if f == nil {
		return
	}
	g.add(title, fmt.Sprintf("%s: %s (%s, confidence %.0f %%)", f.Reason, clean(f.Text), f.Category, 100*f.Confidence))
	if f.Evidence != nil {
		g.add("evidence", clean(f.Evidence.String()))
	}
	g.add("decision", clean(e.Next))
	if !strings.Contains(e.Next, f.Retry.Say) {
		g.add("advice", clean(f.Retry.Say))
	}
}

// retriesText says how often, and after what, a job is tried again.
func retriesText(j api.Job) string {
	switch {
	case j.Retry == api.RetryNever || j.Retries == 0:
		return "no retries"
	case j.Retries == 1:
		return "1 retry"
	}
	return fmt.Sprintf("%d retries", j.Retries)
}

func progressText(j api.Job, now time.Time) string {
	var parts []string
	work := workOf(j)
	switch {
	case work > 0:
		parts = append(parts, fmt.Sprintf("%s of %s (%s)", number(j.Status.Done), number(work), percent(j)))
	case j.Status.Done > 0:
		parts = append(parts, number(j.Status.Done))
	}
	if j.State == api.Running && j.Status.Rate > 0 {
		parts = append(parts, number(j.Status.Rate)+" a second")
	}
	if j.Left > 0 && !j.Status.Phase.Ended() {
		parts = append(parts, "about "+briefSeconds(j.Left)+" remaining")
	}
	if !j.Status.Checkpoint.IsZero() {
		parts = append(parts, fmt.Sprintf("checkpoint at %s, %s ago", number(j.Status.CheckpointedWork), sched.Brief(now.Sub(j.Status.Checkpoint))))
	} else if j.State == api.Running {
		parts = append(parts, "no checkpoint yet")
	}
	return strings.Join(parts, ", ")
}

// trainingText prints what the agent measured last.
func trainingText(p api.Point) string {
	var parts []string
	add := func(name string, value float64) {
		if value != 0 {
			parts = append(parts, name+" "+number(value))
		}
	}
	if p.Loss != nil {
		parts = append(parts, "loss "+number(*p.Loss))
	}
	add("batch", float64(p.Batch))
	add("learning rate", p.LR)
	if p.Efficiency > 0 {
		parts = append(parts, fmt.Sprintf("efficiency %.0f%%", 100*p.Efficiency))
	}
	if p.Goodput > 0 && p.Throughput > 0 {
		parts = append(parts, fmt.Sprintf("goodput %s of %s examples a second", number(p.Goodput), number(p.Throughput)))
	}
	return strings.Join(parts, ", ")
}

func rhoMeaning(rho float64) string {
	switch {
	case rho < 0.95:
		return "faster than alone on its fair share"
	case rho <= 1.05:
		return "as fast as alone on its fair share"
	}
	return fmt.Sprintf("it takes %.1f times as long as alone on its fair share", rho)
}

// printRivals prints who goes first, and why.
func printRivals(w io.Writer, e api.Explanation, width int) {
	if len(e.Before) == 0 {
		return
	}
	fmt.Fprintln(w, "\nAhead of it")
	g := grid{wrap: true}
	for _, r := range e.Before {
		held := "waits"
		if r.GPUs > 0 {
			held = several(r.GPUs, "GPU")
		}
		g.add(clean(string(r.Job)), orDash(string(r.Tenant)), held, clean(r.Why))
	}
	g.print(w, "  ", width)
}

func printHolders(w io.Writer, e api.Explanation, width int) {
	if len(e.Holders) == 0 {
		return
	}
	fmt.Fprintln(w, "\nCurrent allocations")
	g := grid{right: []bool{false, false, true, true}}
	for _, h := range e.Holders {
		ends := "end unknown"
		if h.Left > 0 {
			ends = briefSeconds(h.Left) + " left"
		}
		g.add(clean(string(h.Job)), orDash(string(h.Tenant)), several(h.GPUs, "GPU"), ends)
	}
	g.print(w, "  ", width)
}

// printLedger prints what was given and taken, the last entries of it, and what
// it cost.
func printLedger(w io.Writer, e api.Explanation, v view) {
	const most = 10
	fmt.Fprintln(w, "\nAllocation history")
	if len(e.Ledger) == 0 {
		fmt.Fprintln(w, "  nothing yet")
		return
	}
	if more := len(e.Ledger) - most; more > 0 {
		fmt.Fprintf(w, "  … %d earlier (see --json)\n", more)
	}
	g := grid{wrap: true}
	for _, l := range e.Ledger[max(0, len(e.Ledger)-most):] {
		g.add(clock(v.now, l.At), clean(l.Verb), fmt.Sprintf("%d → %d GPUs", l.From, l.To), price(l), clean(l.Why))
	}
	g.print(w, "  ", v.width)
	if p := taken(e); p.Preemptions+p.Moves > 0 {
		fmt.Fprintf(w, "\n%s and %s cost %s of lost work and %s away from training.\n",
			several(p.Preemptions, "preemption"), several(p.Moves, "move"), several(int(p.LostS+0.5), "GPU-second"), briefSeconds(p.AwayS))
	} else {
		fmt.Fprintln(w, "\nNever preempted or moved.")
	}
}

// taken is what the scheduler took, without what failures and pauses cost: those have
// entries of their own.
func taken(e api.Explanation) api.LedgerTotal {
	p := e.Price
	for _, l := range e.Ledger {
		if l.Verb == "fail" || l.Verb == "pause" || l.Verb == "end" {
			p.LostS, p.AwayS = p.LostS-l.LostS, p.AwayS-l.Away
		}
	}
	p.LostS, p.AwayS = max(0, p.LostS), max(0, p.AwayS)
	return p
}

// price prints what one entry cost the job.
func price(l api.Entry) string {
	var parts []string
	if l.LostS > 0 {
		parts = append(parts, fmt.Sprintf("lost %s GPU-s", number(float64(int(l.LostS+0.5)))))
	}
	switch {
	case l.Ongoing:
		parts = append(parts, "away "+briefSeconds(l.Away)+" so far")
	case l.Away > 0:
		parts = append(parts, "away "+briefSeconds(l.Away))
	}
	if len(parts) == 0 && (l.Verb == "preempt" || l.Verb == "move") {
		return "no work lost"
	}
	return strings.Join(parts, ", ")
}
