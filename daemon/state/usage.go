// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// keepDays is for how many days it is kept what was used.
const keepDays = 400

const day = 24 * time.Hour

// dayUse is what was used on one day, in seconds (see api.UsageRow).
type dayUse struct {
	Day      int64   `json:"day"` // since 1970, UTC
	GPUs     float64 `json:"gpus,omitempty"`
	Lost     float64 `json:"lost,omitempty"`
	Measured float64 `json:"measured,omitempty"`
	Idle     float64 `json:"idle,omitempty"`
	Waited   float64 `json:"waited,omitempty"`
	Ended    int     `json:"ended,omitempty"`
	Failed   int     `json:"failed,omitempty"`
}

// tally is what a job used, or the jobs of a user that are no longer kept, by day, oldest
// first.
type tally []dayUse

func dayOf(t time.Time) int64 { return t.Unix() / int64(day/time.Second) }

// on returns the entry of a day.
func (t *tally) on(d int64) *dayUse {
	i, found := slices.BinarySearchFunc(*t, d, func(u dayUse, d int64) int { return cmp.Compare(u.Day, d) })
	if !found {
		*t = slices.Insert(*t, i, dayUse{Day: d})
	}
	return &(*t)[i]
}

// spread adds amounts that grew evenly from one time to another.
func (t *tally) spread(from, to time.Time, gpus, waited float64) {
	whole := to.Sub(from).Seconds()
	if whole <= 0 {
		u := t.on(dayOf(to))
		u.GPUs += gpus
		u.Waited += waited
		return
	}
	for d := max(dayOf(from), dayOf(to)-keepDays); d <= dayOf(to); d++ {
		begin, end := time.Unix(d*86400, 0), time.Unix((d+1)*86400, 0)
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if part := end.Sub(begin).Seconds() / whole; part > 0 {
			u := t.on(d)
			u.GPUs += part * gpus
			u.Waited += part * waited
		}
	}
}

// measure says how busy the GPUs were in the last gpus seconds that were used.
func (t tally) measure(gpus, util float64) {
	for i := len(t) - 1; i >= 0 && gpus > 0; i-- {
		u := &t[i]
		part := max(0, min(gpus, u.GPUs-u.Measured))
		u.Measured += part
		u.Idle += part * max(0, 1-util)
		gpus -= part
	}
}

func (t *tally) add(u dayUse) {
	o := t.on(u.Day)
	o.GPUs += u.GPUs
	o.Lost += u.Lost
	o.Measured += u.Measured
	o.Idle += u.Idle
	o.Waited += u.Waited
	o.Ended += u.Ended
	o.Failed += u.Failed
}

// counted is up to where the time of a job has been added to its tally.
type counted struct {
	At     time.Time `json:"at,omitzero"`
	GPUs   float64   `json:"gpus,omitempty"`
	Waited float64   `json:"waited,omitempty"`
	// Attempt is what GPUs was when the running attempt began.
	Attempt float64 `json:"attempt,omitempty"`
}

// count adds the time of a job until now to its tally. It is called before every change
// of the job: between two of them it uses as much at any time.
func (x *entry) count(j *sched.Job, now time.Time) {
	c := &x.Counted
	if c.At.IsZero() {
		c.At = j.Submitted
	}
	gpus, waited := j.AttainedBy(now), j.WaitedBy(now).Seconds()
	more := waited - c.Waited
	if j.Paused {
		more = 0
	}
	if gpus > c.GPUs || more > 0 {
		x.Spent.spread(c.At, now, max(0, gpus-c.GPUs), max(0, more))
	}
	c.At, c.GPUs, c.Waited = now, gpus, waited
}

// countExit adds how busy the GPUs of an attempt were.
func (x *entry) countExit(r *api.Record) {
	if !x.Job.Phase.Ended() {
		x.count(x.Job, r.At)
	}
	if u := r.Exit.Use; u != nil && u.Samples > 0 {
		x.Spent.measure(x.Counted.GPUs-x.Counted.Attempt, u.Util)
	}
}

// spent returns the tally of a job until now, with the work that its ledger says was
// lost.
func (x *entry) spent(now time.Time) tally {
	c := *x
	c.Spent = slices.Clone(x.Spent)
	if !x.Job.Phase.Ended() {
		c.count(x.Job, now)
	}
	if u := x.used(x.Job.Starts); u != nil && x.Job.Phase == sched.Running {
		c.Spent.measure(c.Counted.GPUs-c.Counted.Attempt, u.Util)
	}
	c.Spent.lose(x.Ledger)
	if x.Job.Phase.Ended() && !x.Ended.IsZero() {
		u := c.Spent.on(dayOf(x.Ended))
		u.Ended++
		if x.Job.Phase == sched.Failed {
			u.Failed++
		}
	}
	return c.Spent
}

// lose adds the lost work of entries of a ledger.
func (t *tally) lose(ledger []api.Entry) {
	for _, l := range ledger {
		if l.LostS > 0 {
			t.on(dayOf(l.At)).Lost += l.LostS
		}
	}
}

