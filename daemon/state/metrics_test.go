// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// reported returns a series of single values, a second apart.
func reported(name string, from int, now time.Time, values ...float64) api.Series {
	s := api.Series{Name: name}
	for i, v := range values {
		s.Add(api.SeriesPoint{Step: float64(from + i), At: unix(now) - float64(len(values)-1-i), Value: v, Min: v, Max: v, Count: 1})
	}
	return s
}

func (d *desk) metric(id sched.JobID, name string) api.Series {
	d.t.Helper()
	list, err := d.Metrics(ann, id, []string{name})
	if err != nil || len(list.Metrics) != 1 {
		d.t.Fatalf("metric %s of %s: %+v, %v; want one", name, id, list, err)
	}
	return list.Metrics[0]
}

// TestMetrics: every value that was reported is there, in order and exact, and after a
// restart too; those of other attempts are replaced where their work was lost.
func TestMetrics(t *testing.T) {
	d := open(t)
	id := d.submit(ann, submission("x", 1))
	d.decide(wants{id: on(0)})
	d.clock.add(time.Minute)
	var want []float64
	for i := range 6 {
		d.clock.add(10 * time.Second)
		var ten []float64
		for k := range 10 {
			ten = append(ten, 1/float64(10*i+k+1))
		}
		want = append(want, ten...)
		r := api.AgentReport{Done: float64(10 * (i + 1)), Series: []api.Series{reported("loss", 10*i+1, d.clock.Now(), ten...), reported("accuracy", 10*i+1, d.clock.Now(), float64(i))}}
		d.report(id, 1, r)
	}
	loss := d.metric(id, "loss")
	if diff := cmp.Diff(want, loss.Values); diff != "" || loss.Counts != nil || loss.Last != nil {
		t.Errorf("losses (-want +got):\n%s%+v", diff, loss)
	}
	if loss.Steps[59] != 60 || loss.At[59] != unix(d.clock.Now()) {
		t.Errorf("the last is at step %g, time %g; want 60 and now", loss.Steps[59], loss.At[59])
	}
	if list, err := d.Metrics(ann, id, nil); err != nil || len(list.Metrics) != 2 || list.Metrics[0].Name != "accuracy" || list.Full {
		t.Errorf("%+v, %v; want accuracy and loss", list, err)
	}
	d.wantDurable()
	// What a stopped attempt says in its last report counts too.
	d.decide(wants{})
	d.report(id, 1, api.AgentReport{Done: 61, Series: []api.Series{reported("loss", 61, d.clock.Now(), 0.5)}})
	if got := d.metric(id, "loss"); got.Len() != 61 {
		t.Errorf("%d values after the farewell; want 61", got.Len())
	}
	d.exited(api.Exit{AttemptID: api.AttemptID{Job: id, Number: 1}, Code: api.YieldCode, Yielded: true, Noticed: true})
	d.decide(wants{id: on(0)})
	d.report(id, 2, api.AgentReport{Done: 31, Series: []api.Series{reported("loss", 31, d.clock.Now(), 7)}})
	if got := d.metric(id, "loss"); got.Len() != 31 || got.Values[30] != 7 || got.Steps[29] != 30 {
		t.Errorf("%d values, the last %g, after the work since step 31 was lost; want 31 and 7", got.Len(), got.Values[got.Len()-1])
	}
	d.wantDurable()
}

