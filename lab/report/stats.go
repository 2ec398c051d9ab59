// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"io"
	"math"

	"github.com/fairway-gpu/fairway/sim/trace"
)

// statsScripts are the files of web/ that make the page of a workload's
// statistics, in the order they run in.
var statsScripts = []string{"base.js", "chart.js", "lanes.js", "stats.js"}

// maxList bounds the tenants, the models and the reasons of failures in the
// page, most important first. The page says what it leaves out.
const maxList = 40

// WriteStats writes one HTML page with the statistics of a workload, next to those
// of the Philly paper where it has them.
func WriteStats(w io.Writer, s *trace.Statistics) error {
	if s == nil {
		return errors.New("write statistics: no statistics given")
	}
	title := "Fairway workload statistics"
	if s.Name != "" {
		title = clip(s.Name) + " – " + title
	}
	return writePage(w, title, newStatsPage(s), statsScripts)
}

// statsPage is the data of the page, as its script reads it. Times are seconds,
// shares fractions of 1; null: unknown.
type statsPage struct {
	Name     string         `json:"name"`
	Source   string         `json:"source"`
	Jobs     int            `json:"jobs"`
	Apps     int            `json:"apps"`
	Users    int            `json:"users"`
	Unknown  int            `json:"unknown"` // jobs without a run time
	Span     num            `json:"span"`
	GPUHours num            `json:"gpu_hours"`
	Sizes    []statsSize    `json:"sizes"`
	Arrivals statsArrivals  `json:"arrivals"`
	Demand   statsDemand    `json:"demand"`
	Tenants  statsTenants   `json:"tenants"`
	Models   statsModels    `json:"models"`
	Outcomes []statsOutcome `json:"outcomes"`
	Util     []statsUtil    `json:"util"`
	Failures statsFailures  `json:"failures"`
}

type statsSize struct {
	Size    string  `json:"size"`
	Jobs    int     `json:"jobs"`
	Share   num     `json:"share"`
	GPUTime num     `json:"gpu_time"`
	Mean    num     `json:"mean"`
	P10     num     `json:"p10"`
	P50     num     `json:"p50"`
	P90     num     `json:"p90"`
	P95     num     `json:"p95"`
	P99     num     `json:"p99"`
	X       nums    `json:"x"` // of the distribution of run times
	Y       nums    `json:"y"`
	Exact   [][]int `json:"exact"` // pairs of GPUs and jobs
}

type statsArrivals struct {
	MeanGap num  `json:"mean_gap"`
	P50Gap  num  `json:"p50_gap"`
	P90Gap  num  `json:"p90_gap"`
	CV      num  `json:"cv"`
	Hours   nums `json:"hours"`
	Days    nums `json:"days"`
}

// statsDemand has a value for each of its steps from the start on.
type statsDemand struct {
	Step      num  `json:"step"`
	Jobs      nums `json:"jobs"`
	Submitted nums `json:"submitted"` // GPUs of the submitted jobs
	GPUs      nums `json:"gpus"`
	Mean      num  `json:"mean"`
	Peak      num  `json:"peak"`
}

type statsTenants struct {
	Count int           `json:"count"` // List may hold only the first
	Quota num           `json:"quota"` // sum over all
	List  []statsTenant `json:"list"`
}

type statsTenant struct {
	Name    string `json:"name"`
	Quota   int    `json:"quota"`
	Jobs    int    `json:"jobs"`
	Users   int    `json:"users"`
	Share   num    `json:"share"`
	GPUTime num    `json:"gpu_time"`
}

type statsModels struct {
	Count int          `json:"count"`
	List  []statsModel `json:"list"`
}

type statsModel struct {
	Name  string `json:"name"`
	Jobs  int    `json:"jobs"`
	Share num    `json:"share"`
}

