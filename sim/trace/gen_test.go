// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

func generate(t testing.TB, g Gen) *sim.Workload {
	t.Helper()
	wl, err := Generate(g)
	if err != nil {
		t.Fatal(err)
	}
	return wl
}

func native(t testing.TB, wl *sim.Workload) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, wl); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Any workload that can be asked for is complete, in order and fits on the
// cluster; the same question has the same answer.
func TestGenerate(t *testing.T) {
	judge := newJudge()
	rapid.Check(t, func(t *rapid.T) {
		g := Gen{
			Kind: rapid.SampledFrom(Kinds()).Draw(t, "kind"),
			Jobs: rapid.IntRange(1, 120).Draw(t, "jobs"),
			GPUs: rapid.SampledFrom([]int{1, 3, 8, 64, 2490}).Draw(t, "gpus"),
			Seed: rapid.Uint64().Draw(t, "seed"),
		}
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 1:
			g.Load = rapid.Float64Range(0.01, 10).Draw(t, "load")
		case 2:
			g.Span = time.Duration(rapid.Int64Range(1, 1e7).Draw(t, "span")) * time.Second
		}
		if rapid.Bool().Draw(t, "capped") {
			g.MaxGPUs = rapid.IntRange(1, g.GPUs).Draw(t, "largest")
			g.Longest = time.Duration(rapid.IntRange(1, 10000).Draw(t, "longest")) * time.Minute
		}
		wl, err := Generate(g)
		if err != nil {
			t.Fatal(err)
		}
		if len(wl.Work) != g.Jobs {
			t.Fatalf("%d jobs; want %d", len(wl.Work), g.Jobs)
		}
		most := g.GPUs
		if g.MaxGPUs > 0 {
			most = g.MaxGPUs
		}
		ids := map[sched.JobID]bool{}
		last := wl.Start
		for i := range wl.Work {
			w := &wl.Work[i]
			if err := judge.check(w); err != nil {
				t.Fatal(err)
			}
			if ids[w.ID] || w.Submitted.Before(last) || w.GPUs > most {
				t.Fatalf("%s: id seen %v, submitted %s after %s, %d GPUs of at most %d", w.ID, ids[w.ID], w.Submitted, last, w.GPUs, most)
			}
			if g.Longest > 0 && w.RunTime.D() > g.Longest {
				t.Fatalf("%s runs %s; want at most %s", w.ID, w.RunTime, g.Longest)
			}
			if g.Span > 0 && w.Submitted.Sub(wl.Start) > g.Span {
				t.Fatalf("%s is submitted after %s; want within %s", w.ID, w.Submitted.Sub(wl.Start), g.Span)
			}
			ids[w.ID], last = true, w.Submitted
		}
		again, err := Generate(g)
		if err != nil {
			t.Fatal(err)
		}
		var a, b bytes.Buffer
		if err := Write(&a, wl); err != nil {
			t.Fatal(err)
		}
		if err := Write(&b, again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatal("the same Gen gave two workloads")
		}
	})
}

func TestGenerateSeeds(t *testing.T) {
	for _, kind := range Kinds() {
		a := generate(t, Gen{Kind: kind, Jobs: 50, GPUs: 64, Seed: 1})
		b := generate(t, Gen{Kind: kind, Jobs: 50, GPUs: 64, Seed: 2})
		a.Source, b.Source = "", ""
		if bytes.Equal(native(t, a), native(t, b)) {
			t.Errorf("%s: seeds 1 and 2 give the same workload", kind)
		}
	}
}