// TestMetricsOfOldAgents: what an agent of version 0.1 says in its points is a metric.
func TestMetricsOfOldAgents(t *testing.T) {
	d := open(t)
	id := d.submit(ann, submission("x", 1))
	d.decide(wants{id: on(0)})
	for i := range 3 {
		d.clock.add(time.Second)
		loss := float64(i)
		d.report(id, 1, api.AgentReport{Done: float64(i), Point: &api.Point{Loss: &loss, Metrics: map[string]float64{"f1": 2 * loss}}})
	}
	if got := d.metric(id, "f1"); !slices.Equal(got.Values, []float64{0, 2, 4}) || !slices.Equal(got.Steps, []float64{0, 1, 2}) {
		t.Errorf("%+v; want the values of the three points", got)
	}
	// So it is with a snapshot that has only points.
	s := d.mem.save()
	s.Metrics = nil
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	m, err := restore(text, 10, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if n := m.Metrics[id].points(); n != 6 {
		t.Errorf("%d points from an old snapshot; want 6", n)
	}
}

// TestLinks: the runs of a job in other tools are shown, and recorded when they change.
func TestLinks(t *testing.T) {
	d := open(t)
	id := d.submit(ann, submission("x", 1))
	d.decide(wants{id: on(0)})
	run := []api.Link{{Name: "W&B", URL: "https://wandb.ai/lab/x/runs/1"}}
	for range 2 {
		d.clock.add(time.Second)
		d.report(id, 1, api.AgentReport{Done: 1, Links: run})
	}
	d.report(id, 1, api.AgentReport{Done: 2}) // says nothing new
	if got := d.job(id).Links; !slices.Equal(got, run) {
		t.Errorf("links %+v; want %+v", got, run)
	}
	recorded := 0
	for _, payload := range d.tape.records {
		var r api.Record
		if err := json.Unmarshal(payload, &r); err != nil {
			t.Fatal(err)
		}
		recorded += len(r.Links)
	}
	if recorded != 1 {
		t.Errorf("%d links in the journal; want one", recorded)
	}
	d.wantDurable()
	for _, bad := range []string{"", "javascript:alert(1)", "https://", "https://a b", "https://user:pw@host/", "http://x/" + strings.Repeat("a", 500)} {
		r := api.AgentReport{Links: []api.Link{{Name: "x", URL: bad}}}
		if err := r.Validate(); api.CodeOf(err) != api.Invalid {
			t.Errorf("%.40q: %v; want that it is invalid", bad, err)
		}
	}
}

// TestLongMetric: however long a training is, a metric keeps 250 to 500 points, which
// stand for all of its values.
func TestLongMetric(t *testing.T) {
	var m metrics
	const values = 100_000
	sum := 0.0
	for i := range values {
		v := math.Sin(float64(i))
		sum += v
		m.add(1, &api.Series{Name: "x", Steps: []float64{float64(i)}, At: []float64{float64(i)}, Values: []float64{v}})
		if n := m.points(); n > maxCurve || i >= maxCurve && n < maxCurve/2 || i < maxCurve && n != i+1 {
			t.Fatalf("%d points after %d values", n, i+1)
		}
	}
	c, count, mean := m.Curves[0], 0, 0.0
	for i := range c.Len() {
		p := c.Point(i)
		count += p.Count
		mean += p.Value * float64(p.Count)
		if i < c.Len()-1 && p.Count != c.Each || !(p.Min <= p.Value && p.Value <= p.Max) {
			t.Errorf("point %d of %d is %+v; want %d values", i, c.Len(), p, c.Each)
		}
	}
	if count != values || math.Abs(mean-sum) > 1e-6 {
		t.Errorf("%d values with the sum %g; want %d and %g", count, mean, values, sum)
	}
	if last := c.Len() - 1; c.Steps[last] != values-1 || c.Last == nil || *c.Last != math.Sin(values-1) {
		t.Errorf("ends at step %g with %v; want %d with the last value", c.Steps[last], c.Last, values-1)
	}
}

// TestMetricBounds: a job cannot exhaust the memory by names or points, nor can many
// ended jobs.
func TestMetricBounds(t *testing.T) {
	var m metrics
	for i := range 100 {
		for k := range 600 {
			m.add(1, &api.Series{Name: fmt.Sprint("m", i), Steps: []float64{float64(k)}, At: []float64{0}, Values: []float64{1}})
		}
	}
	if len(m.Curves) != api.MaxSeries || !m.Full {
		t.Errorf("%d curves, full %v; want %d and true", len(m.Curves), m.Full, api.MaxSeries)
	}
	for i := range 64 { // those that came first are thinned when something is added
		m.add(1, &api.Series{Name: fmt.Sprint("m", i), Steps: []float64{1e6}, At: []float64{0}, Values: []float64{1}})
	}
	if n := m.points(); n > maxCurves {
		t.Errorf("%d points; want at most %d", n, maxCurves)
	}
	var few metrics
	for k := range 500 {
		few.add(1, &api.Series{Name: "x", Steps: []float64{float64(k)}, At: []float64{0}, Values: []float64{1}})
	}
	for _, c := range []struct {
		metrics *metrics
		jobs    int
		least   int // points of the first job
	}{{&m, 200, 0}, {&few, 2000, 30}} {
		all := newMemory(10_000, 1<<40)
		for i := range c.jobs {
			id := sched.JobID(fmt.Sprint("j-", i))
			all.Metrics[id] = c.metrics.clone()
			all.Ended = append(all.Ended, &entry{Job: &sched.Job{Spec: sched.Spec{ID: id}}})
			all.endedPoints += c.metrics.points()
			all.thinOld()
		}
		if first := all.Metrics["j-0"].points(); all.endedPoints > maxOldPoints || first < c.least || first >= c.metrics.points() {
			t.Errorf("%d points of ended jobs, %d of the first; want at most %d, and at least %d of the first", all.endedPoints, first, maxOldPoints, c.least)
		}
	}
}

// TestSeriesChecked: a report with series that make no sense is refused with the reason.
func TestSeriesChecked(t *testing.T) {
	one := []float64{1}
	for name, s := range map[string]api.Series{
		"no name":           {Steps: one, At: one, Values: one},
		"different lengths": {Name: "x", Steps: one, At: one, Values: []float64{1, 2}},
		"half of the rest":  {Name: "x", Steps: one, At: one, Values: one, Counts: []int{2}},
		"no number":         {Name: "x", Steps: one, At: one, Values: []float64{math.NaN()}},
		"not finite":        {Name: "x", Steps: one, At: one, Values: []float64{math.Inf(1)}},
		"negative step":     {Name: "x", Steps: []float64{-1}, At: one, Values: one},
		"outside":           {Name: "x", Steps: one, At: one, Values: one, Counts: []int{2}, Mins: []float64{2}, Maxs: []float64{3}},
		"empty point":       {Name: "x", Steps: one, At: one, Values: one, Counts: []int{0}, Mins: one, Maxs: one},
	} {
		r := api.AgentReport{Series: []api.Series{s}}
		if err := r.Validate(); api.CodeOf(err) != api.Invalid {
			t.Errorf("%s: %v; want that it is invalid", name, err)
		}
	}
}
