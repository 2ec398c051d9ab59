// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// result makes up a run: jobs that arrive, wait, run several times and end.
func result(policy string, jobs int, seed uint64) *sim.Result {
	r := rand.New(rand.NewPCG(seed, 3))
	out := &sim.Result{
		Summary: sim.Summary{
			Policy: policy, Workload: "made up", Seed: 1 << 60, Jobs: jobs, Finished: jobs, AvgJCT: 5000, P50JCT: 3000,
			P90JCT: 9000, P99JCT: 30_000, AvgWait: 600, Makespan: 1e6, AvgRho: 1.2, P99Rho: 3, MaxRho: 4.5, JainRho: 0.8, Allocation: 0.75,
			Delays: []sim.Delay{{Size: "1", Cause: "full", Jobs: 3, Time: 600, Wait: 200}, {Size: ">8", Cause: "fragmented", Jobs: 1, Time: 900, Wait: 900}},
		},
		Cluster: sim.ClusterShape{Nodes: 8, GPUs: 64, Racks: 2, Types: []sched.GPUType{"h200"}},
	}
	order := rand.New(rand.NewPCG(1, 4)) // the same jobs under every policy
	for i := range jobs {
		submit := float64(i) * 60
		j := sim.JobResult{
			ID: sched.JobID(fmt.Sprintf("job-%06d", i)), App: sched.AppID(fmt.Sprintf("app-%05d", i/4)), Tenant: "vision", Model: "resnet50",
			GPUs: 1 << order.IntN(5), Submit: submit, Outcome: sched.Finished, Rho: 0.5 + r.ExpFloat64(), WaitFor: sched.Full,
		}
		at := submit + 300*r.ExpFloat64()
		j.Start, j.Wait = at, at-submit
		for range 1 + r.IntN(6) {
			s := sim.Segment{Start: at, End: at + 4000*r.ExpFloat64(), GPUs: j.GPUs, Nodes: (j.GPUs + 7) / 8}
			j.Runs = append(j.Runs, s)
			j.Ran += s.End - s.Start
			at = s.End + 60
		}
		j.End = at - 60
		j.JCT, j.GPUSeconds = j.End-submit, j.Ran*float64(j.GPUs)
		out.Jobs = append(out.Jobs, j)
		out.Series = append(out.Series, sim.Point{T: submit, Used: r.IntN(65), Queued: r.IntN(40), QueuedGPUs: r.IntN(400)})
	}
	return out
}

func write(t *testing.T, runs ...*sim.Result) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, runs); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pageData is what the tests read out of the data of a page.
type pageData struct {
	AllJobs  int `json:"all_jobs"`
	BarLimit int `json:"bar_limit"`
	Jobs     struct{ ID []string }
	Runs     []struct {
		Summary struct {
			AvgJCT *float64 `json:"avg_jct"`
		}
	}
}

// dataOf returns the data of a page, which must be JSON.
func dataOf[T any](t *testing.T, html []byte) T {
	t.Helper()
	_, rest, ok := bytes.Cut(html, []byte(`<script type="application/json" id="data">`))
	if !ok {
		t.Fatal("the page has no data")
	}
	text, _, _ := bytes.Cut(rest, []byte("</script>"))
	var data T
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatalf("data of the page: %v", err)
	}
	return data
}

func TestWriteIsDeterministic(t *testing.T) {
	runs := func() []*sim.Result { return []*sim.Result{result("fifo", 200, 1), result("las", 200, 2)} }
	if !bytes.Equal(write(t, runs()...), write(t, runs()...)) {
		t.Error("two pages of the same results differ")
	}
}

func TestWriteNeedsRuns(t *testing.T) {
	for _, runs := range [][]*sim.Result{nil, {nil}} {
		if err := Write(&bytes.Buffer{}, runs); err == nil {
			t.Errorf("Write of %v succeeded; want an error", runs)
		}
	}
}

func TestWriteIsSelfContained(t *testing.T) {
	checkSelfContained(t, write(t, result("fifo", 20, 1)))
}

func checkSelfContained(t *testing.T, page []byte) {
	t.Helper()
	for _, bad := range []string{"https:", "src=", "@import", "url(h", "fetch(", "XMLHttp"} {
		if i := bytes.Index(page, []byte(bad)); i >= 0 {
			t.Errorf("the page has %q: …%s…", bad, page[max(0, i-40):i+40])
		}
	}
	if got := bytes.Count(page, []byte("http:")); got != 1 { // the name of the SVG namespace
		t.Errorf("the page has %d times http:; want 1", got)
	}
}

// hostile is a name that would break out of a careless page.
const hostile = `</script><script>document.body.dataset.hacked=1</script><!--<script>"'&` + "\u2028\x00\xff"

func hostileResult(jobs int) *sim.Result {
	r := result(hostile, jobs, 1)
	r.Workload = hostile
	r.Cluster.Types = []sched.GPUType{hostile}
	r.Delays = append(r.Delays, sim.Delay{Size: hostile, Cause: hostile, Jobs: 1, Time: math.NaN(), Wait: math.Inf(1)})
	for i := range r.Jobs {
		j := &r.Jobs[i]
		j.ID, j.App = sched.JobID(fmt.Sprint(i, hostile)), hostile
		j.Tenant, j.Model = hostile, hostile
	}
	return r
}

func TestWriteEscapesNames(t *testing.T) {
	page := string(write(t, hostileResult(30)))
	checkEscaped(t, page)
	if got := dataOf[pageData](t, []byte(page)).Jobs.ID[7]; !strings.HasPrefix(got, "7</script><script>") {
		t.Errorf("job 7 reads back as %q; want its name", got)
	}
}