func TestGenerateErrors(t *testing.T) {
	tests := []struct {
		g    Gen
		want string
	}{
		{Gen{Kind: "borg", Jobs: 1, GPUs: 1}, `generate workload: kind = "borg"; want one of [flood giant helios horus philly pollux themis tiny]`},
		{Gen{Kind: KindPhilly, GPUs: 1}, "generate workload: jobs = 0; want 1 to 10000000"},
		{Gen{Kind: KindPhilly, Jobs: 1}, "generate workload: gpus = 0; want 1 to 1048576"},
		{Gen{Kind: KindPhilly, Jobs: 1, GPUs: 1, Load: math.NaN()}, "generate workload: load = NaN; want 0 (the kind's default) to 1000"},
		{Gen{Kind: KindPhilly, Jobs: 1, GPUs: 1, Span: time.Millisecond}, "generate workload: span = 1ms; want 0 (from jobs, gpus and load) or at least 1s"},
		{Gen{Kind: KindPhilly, Jobs: 1, GPUs: 1, Span: time.Hour, Load: 1}, "generate workload: span = 1h0m0s and load = 1; want at most one of the two"},
		{Gen{Kind: KindPhilly, Jobs: 1, GPUs: 4, MaxGPUs: 8}, "generate workload: max_gpus = 8; want 0 (all) to the 4 of the cluster"},
		{Gen{Kind: KindPhilly, Jobs: 1, GPUs: 4, Longest: time.Second}, "generate workload: longest = 1s; want 0 (as published) or at least 1m"},
		{Gen{Kind: KindPhilly, Jobs: 1, GPUs: 4, Bursts: -1}, "generate workload: bursts = -1; want 0 (none) to 10"},
	}
	for _, test := range tests {
		if _, err := Generate(test.g); err == nil || err.Error() != test.want {
			t.Errorf("%+v: error %v; want %s", test.g, err, test.want)
		}
	}
}

// TestBurstsAreWeeksOfOneVC: with bursts the weeks of a virtual cluster differ more, and
// the jobs stay the same.
func TestBurstsAreWeeksOfOneVC(t *testing.T) {
	g := Gen{Kind: KindPhilly, Jobs: 20000, GPUs: 2490, Seed: 1}
	uneven := func(wl *sim.Workload) float64 {
		jobs := map[sched.TenantID][]float64{}
		all := make([]float64, 100)
		for _, w := range wl.Work {
			if w.GPUs == 1 {
				continue // sweeps
			}
			week := int(w.Submitted.Sub(Epoch) / (7 * 24 * time.Hour))
			if jobs[w.Tenant] == nil {
				jobs[w.Tenant] = make([]float64, len(all))
			}
			jobs[w.Tenant][week]++
			all[week]++
		}
		var sum float64 // of chi-square: how far the weeks of each are from those of all
		for _, weeks := range jobs {
			n, total := 0.0, 0.0
			for i := range weeks {
				n, total = n+weeks[i], total+all[i]
			}
			for i := range weeks {
				if want := n * all[i] / total; want > 0 {
					sum += (weeks[i] - want) * (weeks[i] - want) / want
				}
			}
		}
		return sum
	}
	plain := generate(t, g)
	g.Bursts = PhillyBursts
	bursty := generate(t, g)
	if a, b := uneven(plain), uneven(bursty); b < 1.5*a {
		t.Errorf("weeks of virtual clusters differ by %.0f, with bursts by %.0f; want half as much again or more", a, b)
	}
	time := func(wl *sim.Workload) (sum float64) {
		for i := range wl.Work {
			sum += gpuSeconds(&wl.Work[i])
		}
		return sum
	}
	if a, b := time(plain), time(bursty); a != b {
		t.Errorf("%g GPU-seconds, with bursts %g; want the same jobs", a, b)
	}
}

// near reports whether got is within a part of want.
func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if math.Abs(got-want) > part*want {
		t.Errorf("%s = %.4g; want %.4g within %.0f %%", what, got, want, 100*part)
	}
}

