// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sim/trace"
)

// The paper's figures agree with each other; typing errors would show here.
func TestPaperFiguresAgreeWithEachOther(t *testing.T) {
	near := func(what string, got, want, tolerance float64) {
		t.Helper()
		if math.Abs(got-want) > tolerance {
			t.Errorf("%s = %g; want %g", what, got, want)
		}
	}
	var share, gpuShare float64
	for _, r := range paperReasons {
		share += r.share
		gpuShare += r.gpuShare
		if r.jobs > r.trials || r.p50 > r.p90 || r.p90 > r.p95 {
			t.Errorf("%s: %d jobs, %d trials, %g, %g, %g minutes; want no more jobs than trials, and ascending minutes", r.name, r.jobs, r.trials, r.p50, r.p90, r.p95)
		}
	}
	near("sum of table 7's shares of time", share, 100, 0.05)
	near("sum of table 7's shares of GPU time", gpuShare, 100, 0.05)

	byTrials := slices.Clone(paperReasons[:])
	slices.SortFunc(byTrials, func(a, b paperReason) int { return cmp.Compare(b.trials, a.trials) })
	var eight int
	for _, r := range byTrials[:8] {
		eight += r.trials
	}
	near("percent of trials of the eight most frequent reasons", 100*float64(eight)/float64(paperTrials()), 88.9, 0.1)

	var jobs, gpuTime float64
	for _, o := range paperOutcomes {
		jobs += o.jobs
		gpuTime += o.gpuTime
	}
	near("sum of table 6's shares of jobs", jobs, 100, 0.05)
	near("sum of table 6's shares of GPU time", gpuTime, 100, 0.05)
}

// Package trace prints the same figures of the paper; both copies must agree.
func TestPaperFiguresAgreeWithTrace(t *testing.T) {
	s := &trace.Statistics{Jobs: 1, Failures: trace.FailureStat{Trials: paperTrials(), Jobs: 1}}
	want := map[string][]float64{}
	for _, r := range paperReasons {
		s.Failures.Reasons = append(s.Failures.Reasons, trace.ReasonStat{Reason: r.name})
		want[r.name] = []float64{float64(r.trials), r.p50, r.p90, r.p95, r.share}
	}
	for _, o := range paperOutcomes {
		s.Outcomes = append(s.Outcomes, trace.OutcomeStat{Outcome: o.end})
		want[o.name] = []float64{o.jobs, o.gpuTime}
	}
	for _, u := range paperUtils {
		s.Util = append(s.Util, trace.UtilStat{GPUs: u.gpus})
		name := strconv.Itoa(u.gpus)
		if u.gpus == 0 {
			name = "all"
		}
		want[name] = []float64{u.passed, u.killed, u.failed, u.all}
	}
	var out bytes.Buffer
	if err := s.Print(&out); err != nil {
		t.Fatal(err)
	}
	for name, figures := range want {
		if !printed(out.String(), name, figures) {
			t.Errorf("package trace has no line of %q with all of %v:\n%s", name, figures, out.String())
		}
	}
}

// printed reports whether a line that begins with the name has all figures,
// as exactly as they are printed.
func printed(text, name string, figures []float64) bool {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+" ")
		if !ok {
			continue
		}
		var has []float64
		for word := range strings.FieldsSeq(rest) {
			if v, err := strconv.ParseFloat(strings.TrimSuffix(strings.ReplaceAll(word, ",", ""), "%"), 64); err == nil {
				has = append(has, v)
			}
		}
		missing := slices.ContainsFunc(figures, func(f float64) bool {
			return !slices.ContainsFunc(has, func(v float64) bool { return math.Abs(v-f) <= max(0.051, 0.005*f) })
		})
		if !missing {
			return true
		}
	}
	return false
}

func TestPaperReasonsAreThoseThatAreDrawn(t *testing.T) {
	for _, r := range statistics(t, trace.KindPhilly, 5000).Failures.Reasons {
		if paperFailing(r.Reason) == nil {
			t.Errorf("a drawn workload fails with %q, which the page does not find in the paper", r.Reason)
		}
	}
}
