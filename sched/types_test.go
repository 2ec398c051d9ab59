// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
)

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		text string
		want time.Duration
		back string // how it is printed; empty: as it was
	}{
		{"0s", 0, ""},
		{"0", 0, "0s"},
		{"90s", 90 * time.Second, "1m30s"},
		{"10m", 10 * time.Minute, ""},
		{"16h", 16 * time.Hour, ""},
		{"16h30m", 16*time.Hour + 30*time.Minute, ""},
		{"1h0m5s", time.Hour + 5*time.Second, ""},
		{"100ms", 100 * time.Millisecond, ""},
		{"7d", 7 * day, "168h"},
		{"1.5d", 36 * time.Hour, "36h"},
		{"1d12h", 36 * time.Hour, "36h"},
		{"-1d12h", -36 * time.Hour, "-36h"},
		{"-90s", -90 * time.Second, "-1m30s"},
	} {
		got, err := sched.ParseDuration(c.text)
		if err != nil || got != c.want {
			t.Errorf("ParseDuration(%q) = %s, %v; want %s", c.text, got, err, c.want)
		}
		want := c.back
		if want == "" {
			want = c.text
		}
		if s := sched.Duration(got).String(); s != want {
			t.Errorf("%q is printed as %q; want %q", c.text, s, want)
		}
	}
	for _, text := range []string{
		"", "10", "d", "1d2d", "h", "NaNd", "infd", "-infd", "1dd", "1d-1h", "1e9d", "200000d", "100000d2000000h", "1 d", "0x10d",
		strings.Repeat("1d", 1000), strings.Repeat("9", 400) + "d",
	} {
		if d, err := sched.ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%.20q) = %s; want an error", text, d)
		} else if len(err.Error()) > 200 {
			t.Errorf("ParseDuration(%.20q): the error has %d bytes", text, len(err.Error()))
		}
	}
}

func TestDurationJSON(t *testing.T) {
	type config struct {
		Lease sched.Duration `json:"lease"`
	}
	text, err := json.Marshal(config{sched.Duration(10 * time.Minute)})
	if err != nil || string(text) != `{"lease":"10m"}` {
		t.Errorf("Marshal = %s, %v; want {\"lease\":\"10m\"}", text, err)
	}
	var c config
	if err := json.Unmarshal([]byte(`{"lease":"2h"}`), &c); err != nil || c.Lease.D() != 2*time.Hour {
		t.Errorf("Unmarshal = %v, %v; want 2h", c, err)
	}
	for _, bad := range []string{`{"lease":600}`, `{"lease":"600"}`, `{"lease":null}`, `{"lease":["1h"]}`} {
		if err := json.Unmarshal([]byte(bad), &c); err == nil {
			t.Errorf("Unmarshal took %s", bad)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"0", "90s", "7d", "1d12h", "-1d12h", "1.5d", "1e5d", "106751d23h47m16.854775807s", "9223372036s", "1dd", "d1", "1µs", ".5d", "-d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := sched.ParseDuration(s)
		if err != nil {
			return
		}
		again, err := sched.ParseDuration(sched.Duration(d).String())
		if err != nil || again != d {
			t.Errorf("%q = %s is printed as %q, which gives %s, %v", s, d, sched.Duration(d), again, err)
		}
		if neg, pos := strings.HasPrefix(s, "-"), strings.Trim(s, "0123456789.dhmsnuµμ+") == ""; pos && d < 0 || neg && d > 0 {
			t.Errorf("%q = %s has the wrong sign", s, d)
		}
	})
}

// TestGPUSet holds the set against a plain list of numbers.
func TestGPUSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfDistinct(rapid.IntRange(0, 63), func(i int) int { return i }).Draw(t, "GPUs")
		slices.Sort(list)
		var g sched.GPUSet
		for _, i := range list {
			g |= 1 << i
		}
		if g.Len() != len(list) || !slices.Equal(g.Indexes(), list) {
			t.Fatalf("%v: Len = %d, Indexes = %v", list, g.Len(), g.Indexes())
		}
		i := rapid.IntRange(0, 63).Draw(t, "GPU")
		if g.Has(i) != slices.Contains(list, i) {
			t.Fatalf("%v: Has(%d) = %t", list, i, g.Has(i))
		}
		n := rapid.IntRange(0, 64).Draw(t, "n")
		if got, want := g.Lowest(n).Indexes(), list[:min(n, len(list))]; !slices.Equal(got, want) {
			t.Fatalf("%v: Lowest(%d) = %v; want %v", list, n, got, want)
		}
		if got, want := sched.FirstGPUs(n).Len(), n; got != want {
			t.Fatalf("FirstGPUs(%d) has %d", n, got)
		}
	})
	for want, g := range map[string]sched.GPUSet{
		"": 0, "0": 1, "0-3": 0b1111, "0-3,6": 0b1001111, "1,3,5": 0b101010, "63": 1 << 63, "0-63": math.MaxUint64,
	} {
		if got := g.String(); got != want {
			t.Errorf("%b is printed as %q; want %q", g, got, want)
		}
	}
}

