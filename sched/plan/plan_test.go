// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// gpt is a model of 6.7 billion parameters.
var gpt = Model{Parameters: 6.7e9, Layers: 32, Hidden: 4096, Heads: 32, Sequence: 2048, Vocabulary: 32000, Batch: 32, Explicit: true}

var some = Params{Compute: 8, Fixed: 0.1, Network: 1.5, Update: 0.6, Tensor: 0.8, Host: 7, Kernel: 1.2}

func TestNames(t *testing.T) {
	for want, p := range map[string]Plan{
		"dp1":                 {Data: 1, Tensor: 1, Pipeline: 1, Micro: 1},
		"zero8+offload":       {Data: 8, Tensor: 1, Pipeline: 1, Micro: 1, Sharding: Optimizer, Offload: true},
		"fsdp4/2+recompute":   {Data: 4, Tensor: 1, Pipeline: 1, Micro: 2, Sharding: Full, Recompute: true},
		"tp4-pp2":             {Data: 1, Tensor: 4, Pipeline: 2, Micro: 1},
		"dp2-tp4-pp2/8":       {Data: 2, Tensor: 4, Pipeline: 2, Micro: 8},
		"zero1/32+offload":    {Data: 1, Tensor: 1, Pipeline: 1, Micro: 32, Sharding: Optimizer, Offload: true},
		"fsdp2-tp2+recompute": {Data: 2, Tensor: 2, Pipeline: 1, Micro: 1, Sharding: Full, Recompute: true},
	} {
		if got := p.String(); got != want {
			t.Errorf("%+v is called %s; want %s", p, got, want)
		}
		if got, err := Parse(want); err != nil || got != p {
			t.Errorf("%s is %+v, %v; want %+v", want, got, err, p)
		}
		object := fmt.Sprintf(`{"data":%d,"tensor":%d,"pipeline":%d,"micro":%d,"sharding":%d,"offload":%v,"recompute":%v}`,
			p.Data, p.Tensor, p.Pipeline, p.Micro, p.Sharding, p.Offload, p.Recompute)
		for _, text := range []string{strconv.Quote(want), object} {
			var got Plan
			if err := json.Unmarshal([]byte(text), &got); err != nil || got != p {
				t.Errorf("%s is %+v, %v; want %+v", text, got, err, p)
			}
		}
		if text, err := json.Marshal(p); err != nil || string(text) != strconv.Quote(want) {
			t.Errorf("%+v is written as %s, %v; want its name", p, text, err)
		}
	}
}

func TestBadNames(t *testing.T) {
	for _, name := range []string{
		"", "dp", "dp0", "dp-1", "dp04", "dp4 ", "tp2-dp4", "dp4-dp2", "dp4-", "-tp2", "fsdp4/1", "fsdp4/", "fsdp4/0", "dp4+recompute+offload",
		"ddp4", "dp4-xp2", "dp99999999999999999999", "dp1-tp1", "tp1048577",
	} {
		if p, err := Parse(name); err == nil || !strings.Contains(err.Error(), "want a name such as dp4") {
			t.Errorf("%q is %+v, %v; want an error that says what a name looks like", name, p, err)
		}
	}
}

// FuzzParse: what has a name is called by it.
func FuzzParse(f *testing.F) {
	f.Add("fsdp2-tp4-pp2/8+offload+recompute")
	f.Add("zero1/32")
	f.Fuzz(func(t *testing.T, name string) {
		if p, err := Parse(name); err == nil && p.String() != name {
			t.Errorf("%q is %+v, which is called %s", name, p, p)
		}
	})
}

