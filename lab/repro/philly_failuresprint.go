// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/sim"
)

// failuresSizes are the job sizes of the tables.
var failuresSizes = []struct {
	name        string
	least, most int
}{{"1 GPU", 1, 1}, {"2-4", 2, 4}, {"5-8", 5, 8}, {">8", 9, math.MaxInt}}

// Charts returns the plots, by file name.
func (r *FailuresReport) Charts() map[string]Bars {
	attempts := Bars{Title: "Failed attempts that reached the whole gang, above one GPU", Y: "attempts"}
	wasted := Bars{Title: "GPU time of failed attempts", Y: "thousand GPU-hours"}
	for _, run := range r.Runs {
		f := run.Faults()
		gangs := 0
		for _, s := range f.Sizes[1:] {
			gangs += s.Attempts - s.Caught
		}
		attempts.Bars = append(attempts.Bars, Bar{Name: run.Name, Value: float64(gangs)})
		wasted.Bars = append(wasted.Bars, Bar{Name: run.Name, Value: f.Wasted / 3.6e6})
	}
	return map[string]Bars{"philly-failures-attempts.svg": attempts, "philly-failures-wasted.svg": wasted}
}

// Markdown writes the experiment as a section of a page, with the plots in the
// folder images.
func (r *FailuresReport) Markdown(w io.Writer, images string) error {
	var b strings.Builder
	jobs, gangs, first := r.Failing()
	fmt.Fprintf(&b, `
## The cost of failures

%d Philly-like jobs with the failures of the study's table 7, with each of %d seeds
(load %.2f), on %d GPUs (%s) under `+"`%s`"+`. %d jobs fail, %d of them gangs. Tables add
up the seeds; changes are against "as recorded", seed by seed, with their standard deviation.
This page had seeds 1 to 3 while retries and screening were written; 4 and 5 are new. The
outcome of an attempt depends on the decision after the previous one:

- Infrastructure and CUDA failures pass after the recorded number of attempts; jobs that run
  out of memory succeed with more of it, half of them with 1.5 times as much; all other
  failures persist. Which reasons pass is our assumption: the study reports how often its
  scheduler retried, not what another scheduler would have seen.
- A job that succeeds here but failed in the study ends there: what its user submitted
  instead is already in the workload. So every variant has the same useful work to do.
- Adaptive retries depend on the reason ([failures](../failures.md)); for 12 %% of the jobs the
  classifier does not know it, its rate on held-out samples.
- Screening is the layer `+"`@screen`"+`: a gang first runs on one GPU for %s, unless a job of the
  same user, model and size has run well within 14 days. MPI errors do not occur there.

| variant | failed attempts | change | in screening | jobs caught there | GPU-h wasted | change | of all GPU-h | GPU-h of screening | jobs that succeeded after a retry |
|---|---|---|---|---|---|---|---|---|---|
`, r.Config.Jobs, len(r.Config.Seeds), r.Config.Load, r.GPUs, r.Config.Cluster, r.Config.Policy, jobs, gangs, r.Config.Screen)
	for _, run := range r.Runs {
		f := run.Faults()
		fmt.Fprintf(&b, "| %s | %d | %s | %d | %s | %.0f | %s | %.1f %% | %.0f | %d |\n", run.Name,
			f.Attempts, run.against(r.Runs[0], func(f *sim.FaultSummary) float64 { return float64(f.Attempts) }), f.Caught, share(f.CaughtJobs, gangs),
			f.Wasted/3600, run.against(r.Runs[0], func(f *sim.FaultSummary) float64 { return f.Wasted }), 100*f.Wasted/run.Held(), f.ScreenGPUs/3600, f.Rescued)
	}
	fmt.Fprintf(&b, `
The study's unsuccessful jobs used 17.76 %% of its GPU time. The workloads are drawn from its tables
of failures, so that "as recorded" should come close to that; the other rows have no counterpart in it.
The percentages are of the gangs that fail. The first attempts of failing jobs alone take
%.0f GPU-hours if they are not disturbed; no decision after a failure can save these.

![Failed attempts of gangs](%s/philly-failures-attempts.svg)

![GPU time of failed attempts](%s/philly-failures-wasted.svg)
`, first/3600, images, images)
	r.printReasons(&b)
	r.printWaits(&b)
	if len(r.Bad) > 0 {
		r.printBad(&b)
		r.printTimes(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func share(part, all int) string { return fmt.Sprintf("%d (%s)", part, percent(part, all)) }

// printReasons compares the first variant with the last, by reason.
func (r *FailuresReport) printReasons(b *strings.Builder) {
	before, after := r.Runs[0].Faults(), r.Runs[len(r.Runs)-1].Faults()
	fmt.Fprint(b, `
By reason and job size, with retries as recorded and with both:

| | attempts: as recorded | both | in screening | GPU-h wasted: as recorded | both |
|---|---|---|---|---|---|
`)
	slices.SortFunc(before.Reasons, func(x, y sim.FaultCount) int {
		return cmp.Or(cmp.Compare(y.Wasted, x.Wasted), cmp.Compare(x.Name, y.Name))
	})
	row := func(x sim.FaultCount, list []sim.FaultCount) {
		var y sim.FaultCount
		if i := slices.IndexFunc(list, func(c sim.FaultCount) bool { return c.Name == x.Name }); i >= 0 {
			y = list[i]
		}
		name := x.Name
		if strings.ContainsAny(name[:1], "0123456789>") {
			name += " GPUs"
		}
		fmt.Fprintf(b, "| %s | %d | %d | %d | %.0f | %.0f |\n", name, x.Attempts, y.Attempts, y.Caught, x.Wasted/3600, y.Wasted/3600)
	}
	for _, c := range before.Reasons {
		row(c, after.Reasons)
	}
	for _, c := range before.Sizes {
		row(c, after.Sizes)
	}
	fmt.Fprint(b, `
Most wasted GPU time goes to attempts that fail late, for reasons that a retry may overcome:
a checkpoint that could not be written, a lost MPI daemon. Neither adaptive retries nor
screening saves these; reliable checkpoints would. Adaptive retries save attempts that fail
by user error. They cost more than the study's scheduler where they allow one retry for
reasons it mostly gave up on at once (core dumps, invalid accesses). Screening keeps failures
off whole gangs and tells users early, but hardly saves GPU time: jobs that fail within
minutes use few GPU-hours. It delays every new gang by its own length.
`)
}

// printWaits prints the effect on jobs that never fail.
func (r *FailuresReport) printWaits(b *strings.Builder) {
	fmt.Fprint(b, `
The effect on jobs that never fail: minutes from submission until a job has all its GPUs
(screening counts as waiting), by size, and completion time.

| variant |`)
	for _, s := range failuresSizes {
		fmt.Fprintf(b, " %s: mean, median, p95 |", s.name)
	}
	fmt.Fprint(b, " JCT in hours: mean, median, p95 |\n|---|---|---|---|---|---|\n")
	for _, run := range r.Runs {
		fmt.Fprintf(b, "| %s |", run.Name)
		for _, s := range failuresSizes {
			t := run.GangWait(s.least, s.most)
			fmt.Fprintf(b, " %.0f, %.1f, %.0f |", t.Mean/60, t.P50/60, t.P95/60)
		}
		t := run.GoodJCT(1, math.MaxInt)
		fmt.Fprintf(b, " %.2f, %.2f, %.1f |\n", t.Mean/3600, t.P50/3600, t.P95/3600)
	}
	var means []string
	for _, res := range r.Runs[0].Results {
		one := FailuresRun{Results: []*sim.Result{res}, work: r.Runs[0].work[len(means):]}
		means = append(means, fmt.Sprintf("%.0f", one.GangWait(9, math.MaxInt).Mean/60))
	}
	fmt.Fprintf(b, `
Mean waits of large gangs differ more between seeds than between variants (above 8 GPUs, as
recorded: %s minutes), so only large differences in them are meaningful.
`, strings.Join(means, ", "))
}

func (r *FailuresReport) printBad(b *strings.Builder) {
	fmt.Fprintf(b, `
### Bad nodes

The same, but nodes go bad at random: %.1f %% of them at any time, for 12 hours on average. An
attempt on a bad node fails after 10 minutes on average, and the job resumes from a checkpoint
of the last hour. With retries as recorded, a job is retried on any node, at most 20 times;
adaptive retries avoid the node; with quarantine, nodes on which failures correlate take no
work. A job given up because of its nodes is resubmitted by its user after an hour, with no
nodes excluded.

| variant | attempts that nodes broke | change | most of one job | jobs given up and resubmitted | GPU-h wasted | quarantines (of good nodes) | node-hours in quarantine | JCT of good jobs in hours: mean, p95 |
|---|---|---|---|---|---|---|---|---|
`, 100*r.Config.BadNodes)
	for _, run := range r.Bad {
		f := run.Faults()
		most := 0
		run.good(1, math.MaxInt, func(j *sim.JobResult) { most = max(most, j.Failures) })
		t := run.GoodJCT(1, math.MaxInt)
		fmt.Fprintf(b, "| %s | %d | %s | %d | %d | %.0f | %d (%d) | %.0f | %.2f, %.1f |\n", run.Name,
			f.NodeFailures, run.against(r.Bad[0], func(f *sim.FaultSummary) float64 { return float64(f.NodeFailures) }), most, f.Resubmitted, f.Wasted/3600, f.Quarantines, f.Wrong, f.NodeHours, t.Mean/3600, t.P95/3600)
	}
	fmt.Fprint(b, `
Avoiding a node protects the job that failed, not the next one: a bad node always has free
GPUs. Only quarantine keeps other jobs off it. It starts late on nodes with few jobs, because
it needs failures of three jobs of two users. A quarantined node counts as good if it was not
bad in the six hours before and had no ECC error, which also occur in the study.
`)
}

func (r *FailuresReport) printTimes(b *strings.Builder) {
	_, gangs, _ := (&FailuresReport{Work: r.Work[:1]}).Failing()
	fmt.Fprintf(b, `
### Length of screening

Adaptive retries and screening, by length of screening (one seed, %d failing gangs):

| screening | screenings | trusted | jobs caught | GPU-h wasted | GPU-h of screening | minutes until the gang runs, 2-4 GPUs: mean, median, p95 | 5-8 | JCT of good gangs in hours: mean, median |
|---|---|---|---|---|---|---|---|---|
`, gangs)
	for _, run := range r.Times {
		f := run.Faults()
		few, some, jct := run.GangWait(2, 4), run.GangWait(5, 8), run.GoodJCT(2, math.MaxInt)
		fmt.Fprintf(b, "| %s | %d | %d | %s | %.0f | %.0f | %.0f, %.1f, %.0f | %.0f, %.1f, %.0f | %.2f, %.2f |\n", run.Name, f.Screenings, f.Trusted,
			share(f.CaughtJobs, gangs), f.Wasted/3600, f.ScreenGPUs/3600, few.Mean/60, few.P50/60, few.P95/60, some.Mean/60, some.P50/60, some.P95/60, jct.Mean/3600, jct.P50/3600)
	}
}

func percent(part, all int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(all))
}
