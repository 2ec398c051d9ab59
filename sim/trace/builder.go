// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// builder collects the jobs of a file and the report about it.
type builder struct {
	o       Options
	wl      sim.Workload
	report  Report
	judge   *judge
	ids     map[sched.JobID]int // how often an id was asked for
	names   map[string]string   // one copy of every tenant, user and model name
	tenants map[sched.TenantID]bool
	dropped map[string]int
	notes   map[string]int
}

func newBuilder(o Options) *builder {
	return &builder{
		o:       o,
		wl:      sim.Workload{Name: baseName(o.Name)},
		judge:   newJudge(),
		ids:     map[sched.JobID]int{},
		names:   map[string]string{},
		tenants: map[sched.TenantID]bool{},
		dropped: map[string]int{},
		notes:   map[string]int{},
	}
}

// bad handles a malformed row: it returns the error to stop with, or records the row
// and returns nil.
func (b *builder) bad(row BadRow) error {
	if !b.o.SkipBad {
		return b.refuse(row)
	}
	row.Value = shorten(row.Value)
	b.report.Skipped++
	if len(b.report.Bad) < maxBad {
		b.report.Bad = append(b.report.Bad, row)
	}
	return nil
}

// refuse is the error for a row that cannot be skipped.
func (b *builder) refuse(row BadRow) error {
	row.Value = shorten(row.Value)
	return &RowError{File: b.o.Name, BadRow: row}
}

// shorten copies a value for a message; it may be part of a long line.
func shorten(value string) string {
	const longest = 80
	value = strings.ToValidUTF8(value, "\uFFFD")
	if len(value) > longest {
		value = strings.ToValidUTF8(value[:longest], "") + "..."
	}
	return strings.Clone(value)
}

func (b *builder) drop(reason string) { b.dropped[reason]++ }

func (b *builder) note(what string) { b.notes[what]++ }

// name returns a copy of a name that does not keep its line in memory.
func (b *builder) name(s string) string {
	if s == "" {
		return ""
	}
	if have, ok := b.names[s]; ok {
		return have
	}
	clean := strings.ToValidUTF8(strings.Clone(s), "\uFFFD")
	b.names[strings.Clone(s)] = clean
	return clean
}

// add adds a job of a foreign trace. It numbers repeated ids, copies names out of the
// line, and sets what all trace jobs have in common.
func (b *builder) add(w sim.Work, line int) error {
	if err := b.judge.check(&w); err != nil {
		return b.bad(BadRow{Line: line, Column: 1, Value: string(w.ID), Text: err.Error()})
	}
	w.ID = b.unique(sched.JobID(strings.ToValidUTF8(strings.Clone(string(w.ID)), "\uFFFD")))
	w.App = sched.AppID(b.name(string(w.App)))
	w.Tenant = sched.TenantID(b.name(string(w.Tenant)))
	w.User = b.name(w.User)
	w.Model = b.name(w.Model)
	w.Submitted = w.Submitted.UTC()
	w.Shareable = true
	if w.RunTime > 0 && w.Work == 0 {
		w.Work = w.RunTime.D().Seconds()
	}
	if w.Tenant != "" {
		b.tenants[w.Tenant] = true
	}
	return b.keep(w)
}

// keep appends a job that is ready.
func (b *builder) keep(w sim.Work) error {
	b.wl.Work = append(b.wl.Work, w)
	if b.o.MaxJobs > 0 && len(b.wl.Work) >= b.o.MaxJobs {
		b.report.Truncated = true
		return errEnough
	}
	return nil
}

// unique returns the id, with "-2", "-3", ... appended if it was used before.
func (b *builder) unique(id sched.JobID) sched.JobID {
	for {
		b.ids[id]++
		n := b.ids[id]
		if n == 1 {
			return id
		}
		id = sched.JobID(fmt.Sprintf("%s-%d", id, n))
	}
}

