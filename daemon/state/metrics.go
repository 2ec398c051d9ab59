// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Limits on the metrics that are kept.
const (
	maxCurve  = 500   // points of one series, unless there are many
	maxCurves = 8_000 // points of all series of one job
	// oldCurve is how many points of a series stay when those of all ended jobs are more
	// than maxOldPoints.
	oldCurve     = 50
	maxOldPoints = 300_000
)

// curve is a metric of a job in bounded memory. When it has too many points, each two
// become one, so that all of them stand for about the same number of values.
type curve struct {
	api.Series
	Each    int `json:"each,omitempty"` // reported points in each point; 0: 1
	Open    int `json:"open,omitempty"` // of those, in the last point so far
	Attempt int `json:"attempt,omitempty"`
}

// add adds a point that an attempt reported. What an earlier attempt said of the same
// steps is replaced: that work was lost.
func (c *curve) add(attempt int, p api.SeriesPoint, most int) {
	if attempt != c.Attempt {
		c.Attempt, c.Open = attempt, 0
		if i := slices.IndexFunc(c.Steps, func(step float64) bool { return step >= p.Step }); i >= 0 {
			c.Cut(i)
		}
	}
	c.Last = nil
	if n := c.Len(); n > 0 && c.Open > 0 && c.Open < c.Each {
		if p.Count == 1 {
			c.Last = &p.Value
		}
		c.Set(n-1, c.Point(n-1).Join(p))
		c.Open++
		return
	}
	c.Add(p)
	c.Open = 1
	c.thin(most)
}

// thin makes one point of each two until there are no more than most.
func (c *curve) thin(most int) {
	for c.Len() > most {
		n, each := c.Len(), max(1, c.Each)
		if n%2 == 0 {
			if last := c.Point(n - 1); last.Count == 1 && c.Last == nil {
				c.Last = &last.Value
			}
			c.Open += each
		}
		for i := 0; i < n; i += 2 {
			p := c.Point(i)
			if i+1 < n {
				p = p.Join(c.Point(i + 1))
			}
			c.Set(i/2, p)
		}
		c.Cut((n + 1) / 2)
		c.Each = 2 * each
	}
}

// clone returns a copy that shares no mutable data.
func (c *curve) clone() *curve {
	out := *c
	out.Steps, out.At, out.Values = slices.Clone(c.Steps), slices.Clone(c.At), slices.Clone(c.Values)
	out.Counts, out.Mins, out.Maxs = slices.Clone(c.Counts), slices.Clone(c.Mins), slices.Clone(c.Maxs)
	return &out
}

// metrics are those of a job.
type metrics struct {
	Curves []*curve `json:"curves"`
	Full   bool     `json:"full,omitempty"` // it has reported more than are kept
}

// clone returns a copy that shares no mutable data.
func (m *metrics) clone() *metrics {
	out := &metrics{Full: m.Full, Curves: make([]*curve, len(m.Curves))}
	for i, c := range m.Curves {
		out.Curves[i] = c.clone()
	}
	return out
}

func (m *metrics) points() int {
	if m == nil {
		return 0
	}
	n := 0
	for _, c := range m.Curves {
		n += c.Len()
	}
	return n
}

// add adds a series that an attempt reported.
func (m *metrics) add(attempt int, s *api.Series) {
	i := slices.IndexFunc(m.Curves, func(c *curve) bool { return c.Name == s.Name })
	if i < 0 {
		if len(m.Curves) == api.MaxSeries {
			m.Full = true
			return
		}
		i = len(m.Curves)
		m.Curves = append(m.Curves, &curve{Series: api.Series{Name: s.Name}})
	}
	c, most := m.Curves[i], min(maxCurve, maxCurves/len(m.Curves))
	for k := range s.Len() {
		c.add(attempt, s.Point(k), most)
	}
	if s.Last != nil {
		c.Last = s.Last
	}
}

