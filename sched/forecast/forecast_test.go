// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// queue is a cluster of four GPUs on which one job runs and others wait.
func queue(t testing.TB, waiting int) *sched.Snapshot {
	t.Helper()
	c, err := sched.NewCluster([]sched.Node{{Name: "n", GPUs: 4}})
	if err != nil {
		t.Fatal(err)
	}
	st := sched.NewState(c)
	apply := func(e sched.Event) {
		t.Helper()
		e.At = noon
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for i := range waiting + 1 {
		apply(sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: sched.JobID(fmt.Sprintf("j%d", i)), GPUs: 4, Submitted: noon}})
	}
	apply(sched.Event{Kind: sched.JobStarted, Job: "j0", Placement: sched.Placement{{Milli: sched.WholeGPU, GPUs: sched.FirstGPUs(4)}}})
	return st.Frozen(noon)
}

func named(t testing.TB, spec string) sched.Policy {
	t.Helper()
	p, err := policy.Builtin().New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hours draws between one and two hours.
func hours(r *rand.Rand) forecast.Left {
	return func(*sched.Job) (time.Duration, bool) {
		return time.Hour + time.Duration(r.Float64()*float64(time.Hour)), true
	}
}

func TestStarts(t *testing.T) {
	s := queue(t, 3)
	got, err := forecast.Starts(s, forecast.Config{Policy: named(t, "fifo"), Future: hours})
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []sched.JobID{"j1", "j2", "j3"} {
		r, n := got[id], time.Duration(i+1)
		least, most := noon.Add(n*time.Hour), noon.Add(2*n*time.Hour)
		if r.Early.Before(least) || r.Late.After(most) || !r.Early.Before(r.Middle) || !r.Middle.Before(r.Late) {
			t.Errorf("%s starts at %s (%s to %s); want within %s and %s, in order", id, r.Middle, r.Early, r.Late, least, most)
		}
	}
	if one := got["j1"]; one.Late.Sub(one.Early) < 45*time.Minute || one.Middle.Sub(noon) < 75*time.Minute {
		t.Errorf("j1 starts at %s (%s to %s); want about 13:30, and most of the hour before 14:00", one.Middle, one.Early, one.Late)
	}
	if one, three := got["j1"].Error, got["j3"].Error; one < 0.1 || one > 0.25 || three < 0.02 || three >= one {
		t.Errorf("half of the starts of j1 are off by less than %.2f of the wait, of j3 than %.2f; want about 0.17, and less for the sum of three", one, three)
	}
	again, _ := forecast.Starts(s, forecast.Config{Policy: named(t, "fifo"), Future: hours})
	if !reflect.DeepEqual(got, again) {
		t.Error("the same snapshot and seed give another forecast")
	}
	if s.Jobs[0].Phase != sched.Running || s.Jobs[1].Phase != sched.Pending {
		t.Error("the forecast has changed the snapshot")
	}
}

// TestUnknown: what cannot be known is left out, not made up.
func TestUnknown(t *testing.T) {
	stuck := func(r *rand.Rand) forecast.Left {
		return func(j *sched.Job) (time.Duration, bool) { return time.Hour, j.ID != "j1" }
	}
	got, err := forecast.Starts(queue(t, 3), forecast.Config{Policy: named(t, "fifo"), Future: stuck})
	if err != nil || got["j1"].Middle.IsZero() || len(got) != 1 {
		t.Errorf("starts %v, %v; want that of j1 alone: nobody knows when it ends", got, err)
	}
	got, err = forecast.Starts(queue(t, 50), forecast.Config{Policy: named(t, "fifo"), Future: hours, Most: 51 * forecast.Samples * 10})
	if _, far := got["j50"]; err != nil || far || got["j5"].Late.IsZero() {
		t.Errorf("%d starts, %v; want those of the first jobs, and no forecast beyond the bound", len(got), err)
	}
	got, err = forecast.Starts(queue(t, 3), forecast.Config{Policy: named(t, "fifo"), Future: hours, Stop: func() bool { return true }})
	if !errors.Is(err, forecast.ErrStopped) || len(got) != 0 {
		t.Errorf("stopped at once: %v, %v; want no forecast, and that it was stopped", got, err)
	}
}

// TestArrivals: jobs that are submitted later delay those that wait, where the policy
// lets them.
func TestArrivals(t *testing.T) {
	var recent []sched.Spec
	for i := range 12 {
		recent = append(recent, sched.Spec{GPUs: 4, Priority: 1, Submitted: noon.Add(time.Duration(i-12) * 30 * time.Minute)})
	}
	c := forecast.Config{Policy: named(t, "fifo"), Future: hours, Most: 200_000}
	quiet, err := forecast.Starts(queue(t, 1), c)
	if err != nil {
		t.Fatal(err)
	}
	c.Arrive = forecast.Again(recent, noon)
	if busy, err := forecast.Starts(queue(t, 1), c); err != nil || len(busy) != 0 {
		t.Errorf("with a more urgent job each half hour it starts at %v, %v; want never", busy, err)
	}
	for i := range recent {
		recent[i].Priority = 0
	}
	if busy, err := forecast.Starts(queue(t, 1), c); err != nil || busy["j1"].Middle.Sub(quiet["j1"].Middle).Abs() > time.Second {
		t.Errorf("with later jobs that wait behind it: %v, %v; want %v as without", busy, err, quiet)
	}
	if forecast.Again(recent[:2], noon) != nil {
		t.Error("two jobs are enough to foresee others")
	}
}

// TestRestart: a job that is preempted loses time when it starts again.
func TestRestart(t *testing.T) {
	hour := func(*rand.Rand) forecast.Left {
		return func(*sched.Job) (time.Duration, bool) { return time.Hour, true }
	}
	c := forecast.Config{Policy: named(t, "fifo"), Future: hour, Restart: 10 * time.Minute}
	s := queue(t, 2)
	st := s.State()
	if err := st.Apply(sched.Event{At: noon, Kind: sched.JobStopped, Job: "j0"}); err != nil {
		t.Fatal(err)
	}
	got, err := forecast.Starts(st.Frozen(noon), c)
	if want := noon.Add(70 * time.Minute); err != nil || !got["j1"].Middle.Equal(want) {
		t.Errorf("behind a job that starts again: %v, %v; want %s", got["j1"], err, want)
	}
}

// patient starts the second job when the first has ended, or after four hours in its place. It
// asks to decide every minute.
type patient struct{}

func (patient) Schedule(s *sched.Snapshot) sched.Plan {
	p := sched.NewPlan(s)
	due := noon.Add(4 * time.Hour)
	p.WakeBy(s.Now, s.Now.Add(time.Minute))
	p.DueBy(s.Now, due)
	runs := 0
	if len(s.Jobs) == 2 {
		waits := 1
		if !s.Now.Before(due) {
			runs, waits = waits, runs
		}
		p.Why[waits] = sched.Reason{Code: sched.Full, Need: 4}
	}
	p.Want[runs] = sched.Placement{{Milli: sched.WholeGPU, GPUs: sched.FirstGPUs(4)}}
	return p
}

// TestClock: what a policy does by the clock is foreseen to the second, though the forecast
// decides less often than the policy asks; and what was learned about spreads does not narrow
// the range past it.
func TestClock(t *testing.T) {
	upTo := func(longest time.Duration) func(r *rand.Rand) forecast.Left {
		return func(r *rand.Rand) forecast.Left {
			return func(*sched.Job) (time.Duration, bool) {
				return time.Hour + time.Duration(r.Float64()*float64(longest-time.Hour)), true
			}
		}
	}
	due := noon.Add(4 * time.Hour)
	got, err := forecast.Starts(queue(t, 1), forecast.Config{Policy: patient{}, Future: upTo(5 * time.Hour)})
	r := got["j1"]
	if err != nil || r.Early.After(noon.Add(2*time.Hour)) || !r.Middle.Before(due) || !r.Late.Equal(due) {
		t.Fatalf("starts at %s (%s to %s), %v; want it between 13:00 and %s, which one of four wait for", r.Middle, r.Early, r.Late, err, due)
	}
	var l forecast.Ledger
	for i := range 40 {
		began := noon.AddDate(0, 0, i-40)
		l.Add(forecast.Asked{Range: forecast.Range{Early: began.Add(time.Hour), Middle: began.Add(2 * time.Hour), Late: began.Add(3 * time.Hour)}, At: began}, began.Add(2*time.Hour))
	}
	if told := l.Correct(forecast.Asked{Range: r, At: noon}, nil, noon); !told.Early.After(r.Early) || !told.Late.Equal(due) {
		t.Errorf("where ranges are too wide, within %s and %s; want it to begin later than %s, and to hold %s", told.Early, told.Late, r.Early, due)
	}
	if p := named(t, "fairway").Schedule(queue(t, 1)); !p.Due.Equal(due) {
		t.Errorf("fairway acts by the clock at %s; want %s, when the job has waited for as long as any may", p.Due, due)
	}
}

// TestCoarse: the coarse forecast agrees with the policy where jobs start in order.
func TestCoarse(t *testing.T) {
	s := queue(t, 3)
	c := forecast.Config{Policy: named(t, "fifo"), Future: hours}
	fine, err := forecast.Starts(s, c, "j3")
	if err != nil {
		t.Fatal(err)
	}
	r, ok := forecast.Coarse(s, c, s.Jobs[1:3], s.Jobs[3], time.Time{})
	if !ok || r.Middle.Sub(fine["j3"].Middle).Abs() > 20*time.Minute || r.Early.Before(noon.Add(3*time.Hour)) || r.Late.After(noon.Add(6*time.Hour)) {
		t.Errorf("coarse %v, %t; want about %v", r, ok, fine["j3"])
	}
	c.Preempts = true
	if sooner, ok := forecast.Coarse(s, c, s.Jobs[1:3], s.Jobs[3], time.Time{}); !ok || sooner.Early.After(noon.Add(time.Hour)) || !sooner.Late.After(r.Middle) {
		t.Errorf("under a policy that preempts %v, %t; want it to begin much sooner than %v, and to end about there", sooner, ok, r)
	}
	bound := noon.Add(2 * time.Hour)
	if r, ok := forecast.Coarse(s, c, s.Jobs[1:3], s.Jobs[3], bound); !ok || !r.Late.Equal(bound) {
		t.Errorf("of a job that is promised to start by %s: %v, %t; want it to end there", bound, r, ok)
	}
	c.Future = func(*rand.Rand) forecast.Left { return func(*sched.Job) (time.Duration, bool) { return 0, false } }
	if r, ok := forecast.Coarse(s, c, nil, s.Jobs[3], time.Time{}); ok {
		t.Errorf("nothing is known, and it starts at %v", r)
	}
}

// TestLedger: ranges that proved too narrow are widened until they hold nine of ten
// starts, those that are too wide become narrower, and no run of bad luck makes
// them boundless.
func TestLedger(t *testing.T) {
	at := func(minutes float64) time.Time { return noon.Add(time.Duration(minutes * float64(time.Minute))) }
	asked := forecast.Asked{Range: forecast.Range{Early: at(50), Middle: at(60), Late: at(70)}, At: noon}
	var l forecast.Ledger
	near := func(a, b time.Time) bool { return a.Sub(b).Abs() < time.Second }
	if r := l.Correct(asked, nil, noon); !near(r.Early, asked.Early) || !near(r.Middle, asked.Middle) || !near(r.Late, asked.Late) {
		t.Errorf("without outcomes %v becomes %v", asked.Range, r)
	}
	r := rand.New(rand.NewPCG(1, 2))
	began := asked.At
	learn := func(wait float64) { // of one job after the other
		f := asked
		f.At, f.Early, f.Middle, f.Late = began, began.Add(50*time.Minute), began.Add(time.Hour), began.Add(70*time.Minute)
		began = began.Add(time.Duration(wait * float64(time.Minute)))
		l.Add(f, began)
	}
	inside := 0
	for i := range 2000 {
		wait := 60 * math.Exp(0.18*r.NormFloat64())
		if told := l.Correct(asked, nil, noon); i >= 1000 && !at(wait).Before(told.Early) && !at(wait).After(told.Late) {
			inside++
		}
		learn(wait)
	}
	told := l.Correct(asked, nil, noon)
	if inside < 880 || inside > 920 || !told.Middle.Equal(asked.Middle) {
		t.Errorf("%v holds %d of 1,000 outcomes around 13:00; want about 900, and the middle as it was", told, inside)
	}
	waiting := []forecast.Asked{asked, asked, asked}
	later := l.Correct(asked, waiting, at(200))
	if !later.Late.After(told.Late) || !later.Early.Equal(told.Early) || later != l.Correct(asked, waiting[:1], at(200)) {
		t.Errorf("with jobs that still wait the range is %v; want it to end later than %v, by as much as with one of them", later, told)
	}
	together := l
	for range 100 {
		together.Add(forecast.Asked{Range: asked.Range, At: began.Add(-2 * time.Hour)}, began)
	}
	if r := together.Correct(asked, nil, noon); r != told {
		t.Errorf("a hundred that start with another change %v to %v; want no change", told, r)
	}
	for range 1000 {
		learn(1000)
	}
	if r := l.Correct(asked, nil, noon); r.Late.After(at(120)) {
		t.Errorf("after 1,000 late starts the range ends at %s; want a bound", r.Late)
	}
	for range 1000 {
		learn(60)
	}
	if r := l.Correct(asked, nil, noon); r.Early.Before(at(59)) || r.Late.After(at(61)) {
		t.Errorf("after 1,000 starts in the middle the range is %v; want it near the middle of %v", r, asked.Range)
	}
	if r := (forecast.Range{Middle: asked.Middle, Error: 0.2}); !r.Rough() || asked.Rough() {
		t.Errorf("%v is rough: %t, %v: %t; want the one that is wrong by a fifth", r, r.Rough(), asked.Range, asked.Rough())
	}
	unknown := forecast.Asked{Range: forecast.Range{Early: at(50)}, At: noon}
	if r := l.Correct(unknown, nil, noon); r != unknown.Range {
		t.Errorf("%v becomes %v; want it unchanged", unknown.Range, r)
	}
}

// listener is a policy that notes the noise scale of the first job at each decision.
type listener struct {
	sched.Policy
	heard *[]float64
}

func (l listener) Schedule(s *sched.Snapshot) sched.Plan {
	if j := s.Jobs[0]; j.ID == "j0" {
		*l.heard = append(*l.heard, j.Perf.Noise)
	}
	p := l.Policy.Schedule(s)
	p.Wake = s.Now.Add(10 * time.Minute)
	return p
}

// TestNoise: the noise scale of a job grows while it trains, in each future by something else,
// for policies decide by it.
func TestNoise(t *testing.T) {
	st := queue(t, 1).State()
	report := sched.Event{At: noon, Kind: sched.JobReported, Job: "j0", Rate: 1, Perf: &goodput.Report{Noise: 100, Limits: goodput.Limits{Initial: 1, Max: 1, LocalMin: 1, LocalMax: 1}, MostGPUs: 4}}
	if err := st.Apply(report); err != nil {
		t.Fatal(err)
	}
	j, _ := st.Job("j0")
	j.Work = 2400
	var heard []float64
	c := forecast.Config{Policy: listener{named(t, "fifo"), &heard}, Future: hours} // it may last for longer than it says
	if got, err := forecast.Starts(st.Frozen(noon), c); err != nil || len(got) != 1 {
		t.Fatalf("%v, %v; want one start", got, err)
	}
	ends := map[float64]bool{}
	for i, noise := range heard {
		switch begins := noise == 100; {
		case noise < 100 || noise > 100*100:
			t.Fatalf("a noise scale of %g; want 100, and up to a hundred times that", noise)
		case i > 0 && !begins && noise < heard[i-1]:
			t.Fatalf("the noise scale falls from %g to %g; want it to grow", heard[i-1], noise)
		case i > 0 && begins && heard[i-1] > 100:
			ends[heard[i-1]] = true
		}
	}
	if len(ends) < forecast.Samples/2 {
		t.Errorf("the noise scale of %d futures grew, each to another value; want that of most of %d", len(ends), forecast.Samples)
	}
}
