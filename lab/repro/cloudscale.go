// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/autoscale"
	"github.com/fairway-gpu/fairway/sim/profile"
	"github.com/fairway-gpu/fairway/sim/trace"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// paperTrade is the Pollux paper's result for ImageNet: goodput relative to
// throughput.
var paperTrade = Trade{Cost: 0.75, Time: 1.06}

// Band is a pair of shares of the goodput of a single GPU: above U the cluster
// grows, to about L.
type Band struct{ U, L float64 }

func (b Band) String() string { return fmt.Sprintf("%.2f, %.2f", b.U, b.L) }

// The band of the Pollux paper, and ours.
func paperBand() Band { return Band{2.0 / 3, 0.5} }

func ownBand() Band {
	c := autoscale.Default(1, 1)
	return Band{c.U, c.L}
}

// Bands returns the bands to compare, from small to large clusters.
func Bands() []Band {
	return []Band{
		paperBand(), {0.60, 0.45}, {0.60, 0.40}, {0.55, 0.45}, {0.55, 0.40}, {0.55, 0.35},
		{0.50, 0.40}, {0.50, 0.35}, {0.50, 0.30}, {0.45, 0.35}, {0.45, 0.30}, {0.40, 0.30},
	}
}

// near returns the band and its neighbours. Nodes are whole and restarts cost
// minutes, so a single band may be lucky; the mean over these is less so.
func (b Band) near() []Band {
	const off = 0.02
	out := []Band{b}
	for _, u := range []float64{-off, 0, off} {
		for _, l := range []float64{-off, 0, off} {
			if u != 0 || l != 0 {
				out = append(out, Band{b.U + u, b.L + l})
			}
		}
	}
	return out
}

// ScaledModels are trained alone in a cloud; the first is the paper's.
var ScaledModels = []string{"imagenet", "yolov3", "deepspeech2", "bert"}

// Scaled is one job, alone in a cloud, under several rules.
type Scaled struct {
	Model    string
	Measured bool // simulated with measured profiles, not with the zoo
	// Throughput is the paper's baseline: nodes and batch size by throughput.
	// Tuned scales nodes by throughput but the batch size by goodput.
	Throughput, Tuned *sim.Result
	Goodput           []BandRuns
	Utility           *sim.Result
}

// BandRuns are the runs with a band and its neighbours; the band itself is first.
type BandRuns struct {
	Band Band
	Runs []*sim.Result
}

// Against returns cost and time relative to the paper's baseline.
func (s Scaled) Against(r *sim.Result) Trade {
	return Trade{r.Autoscale.Cost / s.Throughput.Autoscale.Cost, r.AvgJCT / s.Throughput.AvgJCT}
}

// Mean returns the mean of the runs relative to the paper's baseline, and the
// range of their times.
func (s Scaled) Mean(b BandRuns) (mean Trade, least, most float64) {
	least = math.Inf(1)
	for _, r := range b.Runs {
		t := s.Against(r)
		mean.Cost += t.Cost / float64(len(b.Runs))
		mean.Time += t.Time / float64(len(b.Runs))
		least, most = min(least, t.Time), max(most, t.Time)
	}
	return mean, least, most
}

// With returns the runs with a band, if any.
func (s Scaled) With(b Band) BandRuns {
	i := slices.IndexFunc(s.Goodput, func(r BandRuns) bool { return r.Band == b })
	if i < 0 {
		return BandRuns{Band: b}
	}
	return s.Goodput[i]
}

// Trade is cost and time relative to a baseline.
type Trade struct{ Cost, Time float64 }

func (t Trade) off(other Trade) float64 { return math.Hypot(t.Cost-other.Cost, t.Time-other.Time) }

// Shared are workloads of many jobs on a cluster that is scaled by a rule or has a fixed
// size: figures of each, in seconds and units of cost.
type Shared struct {
	Rule                string
	Cost, JCT, Makespan []float64
}

// Autoscaling is the reproduction of the cloud experiments.
type Autoscaling struct {
	Alone  []Scaled
	Shared []Shared
	Noise  []NoiseRow // with measured profiles only
}

// longest bounds the time of the default, relative to throughput.
const longest = 1.10

// Choice returns the band closest to the paper on its model, among those within
// longest on every model of the zoo. Measured profiles are not used: they check
// the choice.
func (a *Autoscaling) Choice() (best Band) {
	nearest := math.Inf(1)
	for _, b := range a.Alone[0].Goodput {
		slow := slices.ContainsFunc(a.Alone, func(s Scaled) bool {
			mean, _, _ := s.Mean(s.With(b.Band))
			return !s.Measured && mean.Time > longest
		})
		mean, _, _ := a.Alone[0].Mean(b)
		if d := mean.off(paperTrade); !slow && d < nearest {
			best, nearest = b.Band, d
		}
	}
	return best
}

// NoiseRow is the measured noise scale of ImageNet in one epoch.
type NoiseRow struct {
	Epoch int
	Phi   []float64 // in the order of noiseBatches
}

// noiseBatches are among the batch sizes at which the artifact measured.
var noiseBatches = []int{200, 800, 3200, 12800}