// measuredSeries keeps what a report says of a job's metrics. Agents of version 0.1 say
// it in the point alone.
func (m *memory) measuredSeries(x *entry, r *api.Record) {
	series := r.Series
	if len(series) == 0 && r.Point != nil {
		series = ofPoint(r.Point)
	}
	if len(series) == 0 {
		return
	}
	all := m.Metrics[x.Job.ID]
	if all == nil {
		all = &metrics{}
		m.Metrics[x.Job.ID] = all
	}
	attempt := x.Job.Starts
	if len(x.Open) > 0 {
		attempt = x.Open[0] // only the oldest that is open may report
	}
	for i := range series {
		all.add(attempt, &series[i])
	}
}

// ofPoint returns the series of a point.
func ofPoint(p *api.Point) []api.Series {
	var out []api.Series
	one := func(name string, value float64) {
		out = append(out, api.Series{Name: name, Steps: []float64{p.Done}, At: []float64{unix(p.At)}, Values: []float64{value}})
	}
	if p.Loss != nil {
		one("loss", *p.Loss)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Metrics)) {
		if name != "" && (name != "loss" || p.Loss == nil) {
			one(name, p.Metrics[name])
		}
	}
	return out
}

// unix returns a time in seconds, to the millisecond.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// dated returns the series of a report with times that can be: not before the job and
// not after now, whatever the clock of the agent says.
func dated(series []api.Series, submitted, now time.Time) []api.Series {
	first, last := unix(submitted), unix(now)
	for i := range series {
		for k, at := range series[i].At {
			if at == 0 {
				at = last
			}
			series[i].At[k] = min(max(at, first), last)
		}
	}
	return series
}

// thinOld bounds the points of ended jobs: the oldest keep few, and if that does not do,
// none. Metrics of ended jobs are replaced, never changed in place: a snapshot may be
// reading them.
func (m *memory) thinOld() {
	if m.endedPoints <= maxOldPoints {
		return
	}
	const goal = maxOldPoints - maxOldPoints/8
	for _, most := range []int{oldCurve, 0} {
		for i := 0; i < len(m.Ended) && m.endedPoints > goal; i++ {
			id := m.Ended[i].Job.ID
			old := m.Metrics[id]
			had := old.points()
			switch {
			case had == 0 || had <= most*len(old.Curves):
				continue
			case most == 0:
				delete(m.Metrics, id)
			default:
				fewer := old.clone()
				for _, c := range fewer.Curves {
					c.thin(most)
				}
				m.Metrics[id] = fewer
			}
			m.endedPoints += m.Metrics[id].points() - had
		}
	}
}

// savedMetrics returns the metrics for a snapshot.
func (m *memory) savedMetrics() map[sched.JobID]*metrics {
	out := make(map[sched.JobID]*metrics, len(m.Metrics))
	for id, all := range m.Metrics {
		if x := m.jobs[id]; !x.Job.Phase.Ended() || len(x.Open) > 0 {
			all = all.clone()
		}
		out[id] = all
	}
	return out
}

// restoreMetrics takes over the metrics of a snapshot. One of an earlier version has
// only points.
func (m *memory) restoreMetrics() {
	if m.Metrics == nil {
		m.Metrics = map[sched.JobID]*metrics{}
		for id, x := range m.jobs {
			all := &metrics{}
			for i := range x.Points {
				for _, s := range ofPoint(&x.Points[i]) {
					all.add(0, &s)
				}
			}
			if all.points() > 0 {
				m.Metrics[id] = all
			}
		}
	}
	for _, x := range m.Ended {
		m.endedPoints += m.Metrics[x.Job.ID].points()
	}
}

// Metrics implements api.Jobs.
func (b *Store) Metrics(who api.Identity, id sched.JobID, names []string) (api.MetricList, error) {
	return durably(b, func() (api.MetricList, error) {
		out := api.MetricList{Metrics: []api.Series{}}
		x, err := b.mem.find(who, id)
		if err != nil {
			return out, err
		}
		all := b.mem.Metrics[x.Job.ID]
		if all == nil {
			return out, nil
		}
		out.Full = all.Full
		for _, c := range all.Curves {
			if len(names) == 0 || slices.Contains(names, c.Name) {
				out.Metrics = append(out.Metrics, c.clone().Series)
			}
		}
		slices.SortFunc(out.Metrics, func(a, c api.Series) int { return cmp.Compare(a.Name, c.Name) })
		return out, nil
	})
}
