// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// ward is a quarantine with nodes n00, n01, ...
type ward struct {
	*Quarantine
	now time.Time
}

func newWard(t testing.TB, nodes int) *ward {
	t.Helper()
	q, err := NewQuarantine(DefaultQuarantine())
	if err != nil {
		t.Fatal(err)
	}
	w := &ward{q, epoch}
	for i := range nodes {
		w.Apply(NodeEvent{At: epoch, Kind: NodeAdded, Nodes: []string{fmt.Sprintf("n%02d", i)}})
	}
	return w
}

func (w *ward) end(kind Happening, node, job, user string, c Category) []NodeChange {
	w.now = w.now.Add(time.Minute)
	return w.Apply(NodeEvent{At: w.now, Kind: kind, Nodes: []string{node}, Job: job, User: user, Finding: Finding{Category: c, Text: "it broke"}})
}

// background lets every node end some attempts well.
func (w *ward) background(nodes, attempts int) {
	for i := range nodes {
		for k := range attempts {
			w.Apply(NodeEvent{At: w.now, Kind: AttemptDone, Nodes: []string{fmt.Sprintf("n%02d", i)}, Job: fmt.Sprintf("good%d", k), User: "zoe"})
		}
	}
}

func TestConviction(t *testing.T) {
	for _, c := range []struct {
		name     string
		category Category
		jobs     int
		users    int
		want     int // failures until the node is out; 0: never
	}{
		{"different jobs of different users", Infrastructure, 10, 10, 3},
		{"two users", Infrastructure, 10, 2, 3},
		{"one job again and again", Infrastructure, 1, 1, 0},
		{"one user's jobs", Infrastructure, 10, 1, 0},
		{"the engine weighs half", Engine, 10, 10, 6},
		{"users' bugs", User, 9, 9, 0},
	} {
		w := newWard(t, 20)
		w.background(20, 5)
		got := 0
		for i := 1; i <= 10 && got == 0; i++ {
			changes := w.end(AttemptLost, "n07", fmt.Sprint("job", i%c.jobs), fmt.Sprint("user", i%c.users), c.category)
			if len(changes) == 1 && changes[0].State == Quarantined && changes[0].Node == "n07" {
				got = i
			}
		}
		if got != c.want {
			t.Errorf("%s: out after %d failures; want %d", c.name, got, c.want)
		}
	}
}

func TestHardwareConvictsAtOnce(t *testing.T) {
	w := newWard(t, 20)
	e := NodeEvent{At: epoch, Kind: AttemptLost, Nodes: []string{"n03"}, Job: "a", User: "u",
		Finding: Finding{Category: Infrastructure, Node: true, Text: "a GPU fell off the bus"}}
	got := w.Apply(e)
	if len(got) != 1 || got[0].State != Quarantined || !got[0].Until.Equal(epoch.Add(time.Hour)) || !strings.Contains(got[0].Why, "bus") {
		t.Errorf("changes %+v; want n03 out for an hour", got)
	}
	e.Nodes = []string{"n04", "n05"}
	if got := w.Apply(e); len(got) != 0 {
		t.Errorf("changes %+v; want none while two nodes share the blame", got)
	}
}

func TestOnlyUserOfTheCluster(t *testing.T) {
	w := newWard(t, 4)
	for i := range 20 {
		w.Apply(NodeEvent{At: epoch, Kind: AttemptDone, Nodes: []string{"n01"}, Job: fmt.Sprint("g", i), User: "ana"})
	}
	out := false
	for i := range 5 {
		out = out || len(w.end(AttemptLost, "n00", fmt.Sprint("j", i), "ana", Infrastructure)) > 0
	}
	if !out {
		t.Error("five jobs of the only user failed on one node, and it stays; want it out")
	}
}