// Autoscale runs the cloud experiments with these bands on the models of the zoo
// and, if there is an artifact, on its measured profiles.
func Autoscale(a *Artifact, bands []Band) (*Autoscaling, error) {
	out := &Autoscaling{}
	truths := []*profile.Tables{nil}
	if a != nil {
		truths = append(truths, a.tables)
		var err error
		if out.Noise, err = noiseOf(a.tables); err != nil {
			return nil, err
		}
	}
	for _, t := range truths {
		for _, m := range ScaledModels {
			s, err := scaleModel(m, t, bands)
			if err != nil {
				return nil, err
			}
			out.Alone = append(out.Alone, s)
		}
	}
	var err error
	out.Shared, err = scaleMany()
	return out, err
}

func scaleModel(name string, truth *profile.Tables, bands []Band) (Scaled, error) {
	s := Scaled{Model: name, Measured: truth != nil}
	z, err := zoo.Builtin()
	if err != nil {
		return s, err
	}
	m, ok := z.Model(name)
	if !ok {
		return s, fmt.Errorf("no model %q in the zoo", name)
	}
	run := func(rule autoscale.Rule, b Band, batch int) *sim.Result {
		if err != nil {
			return nil
		}
		var res *sim.Result
		res, err = simulate("pollux", "16x4", oneJob(m, batch), func(c *sim.Config) {
			a := sim.DefaultAutoscale(1, 16)
			a.Rule, a.U, a.L = rule, b.U, b.L
			c.Autoscale, c.Profiles, c.Optimistic = &a, truth, truth != nil
		})
		if err != nil {
			err = fmt.Errorf("model %s, rule %s: %w", name, rule, err)
		}
		return res
	}
	// The largest batch has the most throughput on any number of GPUs.
	s.Throughput = run(autoscale.Throughput, paperBand(), m.Batch.Max)
	s.Tuned = run(autoscale.Throughput, paperBand(), 0)
	for _, b := range bands {
		runs := BandRuns{Band: b}
		for _, n := range b.near() {
			runs.Runs = append(runs.Runs, run(autoscale.Goodput, n, 0))
		}
		s.Goodput = append(s.Goodput, runs)
	}
	s.Utility = run(autoscale.Utility, paperBand(), 0)
	return s, err
}

// oneJob is a job for up to 64 GPUs; with batch 0 it adapts its batch size.
func oneJob(m *zoo.Model, batch int) *sim.Workload {
	return &sim.Workload{Name: m.Name, Start: trace.Epoch, Work: []sim.Work{{
		Spec: sched.Spec{
			ID: sched.JobID(m.Name), Model: m.Name, GPUs: 1, MinGPUs: 1, MaxGPUs: 64, Submitted: trace.Epoch,
			Batch: sched.Batch{
				Initial: m.Batch.Initial, Max: m.Batch.Max, LocalMin: m.Batch.LocalMin, LocalMax: m.Batch.LocalMax,
				Adapt: batch == 0,
			},
		},
		BatchSize: batch,
	}}}
}

// sharedJobs is how many jobs a workload of many jobs has, and sharedSeeds how many there
// are.
const (
	sharedJobs  = 40
	sharedSeeds = 5
)

func scaleMany() ([]Shared, error) {
	var out []Shared
	for _, v := range []struct {
		rule autoscale.Rule
		band Band
	}{{}, {autoscale.Utility, ownBand()}, {autoscale.Goodput, paperBand()}, {autoscale.Goodput, ownBand()}} {
		var s Shared
		switch v.rule {
		case "":
			s.Rule = "none: 16 nodes"
		case autoscale.Goodput:
			s.Rule = string(v.rule) + " " + v.band.String()
		default:
			s.Rule = string(v.rule)
		}
		for seed := range uint64(sharedSeeds) {
			if err := s.add(v.rule, v.band, seed+1); err != nil {
				return nil, fmt.Errorf("%d jobs, rule %s, seed %d: %w", sharedJobs, v.rule, seed+1, err)
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// add runs the workload of a seed; without a rule the cluster has its full size.
func (s *Shared) add(rule autoscale.Rule, band Band, seed uint64) error {
	w, err := trace.Generate(trace.Gen{Kind: trace.KindPollux, Jobs: sharedJobs, GPUs: 64, Seed: seed})
	if err != nil {
		return err
	}
	a := sim.DefaultAutoscale(1, 16)
	res, err := simulate("pollux", "16x4", w, func(c *sim.Config) {
		if rule != "" {
			a.Rule, a.U, a.L = rule, band.U, band.L
			c.Autoscale = &a
		}
	})
	if err != nil {
		return err
	}
	cost := 16 * a.Price * res.Makespan / 3600
	if res.Autoscale != nil {
		cost = res.Autoscale.Cost
	}
	s.Cost, s.JCT, s.Makespan = append(s.Cost, cost), append(s.JCT, res.AvgJCT), append(s.Makespan, res.Makespan)
	return nil
}

func noiseOf(t *profile.Tables) ([]NoiseRow, error) {
	m, ok := t.On(ScaledModels[0], "")
	if !ok {
		return nil, fmt.Errorf("no profile of model %q", ScaledModels[0])
	}
	var rows []NoiseRow
	for _, epoch := range []int{1, 10, 30, 45, 60, 90} {
		r := NoiseRow{Epoch: epoch}
		for _, batch := range noiseBatches {
			sqr, variance, err := m.Grad(batch, epoch-1)
			if err != nil {
				return nil, fmt.Errorf("noise in epoch %d at batch size %d: %w", epoch, batch, err)
			}
			r.Phi = append(r.Phi, float64(m.Limits().Initial)*variance/sqr)
		}
		rows = append(rows, r)
	}
	return rows, nil
}