// finish puts the jobs in order of submission.
func (b *builder) finish() *sim.Workload {
	b.wl.Work = bySubmission(b.wl.Work)
	work := b.wl.Work
	if len(work) > 0 && (b.wl.Start.IsZero() || b.wl.Start.After(work[0].Submitted)) {
		b.wl.Start = work[0].Submitted
	}
	if b.wl.Start.IsZero() {
		b.wl.Start = Epoch
	}
	for _, id := range slices.Sorted(maps.Keys(b.tenants)) {
		b.wl.Tenants = append(b.wl.Tenants, sched.Tenant{ID: id})
	}
	return &b.wl
}

// bySubmission sorts jobs by submission; jobs of the same time keep their order. It
// sorts indexes, because a job is large.
func bySubmission(work []sim.Work) []sim.Work {
	order := make([]int, len(work))
	sorted := true
	for i := range order {
		order[i] = i
		sorted = sorted && (i == 0 || !work[i].Submitted.Before(work[i-1].Submitted))
	}
	if sorted {
		return work
	}
	slices.SortFunc(order, func(i, k int) int {
		return cmp.Or(work[i].Submitted.Compare(work[k].Submitted), cmp.Compare(i, k))
	})
	out := make([]sim.Work, len(work))
	for to, from := range order {
		out[to] = work[from]
	}
	return out
}

func (b *builder) finishReport() *Report {
	b.report.Jobs = len(b.wl.Work)
	b.report.Dropped = sortCounts(b.dropped)
	b.report.Notes = sortCounts(b.notes)
	return &b.report
}

// judge checks jobs by the core's own rules: a State without nodes accepts every job
// that some cluster would accept, and forgets it when it ends.
type judge struct{ state *sched.State }

func newJudge() *judge {
	empty, err := sched.NewCluster(nil)
	if err != nil {
		panic(fmt.Sprintf("trace: cluster without nodes refused: %v", err))
	}
	return &judge{state: sched.NewState(empty)}
}

// Jobs outside these years are an error in the file, and cannot be written as RFC
// 3339 in every zone.
const firstYear, lastYear = 1970, 9000

func (j *judge) check(w *sim.Work) error {
	submit := sched.Event{Kind: sched.JobSubmitted, At: w.Submitted, Spec: &w.Spec}
	if err := j.state.Apply(submit); err != nil {
		return errors.Unwrap(err)
	}
	end := sched.Event{Kind: sched.JobEnded, At: w.Submitted, Job: w.ID, Phase: sched.Finished}
	if err := j.state.Apply(end); err != nil {
		return errors.Unwrap(err)
	}
	return checkTruth(w)
}

// checkTenant checks a tenant by the core's rules.
func (j *judge) checkTenant(t sched.Tenant) error {
	if err := j.state.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &t}); err != nil {
		return errors.Unwrap(err)
	}
	return nil
}

// checkTruth checks the fields that the core never sees.
func checkTruth(w *sim.Work) error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("job %s: %s = %v; want %s", w.ID, field, value, want)
	}
	year := w.Submitted.UTC().Year()
	switch {
	case year < firstYear || year > lastYear:
		return bad("submitted", w.Submitted.Format(time.RFC3339), fmt.Sprintf("a year from %d to %d", firstYear, lastYear))
	case w.RunTime < 0:
		return bad("run_time", w.RunTime, "0 (trains its model to the end) or more")
	case w.RunTime == 0 && w.Model == "":
		return bad("run_time", w.RunTime, "a run time, or a model to train to the end")
	case !(w.TrueUtil >= 0 && w.TrueUtil <= 1): // also refuses NaN
		return bad("true_util", w.TrueUtil, "0 (as gpu_util) to 1")
	case w.BatchSize < 0:
		return bad("batch_size", w.BatchSize, "0 (the model's own) or more")
	case w.Outcome == sched.Running:
		return bad("outcome", w.Outcome, "finished, killed or failed")
	case w.Outcome == sched.Failed && len(w.Failures) == 0:
		return bad("failures", 0, "at least one in a job whose outcome is failed")
	}
	for i, f := range w.Failures {
		if f.After < 0 {
			return bad(fmt.Sprintf("failures[%d].after", i), f.After, "0 or more")
		}
	}
	return w.CheckRegimes()
}