// The drawn Philly workload has the paper's statistics. The bounds are what
// 40,000 jobs of a heavy-tailed distribution can keep.
func TestPhillyIsLikeThePaper(t *testing.T) {
	g := Gen{Kind: KindPhilly, Jobs: 40000, GPUs: 2490, Seed: 3}
	wl := generate(t, g)
	s := Stats(wl)
	for i, want := range []float64{0.872, 0.070, 0.049, 0.009} {
		near(t, "share of size "+s.Sizes[i].Size, s.Sizes[i].Share, want, 0.2)
	}
	for i, want := range []float64{0.20, 0.21, 0.47, 0.11} {
		near(t, "GPU time of size "+s.Sizes[i].Size, s.Sizes[i].GPUTimeShare, want, 0.4)
	}
	for i, o := range s.Outcomes {
		near(t, "jobs "+paperOutcomes[i].name, o.Share, paperOutcomes[i].jobs/100, 0.1)
		near(t, "GPU time of "+paperOutcomes[i].name, o.GPUTimeShare, paperOutcomes[i].gpuTime/100, 0.2)
	}
	near(t, "failures of a job that fails", s.Failures.PerJob, paperFailuresPerJob, 0.1)
	for _, r := range s.Failures.Reasons {
		x := reasonNamed(r.Reason)
		if x == nil {
			t.Errorf("reason %q is not in table 7", r.Reason)
			continue
		}
		if r.Trials < 1000 {
			continue
		}
		near(t, r.Reason+" trials", float64(r.Trials)/float64(s.Failures.Trials), float64(x.trials)/39776, 0.2)
		near(t, r.Reason+" p50", r.P50, 60*x.p50, 0.35)
		near(t, r.Reason+" p90", r.P90, 60*x.p90, 0.5)
	}
	for i, u := range s.Util {
		if u.GPUs == 1 || u.GPUs == 8 {
			near(t, "utilisation of passed jobs", u.Passed, paperUtils[i].passed/100, 0.1)
			near(t, "utilisation of unsuccessful jobs", u.Failed, paperUtils[i].failed/100, 0.1)
		}
	}
	if s.Arrivals.CV < 2 {
		t.Errorf("cv of gaps = %.2f; want bursts, more than 2", s.Arrivals.CV)
	}
}

// The load is what is in use after the warm-up if no job waits. Jobs that run
// for weeks end long after the last one has come, and most of their GPU time
// does not count.
func TestPhillyLoad(t *testing.T) {
	for _, load := range []float64{0, 0.5, 1.2} {
		g := Gen{Kind: KindPhilly, Jobs: 20000, GPUs: 400, Seed: 5, Load: load}
		s := Stats(generate(t, g))
		var used, steps float64
		for _, p := range s.Demand.Points {
			if p.T >= warmUp*s.Span {
				used += p.GPUs
				steps++
			}
		}
		want := load
		if load == 0 {
			want = phillyLoad
		}
		near(t, "load", used/steps/float64(g.GPUs), want, 0.12)
	}
}

func TestPhillyTenants(t *testing.T) {
	for _, gpus := range []int{1, 10, 64, 2490} {
		wl := generate(t, Gen{Kind: KindPhilly, Jobs: 10, GPUs: gpus, Seed: 1})
		var sum int
		for _, x := range wl.Tenants {
			sum += x.Quota
			if !x.Borrow {
				t.Errorf("%s may not borrow", x.ID)
			}
		}
		if sum != gpus || len(wl.Tenants) != 11 {
			t.Errorf("%d tenants with %d GPUs in all; want 11 with %d", len(wl.Tenants), sum, gpus)
		}
	}
}

func TestPolluxIsLikeThePaper(t *testing.T) {
	wl := generate(t, Gen{Kind: KindPollux, Jobs: 16000, GPUs: 6400, Seed: 1})
	s := Stats(wl)
	near(t, "span of 160 jobs for each 64 GPUs", s.Span, 8*3600, 0.01)
	if s.Unknown != s.Jobs {
		t.Errorf("%d of %d jobs have a run time; want none", s.Jobs-s.Unknown, s.Jobs)
	}
	want := map[string]float64{"cifar10": 0.36, "ncf": 0.36, "deepspeech2": 0.10, "bert": 0.10, "yolov3": 0.06, "imagenet": 0.02}
	for _, m := range s.Models {
		near(t, m.Model, m.Share, want[m.Model], 0.15)
	}
	var most, least float64 = 0, 1
	for _, share := range s.Arrivals.ByHour[:8] {
		most, least = max(most, share), min(least, share)
	}
	near(t, "busiest over quietest hour", most/least, 555.0/146, 0.1)
	for i := range wl.Work {
		w := &wl.Work[i]
		app := polluxAppNamed(w.Model)
		if !slices.ContainsFunc(app.tuned, func(s polluxSize) bool { return s.gpus == w.GPUs && s.batch == w.BatchSize }) {
			t.Fatalf("%s: %d GPUs with batch %d; want a tuned size of %s", w.ID, w.GPUs, w.BatchSize, w.Model)
		}
	}
}

