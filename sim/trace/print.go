// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// Print writes the statistics as tables, with the Philly paper's figures
// beside them in columns marked "paper".
func (s *Statistics) Print(w io.Writer) error {
	p := &printer{w: bufio.NewWriter(w)}
	s.printHead(p)
	s.printSizes(p)
	s.printDurations(p)
	s.printArrivals(p)
	s.printDemand(p)
	s.printTenants(p)
	s.printModels(p)
	s.printOutcomes(p)
	s.printUtil(p)
	s.printFailures(p)
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("print statistics: %w", err)
	}
	return nil
}

func (s *Statistics) printHead(p *printer) {
	p.line("%s", s.Name)
	if s.Source != "" {
		p.line("%s", s.Source)
	}
	p.line("%s jobs in %s apps by %s users, submitted within %s, %s GPU hours",
		grouped(s.Jobs), grouped(s.Apps), grouped(s.Users), span(s.Span), grouped(int(math.Round(s.GPUHours))))
	if s.Unknown > 0 {
		p.line("%s jobs train their model to the end; their run time is not known here", grouped(s.Unknown))
	}
}

func (s *Statistics) printSizes(p *printer) {
	t := newGrid("GPUs", "jobs", "share", "", "GPU time", "")
	for _, z := range s.Sizes {
		t.row(z.Size, grouped(z.Jobs), percent(z.Share), bar(z.Share), percentOr(z.GPUTimeShare), bar(z.GPUTimeShare))
	}
	p.section("Size", t)
}

func (s *Statistics) printDurations(p *printer) {
	if s.Unknown == s.Jobs {
		return
	}
	t := newGrid("GPUs", "p10", "p50", "p90", "p95", "p99", "mean", "10s to 60d")
	for _, z := range s.Sizes {
		if len(z.CDF) == 0 {
			continue
		}
		t.row(z.Size, span(z.P10), span(z.P50), span(z.P90), span(z.P95), span(z.P99), span(z.Mean), spark(durationHistogram(z.CDF)))
	}
	p.section("Run time, all attempts", t)
}

// durationHistogram is how the durations are spread over 20 steps of equal
// ratio from 10 s to 60 days.
func durationHistogram(points []CDFPoint) []float64 {
	const steps = 20
	from, to := math.Log(10), math.Log(60*24*3600)
	out := make([]float64, steps)
	var before float64
	for _, c := range points {
		k := int((math.Log(max(c.X, 1e-9)) - from) / (to - from) * steps)
		out[min(max(0, k), steps-1)] += c.P - before
		before = c.P
	}
	return out
}

func (s *Statistics) printArrivals(p *printer) {
	a := &s.Arrivals
	t := newGrid("gap", "mean", "p50", "p90", "cv", "by hour of day", "Mon to Sun")
	t.row("", span(a.MeanGap), span(a.P50Gap), span(a.P90Gap), fmt.Sprintf("%.2f", a.CV), spark(a.ByHour[:]), spark(a.ByDay[:]))
	p.section("Submissions", t)
}

func (s *Statistics) printDemand(p *printer) {
	const width = 72
	n := len(s.Demand.Points)
	if n == 0 {
		return
	}
	var jobs, gpus []float64
	cols := min(n, width)
	for i := range cols {
		var j, g float64
		from, to := i*n/cols, (i+1)*n/cols
		for _, d := range s.Demand.Points[from:to] {
			j += float64(d.Submitted)
			g += d.GPUs
		}
		jobs, gpus = append(jobs, j/float64(to-from)), append(gpus, g/float64(to-from))
	}
	t := newGrid("demand over time", "")
	t.row("GPUs submitted", spark(jobs))
	if s.Unknown < s.Jobs {
		t.row("GPUs needed at once", spark(gpus))
	}
	p.section(fmt.Sprintf("Demand, steps of %s", span(s.Demand.Step)), t)
	if s.Unknown < s.Jobs {
		p.line("if no job ever waited: %s GPUs in the mean, %s at the peak",
			grouped(int(math.Round(s.Demand.Mean))), grouped(int(math.Round(s.Demand.Peak))))
	}
}