// checkEscaped fails the test if a name broke out of a page's data.
func checkEscaped(t *testing.T, page string) {
	t.Helper()
	if got, want := strings.Count(page, "<script"), 2; got != want {
		t.Errorf("%d script elements; want %d", got, want)
	}
	if got, want := strings.Count(page, "</script"), 2; got != want {
		t.Errorf("%d ends of script elements; want %d", got, want)
	}
	if strings.Contains(page, "<!--") {
		t.Error("the page has a comment that the data opened")
	}
}

func TestWriteHasNoNumbersThatJSONLacks(t *testing.T) {
	r := result("fifo", 40, 1)
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.MaxFloat64}
	for i := range r.Jobs {
		j := &r.Jobs[i]
		for k, p := range []*float64{&j.Submit, &j.Start, &j.End, &j.JCT, &j.Wait, &j.Queued, &j.Ran, &j.GPUSeconds, &j.Rho, &j.Runs[0].Start, &j.Runs[0].End} {
			if (i+k)%3 == 0 {
				*p = bad[(i*7+k)%len(bad)]
			}
		}
		r.Series[i].T = bad[i%2]
	}
	s := &r.Summary
	for i, p := range []*float64{&s.AvgJCT, &s.P50JCT, &s.P90JCT, &s.P99JCT, &s.AvgWait, &s.P50Wait, &s.P99Wait, &s.Makespan, &s.AvgRho, &s.P99Rho, &s.MaxRho, &s.JainRho, &s.Allocation, &s.GPUSeconds, &s.LostGPUs} {
		*p = bad[i%3]
	}
	s.Delays[0].Time, s.Delays[1].Wait = math.NaN(), math.Inf(1)
	data := dataOf[pageData](t, write(t, r, result("las", 40, 2)))
	if got := data.Runs[0].Summary.AvgJCT; got != nil {
		t.Errorf("a mean that is no number became %g; want null", *got)
	}
}

func TestWriteOfManyJobsStaysSmall(t *testing.T) {
	t.Parallel()
	const policies, jobs = 8, 20_000 // every bound is in force
	one := result("policy", jobs, 1)
	// Under a time-slicing policy a job runs hundreds of times.
	for i := range one.Jobs {
		if j := &one.Jobs[i]; i%50 == 0 {
			j.Runs = nil
			for k := range 400 {
				at := j.Submit + float64(k)*977.3
				j.Runs = append(j.Runs, sim.Segment{Start: at, End: at + 431.7, GPUs: j.GPUs, Nodes: 2})
			}
			j.GPUSeconds = 1e9
		}
	}
	var runs []*sim.Result
	for i := range policies {
		r := *one
		r.Policy = fmt.Sprintf("policy-%d", i)
		runs = append(runs, &r)
	}
	page := write(t, runs...)
	t.Logf("page of %d jobs under %d policies: %.1f MB", jobs, policies, float64(len(page))/1e6)
	if len(page) > 15_000_000 {
		t.Errorf("page has %d bytes; want at most 15 MB", len(page))
	}
	data := dataOf[pageData](t, page)
	if got := len(data.Jobs.ID); got != maxJobs {
		t.Errorf("%d jobs in the page; want %d", got, maxJobs)
	}
	if data.AllJobs != jobs || data.BarLimit < 1 {
		t.Errorf("all_jobs = %d, bar_limit = %d; want %d and a limit: the page must say what it leaves out", data.AllJobs, data.BarLimit, jobs)
	}
}

func TestRowsGiveBackTheSegments(t *testing.T) {
	r := result("fifo", 300, 1)
	sc := scale{tick: 0.1, bars: 1000, end: 1e6}
	for i := range r.Jobs {
		j := &r.Jobs[i]
		bars := newBars(j, sc)
		at := math.Round(j.Submit / sc.tick)
		for k, s := range j.Runs {
			b := bars[4*k : 4*k+4]
			at += float64(b[0])
			if math.Abs(at*sc.tick-s.Start) > 0.051 {
				t.Fatalf("job %d segment %d starts at %g; want %g", i, k, at*sc.tick, s.Start)
			}
			at += float64(b[1])
			if math.Abs(at*sc.tick-s.End) > 0.051 || b[2] != s.GPUs || b[3] != s.Nodes {
				t.Fatalf("job %d segment %d = %v, ends at %g; want %+v", i, k, b, at*sc.tick, s)
			}
		}
	}
}

func TestLabels(t *testing.T) {
	run := func(policy, workload string, seed uint64) *sim.Result {
		return &sim.Result{Summary: sim.Summary{Policy: policy, Workload: workload, Seed: seed}}
	}
	for _, tc := range []struct {
		runs []*sim.Result
		want []string
	}{
		{[]*sim.Result{run("fifo", "w", 1), run("las", "w", 1)}, []string{"fifo", "las"}},
		{[]*sim.Result{run("las", "v", 1), run("las", "w", 1)}, []string{"las · v", "las · w"}},
		{[]*sim.Result{run("las", "w", 1), run("las", "w", 2)}, []string{"las · seed 1", "las · seed 2"}},
		{[]*sim.Result{run("las", "v", 1), run("las", "v", 2), run("las", "w", 1)}, []string{"las · v · seed 1", "las · v · seed 2", "las · w · seed 1"}},
		{[]*sim.Result{run("las", "w", 1), run("las", "w", 1)}, []string{"las · 1", "las · 2"}},
	} {
		if diff := cmp.Diff(tc.want, labels(tc.runs)); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
	}
}

func TestClip(t *testing.T) {
	long := strings.Repeat("x", maxText-1) + "é" + "tail"
	if got, want := clip(long), strings.Repeat("x", maxText-1)+"…"; got != want {
		t.Errorf("clip cut to %q; want %q", got, want)
	}
	if got := clip("short"); got != "short" {
		t.Errorf("clip(short) = %q", got)
	}
}
