// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/layer/spare"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

const day = 24 * time.Hour

// breaking is hardware that fails at the rates that edit sets, and else never.
func breaking(edit func(*sim.HardwareConfig)) *sim.HardwareConfig {
	h := sim.DefaultHardware()
	h.Lost, h.Hangs, h.Slow, h.Seed = 0, 0, 0, 1
	edit(&h)
	return &h
}

func runFailing(t *testing.T, cluster string, h *sim.HardwareConfig, work ...sim.Work) *sim.Result {
	t.Helper()
	c := config(t, cluster, "fifo")
	c.Hardware = h
	res := run(t, c, work...)
	if res.Unfinished != 0 {
		t.Fatalf("%d jobs have not ended", res.Unfinished)
	}
	s := res.Hardware
	elapsed := 0.0
	for _, j := range res.Jobs {
		elapsed += float64(j.GPUs) * (j.End - j.Start)
	}
	if sum := s.Kept + s.Saving + s.Undetected + s.Redone + s.Waiting + s.Restarting + s.Slowed; math.Abs(sum-elapsed) > 1 {
		t.Errorf("the times sum up to %.1f GPU-s; the jobs took %.1f", sum, elapsed)
	}
	return res
}

// roughly checks a figure that scatters.
func roughly(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if !(math.Abs(got-want) <= share*math.Abs(want)) {
		t.Errorf("%s = %g; want %g within %g %%", what, got, want, 100*share)
	}
}

// TestHealthyHardwareCostsOnlySaves: 20 s in half an hour, which the run takes longer.
func TestHealthyHardwareCostsOnlySaves(t *testing.T) {
	res := runFailing(t, "2x8", breaking(func(*sim.HardwareConfig) {}), job("a", 16, 0, day))
	saving := 20.0 / (1800 + 20)
	roughly(t, "ETTR", res.Hardware.ETTR, 1-saving, 1e-9)
	roughly(t, "end", res.Jobs[0].End, day.Seconds()/(1-saving), 1e-9)
	roughly(t, "ETTR of the job", res.Jobs[0].ETTR, res.Hardware.ETTR, 1e-9)
}

// TestAFailureCostsDetectionRestartAndHalfACheckpoint: the mean over many failures is
// what one can work out.
func TestAFailureCostsDetectionRestartAndHalfACheckpoint(t *testing.T) {
	for _, tc := range []struct {
		name   string
		edit   func(*sim.HardwareConfig)
		detect float64
	}{
		{"lost", func(h *sim.HardwareConfig) { h.Lost, h.NodeShare = 0.01, 0 }, 60},
		{"hang", func(h *sim.HardwareConfig) { h.Hangs = 0.01 }, 600},
	} {
		res := runFailing(t, "2x8", breaking(tc.edit), job("a", 16, 0, 400*day))
		s, gpus := res.Hardware, 16.0
		n := float64(s.Ranks + s.Hangs)
		roughly(t, tc.name+": failures in an hour", n/(res.Jobs[0].End/3600), 0.16, 0.1)
		// A failure may strike while the job stands still or restarts: then they share the cost.
		roughly(t, tc.name+": undetected", s.Undetected, n*tc.detect*gpus, 0.05)
		roughly(t, tc.name+": restarts", s.Restarting, n*300*gpus, 0.05)
		roughly(t, tc.name+": redone", s.Redone, n*900*gpus, 0.1)
		if s.Waiting != 0 || s.Slowed != 0 || res.Jobs[0].Failures == 0 {
			t.Errorf("%s: waited %g, slowed %g GPU-s, %d failures; want 0, 0 and some", tc.name, s.Waiting, s.Slowed, res.Jobs[0].Failures)
		}
		// Held GPU time is what was kept, and what was lost.
		roughly(t, tc.name+": lost", res.LostGPUs, res.GPUSeconds-s.Kept, 1e-6)
	}
}

// TestRollbackBoundsWhatAFailureLoses: to 20 s of the half hour between checkpoints.
func TestRollbackBoundsWhatAFailureLoses(t *testing.T) {
	res := runFailing(t, "2x8", breaking(func(h *sim.HardwareConfig) {
		h.Hangs, h.Rollback = 0.01, sched.Duration(20*time.Second)
	}), job("a", 16, 0, 100*day))
	roughly(t, "redone", res.Hardware.Redone, float64(res.Jobs[0].Failures)*20*16, 0.05)
}