func newStatsPage(s *trace.Statistics) statsPage {
	k := knowledge{times: s.Jobs > s.Unknown}
	p := statsPage{
		Name: clip(s.Name), Source: clip(s.Source), Jobs: s.Jobs, Apps: s.Apps, Users: s.Users, Unknown: s.Unknown,
		Span: num(s.Span), GPUHours: k.timed(s.GPUHours),
		Sizes: []statsSize{}, Arrivals: newStatsArrivals(s), Demand: newStatsDemand(&s.Demand, k),
		Tenants:  statsTenants{Count: len(s.Tenants), List: []statsTenant{}},
		Models:   statsModels{Count: len(s.Models), List: []statsModel{}},
		Outcomes: newStatsOutcomes(s.Outcomes, k), Util: newStatsUtil(s.Util), Failures: newStatsFailures(&s.Failures),
	}
	for i := range s.Sizes {
		p.Sizes = append(p.Sizes, newStatsSize(&s.Sizes[i], k))
	}
	for i, t := range s.Tenants {
		p.Tenants.Quota += num(t.Quota)
		if i < maxList {
			p.Tenants.List = append(p.Tenants.List, statsTenant{
				Name: clip(string(t.ID)), Quota: t.Quota, Jobs: t.Jobs, Users: t.Users,
				Share: share(t.Share), GPUTime: k.timed(t.GPUTimeShare),
			})
		}
	}
	for _, m := range s.Models[:min(len(s.Models), maxList)] {
		p.Models.List = append(p.Models.List, statsModel{Name: clip(m.Model), Jobs: m.Jobs, Share: share(m.Share)})
	}
	return p
}

func newStatsSize(z *trace.SizeStat, k knowledge) statsSize {
	seconds := func(v float64) num {
		if len(z.CDF) == 0 {
			return num(math.NaN())
		}
		return num(round(v))
	}
	out := statsSize{
		Size: clip(z.Size), Jobs: z.Jobs, Share: share(z.Share), GPUTime: k.timed(z.GPUTimeShare),
		Mean: seconds(z.Mean), P10: seconds(z.P10), P50: seconds(z.P50), P90: seconds(z.P90), P95: seconds(z.P95), P99: seconds(z.P99),
		X: nums{}, Y: nums{}, Exact: [][]int{},
	}
	for _, c := range z.CDF {
		if finite(c.X) && finite(c.P) {
			out.X, out.Y = append(out.X, round(c.X)), append(out.Y, round(c.P))
		}
	}
	for _, e := range z.Exact[:min(len(z.Exact), maxList)] {
		out.Exact = append(out.Exact, []int{e.GPUs, e.Jobs})
	}
	return out
}

func newStatsArrivals(s *trace.Statistics) statsArrivals {
	a := &s.Arrivals
	gap := func(v float64) num {
		if s.Jobs < 2 {
			return num(math.NaN())
		}
		return num(round(v))
	}
	out := statsArrivals{MeanGap: gap(a.MeanGap), P50Gap: gap(a.P50Gap), P90Gap: gap(a.P90Gap), CV: gap(a.CV)}
	for _, v := range a.ByHour {
		out.Hours = append(out.Hours, round(v))
	}
	for _, v := range a.ByDay {
		out.Days = append(out.Days, round(v))
	}
	return out
}

func newStatsDemand(d *trace.DemandSeries, k knowledge) statsDemand {
	out := statsDemand{
		Step: num(d.Step), Jobs: nums{}, Submitted: nums{}, GPUs: nums{}, Mean: k.timed(d.Mean), Peak: k.timed(d.Peak),
	}
	for _, p := range d.Points {
		out.Jobs = append(out.Jobs, float64(p.Jobs))
		out.Submitted = append(out.Submitted, float64(p.Submitted))
		if k.times {
			out.GPUs = append(out.GPUs, round(p.GPUs))
		}
	}
	return out
}

// knowledge says which figures a workload has.
type knowledge struct{ times bool }

// timed is a figure that needs run times.
func (k knowledge) timed(v float64) num {
	if !k.times {
		return num(math.NaN())
	}
	return num(round(v))
}

func share(v float64) num { return num(round(v)) }

// percent is a figure of the paper as a fraction of 1.
func percent(v float64) num { return num(round(v / 100)) }