func (s *Statistics) printTenants(p *printer) {
	if len(s.Tenants) == 0 {
		return
	}
	t := newGrid("tenant", "quota", "users", "jobs", "share", "GPU time", "")
	for _, x := range s.Tenants {
		t.row(string(x.ID), grouped(x.Quota), grouped(x.Users), grouped(x.Jobs), percent(x.Share), percent(x.GPUTimeShare), bar(x.GPUTimeShare))
	}
	p.section("Tenants", t)
}

func (s *Statistics) printModels(p *printer) {
	if len(s.Models) == 0 {
		return
	}
	t := newGrid("model", "jobs", "share", "")
	for _, m := range s.Models {
		t.row(m.Model, grouped(m.Jobs), percent(m.Share), bar(m.Share))
	}
	p.section("Models", t)
}

func (s *Statistics) printOutcomes(p *printer) {
	if s.Unknown == s.Jobs {
		return
	}
	t := newGrid("outcome", "jobs", "share", "paper", "GPU time", "paper")
	for i, o := range s.Outcomes {
		paper := paperOutcomes[i]
		t.row(paper.name, grouped(o.Jobs), percent(o.Share), percent(paper.jobs/100), percent(o.GPUTimeShare), percent(paper.gpuTime/100))
	}
	p.section("Outcomes (paper: Philly, table 6)", t)
}

func (s *Statistics) printUtil(p *printer) {
	if len(s.Util) == 0 {
		return
	}
	t := newGrid("GPUs", "passed", "paper", "killed", "paper", "unsuccessful", "paper", "all", "paper")
	for i, u := range s.Util {
		paper, size := paperUtilAll, "all"
		if u.GPUs > 0 {
			paper, size = paperUtils[i], fmt.Sprint(u.GPUs)
		}
		t.row(size, percentOr(u.Passed), percent(paper.passed/100), percentOr(u.Killed), percent(paper.killed/100),
			percentOr(u.Failed), percent(paper.failed/100), percentOr(u.All), percent(paper.total/100))
	}
	p.section("Utilisation of held GPUs (paper: Philly, table 3)", t)
}

func (s *Statistics) printFailures(p *printer) {
	f := &s.Failures
	if f.Trials == 0 {
		return
	}
	var paperTrials int
	for i := range reasons {
		paperTrials += reasons[i].trials
	}
	t := newGrid("reason", "trials", "paper", "jobs", "p50", "paper", "p90", "paper", "p95", "paper", "of time", "paper", "1 GPU", "2-4", ">4")
	for _, r := range f.Reasons {
		trials, p50, p90, p95, total := "", "", "", "", ""
		if x := reasonNamed(r.Reason); x != nil {
			trials = grouped(int(math.Round(float64(x.trials) / float64(paperTrials) * float64(f.Trials))))
			p50, p90, p95, total = minutes(x.p50), minutes(x.p90), minutes(x.p95), percent(x.total/100)
		}
		t.row(r.Reason, grouped(r.Trials), trials, grouped(r.Jobs), minutes(r.P50/60), p50, minutes(r.P90/60), p90,
			minutes(r.P95/60), p95, percent(r.Share), total, grouped(r.BySize[0]), grouped(r.BySize[1]), grouped(r.BySize[2]))
	}
	p.section("Failures, minutes to failure (paper: Philly, table 7; its trials scaled to the same sum)", t)
	p.line("%s failed attempts of %s jobs: %.2f for each job that fails (paper: %.1f)",
		grouped(f.Trials), grouped(f.Jobs), f.PerJob, paperFailuresPerJob)
}

func reasonNamed(name string) *reason {
	for i := range reasons {
		if reasons[i].name == name {
			return &reasons[i]
		}
	}
	return nil
}