// TestCheckpointsInMemory: a lost node takes them along, unless another one has them too;
// a lost rank does not.
func TestCheckpointsInMemory(t *testing.T) {
	for _, tc := range []struct {
		name         string
		share        float64 // of the ranks that are lost with their node
		nodes        int
		redone, load float64
	}{
		{"on the lost node", 1, 1, 900, 120}, {"on two nodes", 1, 2, 60, 10}, {"a rank is lost", 0, 1, 60, 10},
	} {
		res := runFailing(t, "4x8", breaking(func(h *sim.HardwareConfig) {
			h.Lost, h.NodeShare, h.Spares, h.Repair = 0.01, tc.share, 2, sched.Duration(time.Minute)
			h.MemoryEvery, h.MemoryNodes = sched.Duration(2*time.Minute), tc.nodes
		}), job("a", 16, 0, 100*day))
		s, n := res.Hardware, float64(res.Jobs[0].Failures)
		roughly(t, tc.name+": redone", s.Redone, n*tc.redone*16, 0.1)
		roughly(t, tc.name+": restarts", s.Restarting, n*(180+tc.load)*16, 0.05)
		roughly(t, tc.name+": saving", s.Saving/(s.Saving+s.Kept+s.Redone), 20.0/1820+1800.0/1820*0.5/120.5, 1e-6)
	}
}

// TestWaitsForNodesAreAsPriced: the waits of a gang on all nodes are those that package
// spare foresees.
func TestWaitsForNodesAreAsPriced(t *testing.T) {
	for spares := range 4 {
		c := spare.Case{Nodes: 50, Rate: 8 * 0.0025, Repair: time.Hour}
		res := runFailing(t, fmt.Sprintf("%dx8", c.Nodes+spares), breaking(func(h *sim.HardwareConfig) {
			h.Lost, h.NodeShare, h.Spares = 0.0025, 1, spares
			h.DetectLost, h.Launch, h.Load, h.Save, h.Checkpoint = 0, 0, 0, 0, sched.Duration(time.Second)
		}), job("a", 8*c.Nodes, 0, 80*day))
		roughly(t, fmt.Sprintf("waits with %d spares", spares), res.Hardware.Parts().Waiting, c.Still(spares), 0.15)
	}
}

// TestALostNodeIsWaitedForUnlessThereIsASpare: a gang that needs every node waits for the
// repair; spares make that rare.
func TestALostNodeIsWaitedForUnlessThereIsASpare(t *testing.T) {
	lost := func(h *sim.HardwareConfig) { h.Lost, h.NodeShare = 0.001, 1 }
	none := runFailing(t, "4x8", breaking(lost), job("a", 32, 0, 400*day)).Hardware
	roughly(t, "waiting for each node", none.Waiting/32/float64(none.Nodes), 3600, 0.15)
	spare := runFailing(t, "6x8", breaking(func(h *sim.HardwareConfig) { lost(h); h.Spares = 2 }), job("a", 32, 0, 400*day)).Hardware
	if spare.Nodes < 100 || spare.Waiting > none.Waiting/20 {
		t.Errorf("with 2 spares %d nodes are lost, and %.0f GPU-s waited; without %.0f", spare.Nodes, spare.Waiting, none.Waiting)
	}
}

// TestASlowNodeIsReplacedWhenFound: until then it slows the gang down.
func TestASlowNodeIsReplacedWhenFound(t *testing.T) {
	slow := func(h *sim.HardwareConfig) { h.Slow = 0.0005 }
	never := runFailing(t, "5x8", breaking(slow), job("a", 32, 0, 400*day)).Hardware
	if never.Found != 0 || never.Restarting != 0 || never.Slow < 100 {
		t.Errorf("%d of %d slow nodes found; want none of many", never.Found, never.Slow)
	}
	roughly(t, "slowed by each", never.Slowed/32/float64(never.Slow), 0.25*36000*0.8, 0.25) // one of five nodes is idle
	found := runFailing(t, "5x8", breaking(func(h *sim.HardwareConfig) { slow(h); h.DetectSlow = sched.Duration(time.Minute) }), job("a", 32, 0, 400*day)).Hardware
	if found.Found < 100 || found.Slowed > never.Slowed/50 {
		t.Errorf("%d of %d slow nodes found, %.0f GPU-s slowed; unfound %.0f", found.Found, found.Slow, found.Slowed, never.Slowed)
	}
}