func TestLifeOfAQuarantine(t *testing.T) {
	w := newWard(t, 20)
	broken := func() []NodeChange {
		return w.Apply(NodeEvent{At: w.now, Kind: AttemptLost, Nodes: []string{"n01"}, Job: "a", User: "u", Finding: Finding{Category: Infrastructure, Node: true}})
	}
	step := func(what string, got []NodeChange, want NodeState, until time.Time) {
		t.Helper()
		if len(got) != 1 || got[0].State != want || !got[0].Until.Equal(until) || w.State("n01") != want {
			t.Fatalf("%s: %+v, state %s; want %s until %v", what, got, w.State("n01"), want, until)
		}
	}
	tick := func(d time.Duration) []NodeChange {
		w.now = w.now.Add(d)
		return w.Apply(NodeEvent{At: w.now, Kind: Tick})
	}
	step("flagged", broken(), Quarantined, epoch.Add(time.Hour))
	if got := broken(); len(got) != 0 {
		t.Fatalf("fails while out: %+v; want nothing", got)
	}
	if got := tick(59 * time.Minute); len(got) != 0 {
		t.Fatalf("before its end: %+v; want nothing", got)
	}
	step("its time is over", tick(time.Minute), Probing, w.now.Add(15*time.Minute))
	step("the probe fails", w.Apply(NodeEvent{At: w.now, Kind: ProbeBad, Nodes: []string{"n01"}}), Quarantined, w.now.Add(2*time.Hour))
	step("over again", tick(2*time.Hour), Probing, w.now.Add(15*time.Minute))
	step("the probe succeeds", w.Apply(NodeEvent{At: w.now, Kind: ProbeGood, Nodes: []string{"n01"}}), InUse, time.Time{})
	step("fails on probation", w.end(AttemptLost, "n01", "b", "v", Infrastructure), Quarantined, w.now.Add(4*time.Hour))
	step("over a third time", tick(4*time.Hour), Probing, w.now.Add(15*time.Minute))
	step("nobody answers", tick(15*time.Minute), InUse, time.Time{})
	tick(100 * 24 * time.Hour)
	step("after a long good time", broken(), Quarantined, w.now.Add(time.Hour))
	step("an operator pardons", w.Apply(NodeEvent{At: w.now, Kind: Cleared, Nodes: []string{"n01"}}), InUse, time.Time{})
}

func TestShareOfNodes(t *testing.T) {
	for _, c := range []struct{ nodes, want int }{{1, 0}, {2, 1}, {9, 1}, {20, 2}, {35, 3}} {
		w := newWard(t, c.nodes)
		withheld := 0
		for round := range 2 {
			for i := range c.nodes {
				for _, change := range w.Apply(NodeEvent{At: epoch, Kind: AttemptLost, Nodes: []string{fmt.Sprintf("n%02d", i)}, Job: fmt.Sprint(round),
					Finding: Finding{Category: Infrastructure, Node: true}}) {
					if change.State == Withheld {
						withheld++
					}
				}
			}
		}
		if got := len(w.Out()); got != c.want || withheld != c.nodes-c.want {
			t.Errorf("%d nodes, all broken: %d out, %d withheld; want %d out, %d withheld, each said once", c.nodes, got, withheld, c.want, c.nodes-c.want)
		}
	}
}

// TestPardonOfWithheld: a node that would be out if others were not, and that an
// operator looks after, is spoken of again when it fails anew.
func TestPardonOfWithheld(t *testing.T) {
	w := newWard(t, 2)
	fails := func(node string) []NodeChange {
		return w.Apply(NodeEvent{At: epoch, Kind: AttemptLost, Nodes: []string{node}, Job: "a", Finding: Finding{Category: Infrastructure, Node: true}})
	}
	said := func(changes []NodeChange) bool { return len(changes) == 1 && changes[0].State == Withheld }
	fails("n00")
	if !said(fails("n01")) || said(fails("n01")) {
		t.Error("that a node is withheld is not said, or said twice")
	}
	w.Apply(NodeEvent{At: epoch, Kind: Cleared, Nodes: []string{"n01"}})
	if !said(fails("n01")) {
		t.Error("after the pardon it is not said again")
	}
}