func TestLevel(t *testing.T) {
	c, err := sched.NewCluster(testNodes())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		p    placement
		want sched.Level
	}{
		{nil, sched.NoLevel},
		{placement{on(0, 0b0011)}, sched.SameSlot},
		{placement{on(0, 0b0110)}, sched.SameMachine},
		{placement{on(0, 0b0100)}, sched.SameSlot},
		{placement{on(1, 0b1111)}, sched.SameSlot}, // no islands: all are one
		{placement{on(0, 1), on(1, 1)}, sched.SameRack},
		{placement{on(1, 1), on(2, 1)}, sched.CrossRack},
	} {
		if got := c.Level(x.p); got != x.want {
			t.Errorf("%s spans %s; want %s", x.p.Text(c), got, x.want)
		}
	}
	if c.MaxGPUs() != 8 {
		t.Errorf("the largest node has %d GPUs; want 8", c.MaxGPUs())
	}
}

func TestPlacementText(t *testing.T) {
	c, err := sched.NewCluster(testNodes())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		p    placement
		want string
	}{
		{nil, "-"},
		{placement{on(0, 0b1111), on(1, 0b11)}, "a[0-3] b[0-1]"},
		{placement{part(2, 1, 250)}, "c[0]x0.25"},
	} {
		if got := x.p.Text(c); got != x.want {
			t.Errorf("%v is printed as %q; want %q", x.p, got, x.want)
		}
	}
	p := placement{on(0, 0b11), on(1, 0b11)}
	if !p.SameNodes(placement{on(0, 0b1100), on(1, 0b11)}) || p.SameNodes(placement{on(1, 0b11), on(0, 0b11)}) || p.SameNodes(p[:1]) {
		t.Error("SameNodes: want the same numbers on the same nodes in the same order")
	}
	if p.Shared() || !(placement{on(0, 1), part(1, 1, 999)}).Shared() {
		t.Error("Shared: want it where a GPU is held in part")
	}
}

func TestReasonText(t *testing.T) {
	c, err := sched.NewCluster(testNodes())
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 7, 0, time.UTC)
	for _, x := range []struct {
		r    sched.Reason
		want string
	}{
		{sched.Reason{}, "runs"},
		{sched.Reason{Code: sched.Full, Need: 4, Have: 2}, "needs 4 GPUs; 2 are free in the cluster"},
		{sched.Reason{Code: sched.Full, Need: 4, Have: 2, Until: noon}, "needs 4 GPUs; 2 are free in the cluster until about 12:00"},
		{sched.Reason{Code: sched.Fragmented, Need: 4, Have: 2, Level: sched.SameMachine, Where: 3}, "needs 4 GPUs in one node; node c has 2 free"},
		{sched.Reason{Code: sched.Fragmented, Need: 2, Have: 1, Level: sched.SameSlot, Where: 1}, "needs 2 GPUs in one NVLink island; node a has 1 free"},
		{sched.Reason{Code: sched.Fragmented, Need: 9, Have: 5, Level: sched.SameRack, Where: 2}, "needs 9 GPUs in one rack; rack r1 has 5 free"},
		{sched.Reason{Code: sched.Fragmented, Need: 9, Have: 5, Level: sched.SameRack, Where: 99}, "needs 9 GPUs in one rack; the best place has 5 free"},
		{sched.Reason{Code: sched.OverQuota, Need: 4, Have: -3}, "needs 4 GPUs; its tenant may take 0 more"},
		{sched.Reason{Code: sched.Behind, Need: 4, Have: 3}, "needs 4 GPUs; jobs ahead of it leave 3"},
		{sched.Reason{Code: sched.BackOff, Until: noon}, "in back-off until its next attempt at 12:00:07"},
		{sched.Reason{Code: sched.Impossible, Need: 9, Have: 8, Level: sched.SameMachine}, "needs 9 GPUs in one node of an accepted type; this cluster has at most 8"},
		{sched.Reason{Code: sched.TurnWait, Until: noon}, "time-sliced; its next turn comes at 12:00:07"},
	} {
		if got := x.r.Text(c); got != x.want {
			t.Errorf("%+v:\n got %s\nwant %s", x.r, got, x.want)
		}
	}
	for _, code := range sched.Codes() {
		if text := (sched.Reason{Code: code}).Text(c); code != sched.Ok && text == code.String() {
			t.Errorf("code %s has no text", code)
		}
	}
}