// TestANodeFailsWithAllItsJobs: and jobs that cannot save start from the beginning.
func TestANodeFailsWithAllItsJobs(t *testing.T) {
	h := breaking(func(h *sim.HardwareConfig) { h.Lost, h.NodeShare = 0.01, 1 })
	saves := runFailing(t, "2x8", h, job("a", 4, 0, 12*time.Hour), job("b", 4, 0, 12*time.Hour), job("c", 8, 0, 12*time.Hour))
	a, b := saves.Jobs[0], saves.Jobs[1]
	if a.Failures == 0 || a.Failures != b.Failures {
		t.Errorf("two jobs of one node failed %d and %d times; want as often", a.Failures, b.Failures)
	}
	plain := job("a", 4, 0, 12*time.Hour)
	plain.Protected = true
	zero := runFailing(t, "2x8", h, plain, job("b", 4, 0, 12*time.Hour), job("c", 8, 0, 12*time.Hour)).Jobs[0]
	if zero.Failures == 0 || zero.End < a.End+time.Hour.Seconds() {
		t.Errorf("a job that cannot save ends after %.0f s and %d failures; one that can after %.0f s", zero.End, zero.Failures, a.End)
	}
}

// TestHardwareFailsTheSameWayForTheSameSeed: byte for byte, and another way for another.
func TestHardwareFailsTheSameWayForTheSameSeed(t *testing.T) {
	of := func(seed uint64) string {
		h := sim.DefaultHardware()
		h.Lost, h.Hangs, h.Slow, h.Spares, h.Seed = 1e-3, 1e-3, 1e-3, 1, seed
		text, err := json.Marshal(runFailing(t, "5x8", &h, job("a", 16, 0, 10*day), job("b", 16, 0, 10*day)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if one, again := of(1), of(1); one != again || one == of(2) {
		t.Error("a run depends on more, or on less, than the seed")
	}
}

// TestARunWithAJobThatNeverFitsEnds although hardware fails for ever.
func TestARunWithAJobThatNeverFitsEnds(t *testing.T) {
	c := config(t, "2x8", "fifo")
	c.Hardware = breaking(func(h *sim.HardwareConfig) { h.Lost, h.Spares = 1, 1 })
	if res := run(t, c, job("a", 16, 0, day)); res.Unfinished != 1 {
		t.Errorf("%d jobs have not ended; want 1", res.Unfinished)
	}
}

func TestReadHardware(t *testing.T) {
	h, err := sim.ReadHardware(strings.NewReader(`{"lost_per_gpu_hour": 3e-5, "repair": "6h", "spares": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	want := sim.DefaultHardware()
	want.Lost, want.Repair, want.Spares = 3e-5, sched.Duration(6*time.Hour), 2
	if *h != want {
		t.Errorf("read %+v, want %+v", *h, want)
	}
	for text, want := range map[string]string{
		`{"lost": 1}`:                `unknown field "lost"`,
		`{"lost_per_gpu_hour": -1}`:  "lost_per_gpu_hour = -1; want 0 to 10",
		`{"hangs_per_gpu_hour": 11}`: "hangs_per_gpu_hour = 11; want 0 to 10",
		`{"slow_speed": 0}`:          "slow_speed = 0; want 0.01 to 1",
		`{"checkpoint": "0s"}`:       "checkpoint = 0s; want 1s to",
		`{"repair": "-1h"}`:          "repair",
		`{"spares": -1}`:             "spares = -1; want 0 to",
		`{"memory_nodes": 0}`:        "memory_nodes = 0; want 1 to",
		`{} {}`:                      "more than one JSON object",
		``:                           "EOF",
	} {
		if _, err := sim.ReadHardware(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	c := config(t, "2x8", "fifo")
	c.Hardware = breaking(func(h *sim.HardwareConfig) { h.Spares = 2 })
	if _, _, err := sim.Run(c, &sim.Workload{Start: start}); err == nil || !strings.Contains(err.Error(), "less than the 2 nodes") {
		t.Errorf("as many spares as nodes: %v", err)
	}
}

// FuzzReadHardware: what is read can be simulated.
func FuzzReadHardware(f *testing.F) {
	f.Add(`{"lost_per_gpu_hour": 10, "hangs_per_gpu_hour": 10, "slow_per_gpu_hour": 10, "detect_slow": "1ns", "repair": "1ns"}`)
	f.Add(`{"spares": 1, "save": "8000h", "checkpoint": "1s", "node_share": 1}`)
	f.Fuzz(func(t *testing.T, text string) {
		h, err := sim.ReadHardware(strings.NewReader(text))
		if err != nil || h.Spares > 1 {
			return
		}
		c := config(t, "2x2", "fifo")
		c.Hardware, c.Until = h, time.Hour
		res := run(t, c, job("a", 2, 0, 30*time.Minute))
		if e := res.Hardware.ETTR; !(e >= 0 && e <= 1) {
			t.Errorf("%s: ETTR = %g; want 0 to 1", text, e)
		}
	})
}