// bury adds what a job used that is forgotten to what its user used.
func (m *memory) bury(x *entry, now time.Time) {
	key := string(x.Job.Tenant) + "\x00" + x.Job.User
	past := m.Past[key]
	for _, u := range x.spent(now) {
		past.add(u)
	}
	m.Past[key] = past
	keys := []string{key}
	oldest := dayOf(now) - keepDays
	if m.oldest < oldest { // once a day: those who have left bury nothing more
		m.oldest = oldest
		keys = slices.Collect(maps.Keys(m.Past))
	}
	for _, key := range keys {
		if m.Past[key] = m.Past[key].since(oldest); len(m.Past[key]) == 0 {
			delete(m.Past, key)
		}
	}
}

// since drops the days before one.
func (t tally) since(oldest int64) tally {
	return slices.DeleteFunc(t, func(u dayUse) bool { return u.Day < oldest })
}

// restoreUsage fills in what a snapshot of an earlier version lacks: the time of its jobs,
// as if they had used it evenly since they were submitted.
func (m *memory) restoreUsage() {
	if m.Past != nil {
		return
	}
	m.Past = map[string]tally{}
	for _, x := range m.jobs {
		end := m.At
		if x.Job.Phase.Ended() {
			end = x.Ended
		}
		x.count(x.Job, end)
		x.Counted.Attempt = x.Counted.GPUs
	}
}

// savedUsage returns the tallies of forgotten jobs for a snapshot.
func (m *memory) savedUsage() map[string]tally {
	out := make(map[string]tally, len(m.Past))
	for k, t := range m.Past {
		out[k] = slices.Clone(t)
	}
	return out
}

// Usage implements api.Jobs.
func (b *Store) Usage(who api.Identity, q api.UsageQuery) (api.Usage, error) {
	q.By = cmp.Or(q.By, "user")
	if !slices.Contains(api.UsageKinds(), q.By) {
		return api.Usage{}, api.Errorf(api.Invalid, "is %.40q", q.By).On("by").Try("use " + strings.Join(api.UsageKinds(), ", "))
	}
	if q.RollUp && q.By != "tenant" {
		return api.Usage{}, api.Errorf(api.Invalid, "goes with tenants only, not by %s", q.By).On("roll_up").Try("use it by tenant")
	}
	return durably(b, func() (api.Usage, error) {
		now := b.now()
		out := api.Usage{By: q.By, To: now, Price: b.Price}
		first, last := int64(0), dayOf(now)
		if !q.Since.IsZero() {
			first = dayOf(q.Since)
		}
		if !q.Until.IsZero() && dayOf(q.Until) < last {
			last = dayOf(q.Until)
			out.To = time.Unix((last+1)*86400, 0).UTC()
		}
		out.From = time.Unix((last+1)*86400, 0).UTC()
		var rows []api.UsageRow
		take := func(head api.UsageRow, t tally) {
			for _, u := range t {
				if u.Day < first || u.Day > last {
					continue
				}
				begin := time.Unix(u.Day*86400, 0).UTC()
				if begin.Before(out.From) {
					out.From = begin
				}
				r := head
				r.Day = begin.Format(time.DateOnly)
				r.Add(api.UsageRow{Ended: u.Ended, Failed: u.Failed, GPUs: u.GPUs, Lost: u.Lost, Measured: u.Measured, Idle: u.Idle, Waited: u.Waited})
				rows = append(rows, r)
			}
		}
		for key, t := range b.mem.Past {
			tenant, user, _ := strings.Cut(key, "\x00")
			if who.Sees(sched.TenantID(tenant)) {
				take(api.UsageRow{Tenant: sched.TenantID(tenant), User: user}, t)
			}
		}
		for _, x := range b.mem.jobs {
			if j := x.Job; who.Sees(j.Tenant) {
				take(api.UsageRow{Tenant: j.Tenant, User: j.User, Job: j.ID, Name: x.Task.Name}, x.spent(now))
			}
		}
		// The order of a map must not show in sums of floating-point numbers.
		slices.SortFunc(rows, func(a, c api.UsageRow) int {
			return cmp.Or(cmp.Compare(a.Day, c.Day), cmp.Compare(a.Tenant, c.Tenant), cmp.Compare(a.User, c.User), cmp.Compare(a.Job, c.Job))
		})
		out.Rows, out.Total = api.SumUsage(rows, q.By)
		if q.RollUp {
			out.Rows, _ = api.SumUsage(b.rollUp(rows), q.By)
			out.Rows = slices.DeleteFunc(out.Rows, func(r api.UsageRow) bool { return !who.Sees(r.Tenant) })
		}
		return out, nil
	})
}

// rollUp adds rows for the tenants above that of each.
func (b *Store) rollUp(rows []api.UsageRow) []api.UsageRow {
	s := b.mem.state.Peek()
	if !s.Nested() {
		return rows
	}
	index := make(map[sched.TenantID]int, len(s.Tenants))
	for i, t := range s.Tenants {
		index[t.ID] = i
	}
	out := slices.Clone(rows)
	for _, r := range rows {
		t, ok := index[r.Tenant]
		if !ok {
			continue
		}
		for t = s.Parent(t); t >= 0; t = s.Parent(t) {
			r.Tenant = s.Tenants[t].ID
			out = append(out, r)
		}
	}
	return out
}