// text is a type of a few names.
type text interface {
	comparable
	MarshalText() ([]byte, error)
	String() string
}

func checkNames[T text](t *testing.T, parse func(*T, []byte) error, values ...T) {
	t.Helper()
	for _, v := range values {
		b, err := v.MarshalText()
		if err != nil || string(b) != v.String() {
			t.Errorf("%v is written as %q, %v", v, b, err)
		}
		var back T
		if err := parse(&back, b); err != nil || back != v {
			t.Errorf("%q is read as %v, %v; want %v", b, back, err, v)
		}
	}
	var unknown T
	if err := parse(&unknown, []byte("nonsense")); err == nil || !strings.Contains(err.Error(), `"nonsense": want one of [`) {
		t.Errorf("nonsense is read as %v, %v; want an error with the choices", unknown, err)
	}
}

func TestNames(t *testing.T) {
	checkNames(t, (*sched.Level).UnmarshalText, sched.SameSlot, sched.SameMachine, sched.SameRack, sched.CrossRack)
	checkNames(t, (*sched.Phase).UnmarshalText, sched.Pending, sched.Running, sched.Finished, sched.Cancelled, sched.Failed)
	checkNames(t, (*sched.Code).UnmarshalText, sched.Codes()...)
	checkNames(t, (*sched.EventKind).UnmarshalText, sched.NodeJoined, sched.TenantSet, sched.JobSubmitted, sched.JobStarted,
		sched.JobStopped, sched.JobFailed, sched.JobEnded, sched.JobReported, sched.JobCheckpoint, sched.JobNoted)
	for got, want := range map[string]string{
		sched.Level(200).String(): "level(200)", sched.Phase(200).String(): "phase(200)",
		sched.Code(200).String(): "code(200)", sched.EventKind(200).String(): "event(200)",
	} {
		if got != want {
			t.Errorf("got %s; want %s", got, want)
		}
	}
}

func TestWakeBy(t *testing.T) {
	var p sched.Plan
	for _, minute := range []int{0, -5, 9, 7, 8} {
		p.WakeBy(start, start.Add(time.Duration(minute)*time.Minute))
	}
	if want := start.Add(7 * time.Minute); !p.Wake.Equal(want) {
		t.Errorf("wake = %s; want the earliest after now, %s", p.Wake, want)
	}
	for _, minute := range []int{0, 9, 8} {
		p.DueBy(start, start.Add(time.Duration(minute)*time.Minute))
	}
	if due, wake := start.Add(8*time.Minute), start.Add(7*time.Minute); !p.Due.Equal(due) || !p.Wake.Equal(wake) {
		t.Errorf("due %s, wake %s; want %s, and the earlier %s", p.Due, p.Wake, due, wake)
	}
	if p.DueBy(start, start.Add(time.Minute)); !p.Wake.Equal(start.Add(time.Minute)) {
		t.Errorf("wake = %s; want it no later than due, %s", p.Wake, p.Due)
	}
}

func TestNewClusterErrors(t *testing.T) {
	for _, c := range []struct {
		nodes []sched.Node
		want  string
	}{
		{[]sched.Node{{Name: "a"}, {Name: "a"}}, `node 1: name "a" is taken by another node; names must differ`},
		{[]sched.Node{{Name: "a", CPUs: -1}}, "node 0: cpus = -1; want 0 or more"},
		{[]sched.Node{{Name: "a", Memory: -1}}, "node 0: memory = -1, gpu_memory = 0; want 0 or more"},
		{[]sched.Node{{Name: "a", State: 9}}, "node 0: state = 9; want 0 (ready), 1 (cordoned) or 2 (down)"},
		{[]sched.Node{{Name: "a", GPUs: 2, Islands: []sched.GPUSet{0b110}}}, "node 0: islands = [1-2]; want disjoint sets of GPUs 0 to 1"},
	} {
		if _, err := sched.NewCluster(c.nodes); err == nil || err.Error() != c.want {
			t.Errorf("NewCluster: %v; want %s", err, c.want)
		}
	}
}