// On a cluster that is too small for a tuned size, the batch still fits.
func TestPolluxFit(t *testing.T) {
	for i := range polluxApps {
		app := &polluxApps[i]
		for most := 1; most <= 64; most++ {
			s := app.fit(most, 0.99)
			local := float64(s.batch) / float64(s.gpus)
			if s.gpus > most || local < float64(app.localMin) || s.batch > app.most {
				t.Errorf("%s on %d GPUs: %d GPUs, batch %d", app.name, most, s.gpus, s.batch)
			}
		}
	}
}

// The batch limits here and in the zoo are the same ones.
func TestPolluxLimitsAreTheZoos(t *testing.T) {
	models, err := zoo.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, app := range polluxApps {
		m, ok := models.Model(app.name)
		if !ok {
			t.Errorf("the zoo has no %s", app.name)
			continue
		}
		got := [4]int{app.initial, app.most, app.localMin, app.localMax}
		want := [4]int{m.Batch.Initial, m.Batch.Max, m.Batch.LocalMin, m.Batch.LocalMax}
		if got != want {
			t.Errorf("%s: limits %v; the zoo has %v", app.name, got, want)
		}
	}
}

// Every model that is drawn is in the zoo, and consolidates there if it does
// here.
func TestDrawnModelsAreInTheZoo(t *testing.T) {
	models, err := zoo.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][]drawnModel{"philly": phillyModels[:], "themis": themisModels[:]} {
		var sum float64
		for _, d := range list {
			sum += d.share
			m, ok := models.Model(d.name)
			if !ok {
				t.Errorf("%s: the zoo has no %s", name, d.name)
				continue
			}
			if m.Consolidate != d.consolidate {
				t.Errorf("%s: %s consolidates: %v; the zoo says %v", name, d.name, d.consolidate, m.Consolidate)
			}
		}
		near(t, name+" shares", sum, 1, 1e-9)
	}
}

func TestThemisIsLikeThePaper(t *testing.T) {
	wl := generate(t, Gen{Kind: KindThemis, Jobs: 60000, GPUs: 256, Seed: 2})
	type app struct{ jobs, gpus int }
	apps := map[sched.AppID]*app{}
	class := map[string]string{"vgg16": "vision", "resnet50": "vision", "inception3": "vision",
		"transformer": "language", "lm": "language", "bi-att-flow": "language", "gnmt": "language",
		"wavenet": "speech", "deepspeech": "speech"}
	byClass, sensitive := map[string]float64{}, 0.0
	var gpuMinutes []float64
	for i := range wl.Work {
		w := &wl.Work[i]
		if apps[w.App] == nil {
			apps[w.App] = &app{gpus: w.GPUs}
			byClass[class[w.Model]]++
			if slices.ContainsFunc(themisModels[:], func(m drawnModel) bool { return m.name == w.Model && m.consolidate }) {
				sensitive++
			}
		}
		apps[w.App].jobs++
		gpuMinutes = append(gpuMinutes, gpuSeconds(w)/60)
	}
	n := float64(len(apps))
	near(t, "vision apps", byClass["vision"]/n, 0.10, 0.05)
	near(t, "language apps", byClass["language"]/n, 0.60, 0.05)
	near(t, "speech apps", byClass["speech"]/n, 0.30, 0.05)
	near(t, "network-intensive apps", sensitive/n, 0.40, 0.05)
	var jobs []float64
	var single float64
	for _, a := range apps {
		jobs = append(jobs, float64(a.jobs))
		if a.jobs == 1 {
			single++
		}
	}
	slices.Sort(jobs)
	slices.Sort(gpuMinutes)
	near(t, "single-job apps", single/n, 0.10, 0.25)
	near(t, "median jobs of an app", num.Quantile(jobs, 0.5), 78, 0.05)
	if most := jobs[len(jobs)-1]; most > 100 {
		t.Errorf("an app has %g jobs; want at most 100", most)
	}
	near(t, "median GPU minutes", num.Quantile(gpuMinutes, 0.5), 215, 0.1)
	near(t, "p90 of GPU minutes", num.Quantile(gpuMinutes, 0.9), 450, 0.1)
	near(t, "load", Stats(wl).GPUHours*3600/(Stats(wl).Span*256), themisLoad, 0.05)
}