func named(t *testing.T, names ...string) []Plan {
	t.Helper()
	var out []Plan
	for _, name := range names {
		p, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func TestOptions(t *testing.T) {
	o := Options{Model: gpt, Generate: []string{"fsdp"}, List: named(t, "fsdp4", "tp2", "dp2-tp2")}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := o.Sizes(); !slices.Equal(got, []int{2, 4}) {
		t.Errorf("sizes %v; want 2 and 4", got)
	}
	// dp4 does not fit, fsdp4 does, and is there already.
	if got, want := o.On(4, Room{GPUs: 8, GPU: 90e9}), named(t, "fsdp4", "dp2-tp2"); !slices.Equal(got, want) {
		t.Errorf("plans for 4 GPUs: %v; want %v", got, want)
	}
	for want, edit := range map[string]func(*Options){
		"model: layers = 0":               func(o *Options) { o.Model.Layers = 0 },
		"list is empty":                   func(o *Options) { o.Generate, o.List = nil, nil },
		`generator "magic"`:               func(o *Options) { o.Generate = []string{"magic"} },
		"generate has 17 entries":         func(o *Options) { o.Generate = make([]string, 17) },
		"list has 257 entries":            func(o *Options) { o.List = make([]Plan, 257) },
		"list[1]: data = 0":               func(o *Options) { o.List = []Plan{o.List[0], {}} },
		"list[3] = fsdp4 is there twice;": func(o *Options) { o.List = append(slices.Clip(o.List), o.List[0]) },
	} {
		bad := o
		edit(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// What was measured counts where it was, and teaches the model about the rest.
func TestMeasured(t *testing.T) {
	plans := named(t, "fsdp4", "fsdp2-tp2", "tp2")
	c := &Choice{Model: gpt, Params: Prior(gpt), Plans: plans, Node: 8}
	before := *c
	first, _, _ := c.Best(On(4))
	slow := 100 * before.Params.Step(gpt, first, On(4))
	c, err := c.Measured(Sample{Plan: first, At: On(4), Step: slow})
	if err != nil {
		t.Fatal(err)
	}
	if step, measured := c.Step(first, On(4)); step != slow || !measured {
		t.Errorf("a step takes %g s, measured: %v; want %g as measured", step, measured, slow)
	}
	if step, measured := c.Step(plans[2], On(2)); measured || step < 10*before.Params.Step(gpt, plans[2], On(2)) {
		t.Errorf("a step of tp2 takes %g s, measured: %v; want it predicted, and far slower than before", step, measured)
	}
	spent := Parts{Exchange: slow / 4, Wait: slow / 8}
	if c, err = c.Measured(Sample{Plan: first, At: On(4), Step: slow, Parts: spent}); err != nil {
		t.Fatal(err)
	}
	if c, err = c.Measured(Sample{Plan: first, At: On(4), Step: slow / 2}); err != nil || len(c.Known) != 1 || len(before.Known) != 0 {
		t.Errorf("known: %+v, %v; want the newest, and nothing in the choice of before", c.Known, err)
	}
	if got, none := c.Parts(first, On(4)), c.Parts(plans[2], On(2)); got != spent || none != (Parts{}) {
		t.Errorf("parts %+v, of another plan %+v; want those measured before, and none", got, none)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Known[0].Parts.Wait = math.NaN()
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "known[0]: wait = NaN") {
		t.Errorf("a wait that is no number: %v", err)
	}
	c.Known[0].Parts, c.Known[0].At = spent, On(3)
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "known[0]") {
		t.Errorf("a plan of 4 GPUs measured on 3: %v", err)
	}
}

// A layer stays on one node: four GPUs share it only where every node has a multiple of
// four.
func TestFits(t *testing.T) {
	p := Plan{Data: 2, Tensor: 4, Pipeline: 2, Micro: 1}
	for _, c := range []struct {
		counts []int
		fits   bool
	}{
		{[]int{16}, true}, {[]int{8, 8}, true}, {[]int{4, 8, 4}, true}, {[]int{4, 4, 4, 4}, true},
		{[]int{8, 4}, false}, {[]int{6, 6, 4}, false}, {[]int{2, 6, 8}, false},
	} {
		if got := p.Fits(On(c.counts...)); got != c.fits {
			t.Errorf("%s on %v: fits = %v; want %v", p, c.counts, got, c.fits)
		}
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s = %.12g; want %.12g", what, got, want)
	}
}

// Steps that can be added up by hand.
func TestStep(t *testing.T) {
	one := Plan{Data: 1, Tensor: 1, Pipeline: 1, Micro: 1}
	near(t, "one GPU", some.Step(gpt, one, On(1)), 0.1+8+0.6)

	again := one
	again.Recompute = true
	near(t, "recomputation", some.Step(gpt, again, On(1)), 0.1+8+8.0/3+0.6)

	host := one
	host.Sharding, host.Offload, host.Micro = Optimizer, true, 7
	near(t, "offload in seven parts", some.Step(gpt, host, On(1)), 0.1+8+7+6*7.0/6)

	// A pipeline with one part at a time is as slow as one GPU; with many it is nearly as
	// fast as its stages together.
	stages := Plan{Data: 1, Tensor: 1, Pipeline: 4, Micro: 1}
	sends := 0.8 * 2.5 / 32 * 3
	near(t, "pipeline, one part", some.Step(gpt, stages, On(4)), 0.1+1.2*8+sends+0.6/4)
	stages.Micro = 13
	near(t, "pipeline, 13 parts", some.Step(gpt, stages, On(4)), 0.1+1.2*8*16/13/4+sends+0.6/4)

	shared := Plan{Data: 1, Tensor: 4, Pipeline: 1, Micro: 1}
	near(t, "tensor", some.Step(gpt, shared, On(4)), 0.1+1.2*2+0.8*3/4+0.6/4)
}

// The exchange of gradients is slower through the network, and fastest where all ports of
// a node work.
func TestExchange(t *testing.T) {
	p := Plan{Data: 16, Tensor: 1, Pipeline: 1, Micro: 1}
	last := 0.0
	for _, counts := range [][]int{{16}, {8, 8}, {6, 10}, {4, 12}, {2, 14}} {
		step := some.Step(gpt, p, On(counts...))
		if step <= last {
			t.Errorf("%v: a step of %g s; want more than %g", counts, step, last)
		}
		last = step
	}
	if a, b := some.Step(gpt, p, On(2, 14)), some.Step(gpt, p, On(1, 15)); a != b {
		t.Errorf("one GPU has a port as two have: %g and %g s", b, a)
	}
}

// Seven parameters come back from steps that they made, under plans that all differ; and
// predict one that was not among them.
func TestFit(t *testing.T) {
	var samples []Sample
	add := func(p Plan, counts ...int) {
		at := On(counts...)
		samples = append(samples, Sample{Plan: p, At: at, Step: some.Step(gpt, p, at)})
	}
	for _, n := range []int{1, 2, 4, 8} {
		base := Plan{Data: n, Tensor: 1, Pipeline: 1, Micro: 1}
		add(base, n)
		base.Sharding = Optimizer
		add(base, n)
		base.Offload = true
		add(base, n)
		add(Plan{Data: 1, Tensor: n, Pipeline: 2, Micro: 1}, n, n)
		add(Plan{Data: 2, Tensor: n, Pipeline: 1, Micro: 1}, n, n)
	}
	got, err := Fit(gpt, samples)
	if err != nil {
		t.Fatal(err)
	}
	p, at := Plan{Data: 4, Tensor: 4, Pipeline: 2, Micro: 1}, On(8, 8, 8, 8)
	if a, b := got.Step(gpt, p, at), some.Step(gpt, p, at); math.Abs(a/b-1) > 0.05 {
		t.Errorf("a plan that was not measured takes %.3f s; want %.3f s within 5 %%", a, b)
	}
	if a, b := got.Compute, some.Compute; math.Abs(a/b-1) > 0.05 {
		t.Errorf("compute = %.3f; want %.3f within 5 %%", a, b)
	}
}

// The exchanges within a node hide behind computing, so the length of a step says little
// about them; measured as well, they say how slow the same model is on several nodes.
func TestFitToExchanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noisy := func(v, scatter float64) float64 { return v * math.Exp(scatter*random.NormFloat64()) }
	var without, with float64
	const models = 200
	far := []Plan{{Data: 16, Tensor: 1, Pipeline: 1, Micro: 1, Sharding: Full}, {Data: 4, Tensor: 4, Pipeline: 1, Micro: 1, Sharding: Full}}
	for range models {
		truth := Typical(gpt, 8).vector()
		for i := range truth {
			if !math.IsInf(doubt[i], 1) {
				truth[i] = noisy(truth[i], doubt[i])
			}
		}
		q := truth.params()
		var plain, parted []Sample
		for _, p := range []Plan{{Data: 4, Tensor: 1, Pipeline: 1, Micro: 1, Sharding: Full}, {Data: 2, Tensor: 2, Pipeline: 1, Micro: 1, Sharding: Full}} {
			s := Sample{Plan: p, At: On(4), Step: noisy(q.Step(gpt, p, On(4)), scatter)}
			plain = append(plain, s)
			s.Parts.Exchange = noisy(q.Exchange(p, On(4)), unsteady)
			parted = append(parted, s)
		}
		for _, c := range []struct {
			samples []Sample
			sum     *float64
		}{{plain, &without}, {parted, &with}} {
			got, err := Fit(gpt, c.samples)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range far {
				*c.sum += math.Abs(got.Step(gpt, p, On(8, 8))/q.Step(gpt, p, On(8, 8))-1) / float64(models*len(far))
			}
		}
	}
	t.Logf("mean error on two nodes: %.1f %% from steps, %.1f %% from steps and exchanges", 100*without, 100*with)
	if with > 0.8*without {
		t.Errorf("mean error %.3f with exchanges, %.3f without; want at least a fifth less", with, without)
	}
}

// What one step does not determine is what it commonly is.
func TestFitOfOneStep(t *testing.T) {
	p := Plan{Data: 1, Tensor: 1, Pipeline: 1, Micro: 1}
	got, err := Fit(gpt, []Sample{{Plan: p, At: On(1), Step: 10}})
	if err != nil {
		t.Fatal(err)
	}
	if step := got.Step(gpt, p, On(1)); math.Abs(step/10-1) > 0.02 {
		t.Errorf("the measured step takes %.2f s; want 10", step)
	}
	typical := Typical(gpt, got.Compute)
	near(t, "host", got.Host, typical.Host)
	near(t, "network", got.Network, typical.Network)
	near(t, "kernel", got.Kernel, 1)
}

// An outlier does not draw the others with it.
func TestFitWithOutlier(t *testing.T) {
	var samples []Sample
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8} {
		p := Plan{Data: n, Tensor: 1, Pipeline: 1, Micro: 1}
		samples = append(samples, Sample{Plan: p, At: On(n), Step: some.Step(gpt, p, On(n))})
	}
	samples[4].Step *= 3
	got, err := Fit(gpt, samples)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range samples {
		if off := got.Step(gpt, s.Plan, s.At)/s.Step - 1; i != 4 && math.Abs(off) > 0.1 {
			t.Errorf("%d GPUs: off by %.0f %%; want 10 %% at most", s.At.GPUs, 100*off)
		}
	}
}

func TestFitErrors(t *testing.T) {
	p := Plan{Data: 2, Tensor: 2, Pipeline: 1, Micro: 1}
	for want, samples := range map[string][]Sample{
		"no samples":                     nil,
		"sample 0: step = 0":             {{Plan: p, At: On(4), Step: 0}},
		"sample 0: step = NaN":           {{Plan: p, At: On(4), Step: math.NaN()}},
		"plan dp2-tp2 on 4 GPUs of 2 no": {{Plan: p, At: On(1, 3), Step: 1}},
	} {
		if _, err := Fit(gpt, samples); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want one with %q", err, want)
		}
	}
}

// Plain data parallelism needs 16 bytes for each parameter, which no GPU has for this
// model; each way to need less needs less.
func TestMemory(t *testing.T) {
	base := Plan{Data: 8, Tensor: 1, Pipeline: 1, Micro: 4}
	full, host := gpt.Memory(base)
	if full < 16*gpt.Parameters || host != 0 {
		t.Errorf("data parallelism needs %.0f GB, and %.0f on the host; want at least %.0f and none", full/1e9, host/1e9, 16*gpt.Parameters/1e9)
	}
	for name, change := range map[string]func(*Plan){
		"recompute": func(p *Plan) { p.Recompute = true },
		"parts":     func(p *Plan) { p.Micro = 8; p.Data = 4 },
		"zero":      func(p *Plan) { p.Sharding = Optimizer },
		"fsdp":      func(p *Plan) { p.Sharding = Full },
		"tensor":    func(p *Plan) { p.Data, p.Tensor, p.Micro = 1, 8, 32 },
		"pipeline":  func(p *Plan) { p.Data, p.Pipeline, p.Micro = 1, 8, 32 },
		"offload":   func(p *Plan) { p.Sharding, p.Offload = Optimizer, true },
	} {
		p := base
		change(&p)
		if gpu, _ := gpt.Memory(p); gpu > full || name != "parts" && gpu == full {
			t.Errorf("%s needs %.1f GB; want less than %.1f", name, gpu/1e9, full/1e9)
		}
	}
	// By hand: 14 bytes for each of 10 parameters on one GPU, and a layer of 2 tokens of
	// width 4 with 1 head: 2 * 4 * (34 + 5 * 1 * 2 / 4) bytes. In two parts, 2 bytes more for
	// each parameter, and half of the layer.
	small := Model{Parameters: 10, Layers: 1, Hidden: 4, Heads: 1, Sequence: 2, Batch: 2, Explicit: true}
	gpu, _ := small.Memory(Plan{Data: 1, Tensor: 1, Pipeline: 1, Micro: 1})
	near(t, "small model", gpu-runtimeBytes, 140+2*2*4*(34+2.5))
	gpu, _ = small.Memory(Plan{Data: 1, Tensor: 1, Pipeline: 1, Micro: 2})
	near(t, "small model in parts", gpu-runtimeBytes, 160+2*4*(34+2.5))
	small.Explicit = false
	gpu, _ = small.Memory(Plan{Data: 1, Tensor: 1, Pipeline: 1, Micro: 2})
	near(t, "small model without the matrix of attention", gpu-runtimeBytes, 160+2*4*34)
}

func generated(t *testing.T, gpus int, room Room, names ...string) []string {
	t.Helper()
	s, err := ParseSpace(names)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range Generate(gpt, s, gpus, room) {
		if p.GPUs() != gpus {
			t.Errorf("%s is for %d GPUs; want %d", p, p.GPUs(), gpus)
		}
		if gpu, host := gpt.Memory(p); gpu > room.GPU && room.GPU > 0 || host > room.Host && room.Host > 0 {
			t.Errorf("%s needs %.0f and %.0f GB; the node has %.0f and %.0f", p, gpu/1e9, host/1e9, room.GPU/1e9, room.Host/1e9)
		}
		out = append(out, p.String())
	}
	return out
}

func TestGenerate(t *testing.T) {
	room := Room{GPUs: 8, GPU: 80e9, Host: 200e9}
	for _, c := range []struct {
		gpus  int
		names []string
		room  Room
		want  []string
	}{
		{1, nil, room, nil}, // 107 GB of state alone
		{1, []string{"zero-offload", "accumulate", "recompute"}, room, []string{"zero1/32+offload"}},
		{1, []string{"zero-offload", "accumulate"}, Room{GPUs: 8, GPU: 80e9, Host: 64e9}, nil},
		{8, []string{"fsdp", "accumulate"}, room, []string{"fsdp8/2"}},
		{8, []string{"tp<=4", "accumulate"}, room, []string{"dp4-tp2/8", "dp2-tp4/4"}},
		{4, []string{"pp"}, room, []string{"pp4/32"}},
		{4, []string{"tp<=8", "pp", "accumulate"}, Room{GPUs: 2, GPU: 60e9}, []string{"pp4/32", "tp2-pp2/32"}},
	} {
		if got := generated(t, c.gpus, c.room, c.names...); !slices.Equal(got, c.want) {
			t.Errorf("%v on %d GPUs: %v; want %v", c.names, c.gpus, got, c.want)
		}
	}
}

func TestChoice(t *testing.T) {
	c := &Choice{Model: gpt, Params: some, Node: 8, Plans: []Plan{
		{Data: 1, Tensor: 1, Pipeline: 16, Micro: 1}, {Data: 2, Tensor: 8, Pipeline: 1, Micro: 1}, {Data: 4, Tensor: 4, Pipeline: 1, Micro: 1},
	}}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		counts []int
		want   string
	}{{[]int{8, 8}, "dp2-tp8"}, {[]int{4, 12}, "dp4-tp4"}, {[]int{5, 11}, "pp16"}, {[]int{8}, ""}} {
		p, step, ok := c.Best(On(x.counts...))
		if ok != (x.want != "") || ok && (p.String() != x.want || step != some.Step(gpt, p, On(x.counts...))) {
			t.Errorf("on %v: %s, %v; want %q", x.counts, p, ok, x.want)
		}
	}
	for _, x := range []struct {
		gpus, nodes int
		want        Place
	}{
		{4, 1, On(4)}, {20, 1, On(8, 8, 4)}, {20, 3, On(8, 8, 4)}, {8, 2, On(4, 4)}, {5, 2, On(2, 3)}, {16, 4, On(4, 4, 4, 4)}, {2, 5, On(1, 1)},
	} {
		if got := c.Packed(x.gpus, x.nodes); got != x.want {
			t.Errorf("%d GPUs on %d nodes: %+v; want %+v", x.gpus, x.nodes, got, x.want)
		}
	}
	for want, break_ := range map[string]func(*Choice){
		"model: layers = 0":             func(c *Choice) { c.Model.Layers = 0 },
		"model: parameters = NaN":       func(c *Choice) { c.Model.Parameters = math.NaN() },
		"params: host = -1":             func(c *Choice) { c.Params.Host = -1 },
		"plans has 0 entries":           func(c *Choice) { c.Plans = nil },
		"plans[0]: micro = 0":           func(c *Choice) { c.Plans = []Plan{{Data: 1, Tensor: 1, Pipeline: 1}} },
		"plans[0]: sharding = 3; want ": func(c *Choice) { c.Plans = []Plan{{Data: 1, Tensor: 1, Pipeline: 1, Micro: 1, Sharding: 3}} },
		"node = 0":                      func(c *Choice) { c.Node = 0 },
	} {
		bad := *c
		break_(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want one with %q", err, want)
		}
	}
}

// Any text is a space or an error, and any space makes plans that fit.
func FuzzSpace(f *testing.F) {
	f.Add("fsdp tp<=8 pp", 16)
	f.Add("zero-offload accumulate recompute pp<=4 zero", 12)
	f.Add("tp<=0", 1)
	f.Fuzz(func(t *testing.T, text string, gpus int) {
		s, err := ParseSpace(strings.Fields(text))
		if err != nil || gpus < 1 || gpus > 256 {
			return
		}
		room := Room{GPUs: 8, GPU: 80e9, Host: 200e9}
		for _, p := range Generate(gpt, s, gpus, room) {
			if err := p.Validate(); err != nil || p.GPUs() != gpus {
				t.Errorf("%s for %d GPUs: %v", p, gpus, err)
			}
			if gpu, host := gpt.Memory(p); gpu > room.GPU || host > room.Host {
				t.Errorf("%s needs %g and %g bytes", p, gpu, host)
			}
			at := (&Choice{Node: 8}).Packed(gpus, 1)
			if step := some.Step(gpt, p, at); p.Fits(at) && !(step > 0 && step < 1e6) {
				t.Errorf("%s takes %g s", p, step)
			}
		}
	})
}