// TestFalsePositives measures the rule: failures that affect all nodes alike flag
// hardly any node, and a node that makes every second attempt fail is found soon.
func TestFalsePositives(t *testing.T) {
	const nodes, days, perHour = 50, 20, 40
	r := rand.New(rand.NewPCG(7, 11))
	w := newWard(t, nodes)
	flagged := map[string]int{}
	found := -1
	bad := 0
	for i := range days * 24 * perHour {
		now := epoch.Add(time.Duration(i) * time.Hour / perHour)
		node := fmt.Sprintf("n%02d", r.IntN(nodes))
		e := NodeEvent{At: now, Kind: AttemptDone, Nodes: []string{node}, Job: fmt.Sprint("j", i), User: fmt.Sprint("u", r.IntN(30))}
		category := []Category{User, User, User, Engine, Infrastructure}[r.IntN(5)]
		broken := i > days*24*perHour/2 && node == "n13"
		if broken && w.State(node) == InUse && found < 0 {
			bad++
		}
		if r.Float64() < 0.15 || broken && r.Float64() < 0.5 {
			e.Kind, e.Finding = AttemptLost, Finding{Category: category, Text: "x"}
			if broken {
				e.Finding.Category = Infrastructure
			}
		}
		if w.State(node) != InUse {
			continue
		}
		for _, c := range w.Apply(e) {
			if c.State == Quarantined {
				flagged[c.Node]++
				if c.Node == "n13" && found < 0 && broken {
					found = bad
				}
			}
		}
	}
	wrong := 0
	for node, n := range flagged {
		if node != "n13" {
			wrong += n
		}
	}
	t.Logf("%d attempts on %d nodes: %d false positives; the bad node found after %d attempts on it", days*24*perHour, nodes, wrong, found)
	if wrong > 3 {
		t.Errorf("%d false positives in %d days: %v; want at most 3", wrong, days, flagged)
	}
	if found < 0 || found > 20 {
		t.Errorf("the bad node was found after %d attempts; want 20 at most", found)
	}
}

// TestOutage: when all nodes fail alike, the nodes are not to blame.
func TestOutage(t *testing.T) {
	const nodes = 50
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := newWard(t, nodes)
		w.background(nodes, 4)
		flagged := 0
		for i := range 400 { // the file server is away: every attempt fails
			for _, c := range w.end(AttemptLost, fmt.Sprintf("n%02d", r.IntN(nodes)), fmt.Sprint("j", i), fmt.Sprint("u", r.IntN(30)), Infrastructure) {
				if c.State == Quarantined {
					flagged++
				}
			}
		}
		if flagged > 1 {
			t.Errorf("seed %d: %d nodes flagged for an outage of all; want one at most", seed, flagged)
		}
	}
}

// TestQuarantineRules: never too many nodes out, and the same events give the
// same changes.
func TestQuarantineRules(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b := newWard(t, 12), newWard(t, 12)
		now := epoch
		kinds := []Happening{AttemptDone, AttemptLost, AttemptLost, AttemptLost, ProbeGood, ProbeBad, Cleared, Tick, NodeAdded}
		for range rapid.IntRange(1, 200).Draw(r, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 120).Draw(r, "minutes")) * time.Minute)
			e := NodeEvent{At: now, Kind: rapid.SampledFrom(kinds).Draw(r, "kind"), Job: rapid.StringMatching("[a-f]").Draw(r, "job"), User: rapid.StringMatching("[x-z]").Draw(r, "user"),
				Nodes:   []string{fmt.Sprintf("n%02d", rapid.IntRange(0, 11).Draw(r, "node"))},
				Finding: Finding{Category: rapid.SampledFrom([]Category{User, Engine, Infrastructure, Unknown}).Draw(r, "category"), Node: rapid.Bool().Draw(r, "hard")}}
			x, y := a.Apply(e), b.Apply(e)
			if !slices.Equal(x, y) {
				r.Fatalf("%+v and %+v", x, y)
			}
			if out := len(a.Out()); out > 1 {
				r.Fatalf("%d of 12 nodes are out; want one at most", out)
			}
		}
	})
}

func TestPoissonTail(t *testing.T) {
	for _, c := range []struct{ k, mean, want float64 }{
		{0, 1, 1}, {1, 1, 1 - math.Exp(-1)}, {2, 1, 1 - 2*math.Exp(-1)}, {1, 0.001, 1 - math.Exp(-0.001)},
		{3.9, 1, 1 - 2.5*math.Exp(-1)}, {1, 50, 1}, {5, 0.01, 8.264e-13},
	} {
		if got := poissonTail(c.k, c.mean); math.Abs(got-c.want) > 1e-3*c.want {
			t.Errorf("%v or more of %v: %v; want %v", c.k, c.mean, got, c.want)
		}
	}
}

func TestBadQuarantine(t *testing.T) {
	for _, change := range []func(*QuarantineConfig){
		func(c *QuarantineConfig) { c.Window = 0 },
		func(c *QuarantineConfig) { c.Longest = c.Base / 2 },
		func(c *QuarantineConfig) { c.MinJobs = 0 },
		func(c *QuarantineConfig) { c.Alpha = math.NaN() },
		func(c *QuarantineConfig) { c.MaxShare = 1.5 },
	} {
		c := DefaultQuarantine()
		change(&c)
		if _, err := NewQuarantine(c); err == nil {
			t.Errorf("%+v: no error; want one", c)
		}
	}
}
