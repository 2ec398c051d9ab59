// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// Published are the pairs that the authors of Lucid (ASPLOS'23) measured on an RTX
// 3090. Nothing is fitted to them: they show what a model fitted to our own pairs is
// worth on another GPU, another host, and jobs that load real data.
type Published struct {
	Pairs []Pair
	// Score is Lucid's sharing score of each job: 0 (tiny), 1 (medium) or 2 (jumbo).
	Score map[Key]int
}

// The files of the artifact.
const (
	publishedSolo  = "single_data.csv"
	publishedPairs = "colocate_info.csv"
)

// ReadPublished reads the artifact's files from a folder.
func ReadPublished(folder fs.FS) (*Published, error) {
	p := &Published{Score: map[Key]int{}}
	loads := map[Key]interfere.Load{}
	err := readTable(folder, publishedSolo, []string{"model", "dataset", "batchsize", "amp", "speed", "gpu_util", "label"}, func(t *table) error {
		k, err := t.published("")
		if err != nil {
			return err
		}
		util, err := t.number("gpu_util", 0, 100)
		if err != nil {
			return err
		}
		rate, err := t.number("speed", 1e-3, 1e9) // examples each second
		if err != nil {
			return err
		}
		score, err := t.number("label", 0, 2)
		loads[k] = interfere.Load{Util: util / 100, Step: float64(k.Batch) / rate}
		p.Score[k] = int(score)
		return err
	})
	if err != nil {
		return nil, err
	}
	want := []string{"model1", "dataset1", "batchsize1", "amp1", "speed1", "model2", "dataset2", "batchsize2", "amp2", "speed2"}
	err = readTable(folder, publishedPairs, want, func(t *table) error {
		pair := Pair{Session: publishedPairs, HostSlower: 1}
		for i, suffix := range []string{"1", "2"} {
			k, err := t.published(suffix)
			if err != nil {
				return err
			}
			load, ok := loads[k]
			if !ok {
				return t.fail("model"+suffix, "a job of "+publishedSolo)
			}
			speed, err := t.number("speed"+suffix, 1e-3, 100) // relative to alone
			if err != nil {
				return err
			}
			pair.Sides[i] = Side{k, load, 1 / speed}
		}
		p.Pairs = append(p.Pairs, pair)
		return nil
	})
	return p, err
}

// readTable calls a function for every row of a file.
func readTable(folder fs.FS, name string, want []string, row func(*table) error) error {
	file, err := folder.Open(name)
	if err != nil {
		return fmt.Errorf("read published pairs: %w", err)
	}
	defer file.Close()
	return eachRow(file, name, want, row)
}

// published reads which job a row is about: model, data set, batch size and whether
// it trains in mixed precision.
func (t *table) published(suffix string) (Key, error) {
	k := Key{Model: strings.Join([]string{t.text("model" + suffix), t.text("dataset" + suffix), "amp" + t.text("amp"+suffix)}, "/")}
	var err error
	k.Batch, err = t.batch("batchsize" + suffix)
	return k, err
}

// Cut is what a rule calls safe.
type Cut struct {
	Method string `json:"method"`
	// Limit is the bound on slowdown below which a pair is called safe; 0: the rule
	// has none.
	Limit  float64 `json:"limit,omitempty"`
	Called int     `json:"called"`
	Right  int     `json:"right"`          // called safe, and both jobs are
	Mean   int     `json:"mean,omitempty"` // called safe, and the mean speed of both is; 0: not counted
	// Faster is called safe, and a job is as much faster together as would be unsafe if
	// it were slower, which only an error of measurement can be.
	Faster int `json:"faster,omitempty"`
}

// Transfer is how well rules do on published pairs.
type Transfer struct {
	Speed float64 `json:"speed"` // of a job that counts as safe, relative to alone
	Pairs int     `json:"pairs"`
	Safe  int     `json:"safe"`      // pairs of which both jobs keep that speed
	Mean  int     `json:"safe_mean"` // pairs whose mean speed is that
	Cuts  []Cut   `json:"rules"`
	// Wrong are the pairs that the loosest limit calls safe and that are not.
	Wrong []Pair `json:"wrong"`
}

// SafeSpeed is the speed that Lucid calls free of interference.
const SafeSpeed = 0.85

// cautious are the limits that a bound is held against: that of the speed itself,
// the default, and stricter ones.
var cautious = []float64{1 / SafeSpeed, interfere.DefaultLimit, 1.12, 1.1, 1.095}

// Judge compares a model, the published curve and Lucid's own score.
func (p *Published) Judge(m *interfere.Model) *Transfer {
	t := &Transfer{Speed: SafeSpeed, Pairs: len(p.Pairs)}
	for _, pair := range p.Pairs {
		both, mean := safety(pair)
		t.Safe += count(both)
		t.Mean += count(mean)
	}
	rule := func(method string, limit float64, safe func(Pair) bool) {
		c := Cut{Method: method, Limit: limit}
		for _, pair := range p.Pairs {
			if safe(pair) {
				both, mean := safety(pair)
				c.Called, c.Right, c.Mean = c.Called+1, c.Right+count(both), c.Mean+count(mean)
				c.Faster += count(min(pair.Sides[0].Slowdown, pair.Sides[1].Slowdown) < SafeSpeed)
			}
		}
		t.Cuts = append(t.Cuts, c)
	}
	for _, limit := range cautious {
		rule(Ours, limit, func(pair Pair) bool { return callsSafe(m, pair, limit) })
	}
	for _, pair := range p.Pairs {
		if both, _ := safety(pair); !both && callsSafe(m, pair, cautious[0]) {
			t.Wrong = append(t.Wrong, pair)
		}
	}
	t.Cuts = append(t.Cuts, p.chosen(m))
	rule("ours, for MPS", interfere.DefaultLimit, func(pair Pair) bool { // the files do not say how GPUs were shared
		pair.Mode = interfere.MPS
		return callsSafe(m, pair, interfere.DefaultLimit)
	})
	rule("published curve", interfere.DefaultLimit, func(pair Pair) bool { return callsSafe(interfere.Published(), pair, interfere.DefaultLimit) })
	for most := range 2 {
		rule(fmt.Sprintf("Lucid's score, up to %d", most+1), 0, func(pair Pair) bool {
			return p.Score[pair.Sides[0].Key]+p.Score[pair.Sides[1].Key] <= most+1
		})
	}
	return t
}

// wantedPrecision is that of the limits that chosen chooses: Lucid reports 98.1 %.
const wantedPrecision = 0.98

// chosen judges each pair by a limit that was chosen on the pairs of other models: the
// loosest under which as many of those called safe are safe as wanted. No pair is judged by
// a limit that has seen it or one of its models.
func (p *Published) chosen(m *interfere.Model) Cut {
	bound := func(pair Pair) float64 {
		a, b := pair.Sides[0].Load, pair.Sides[1].Load
		return max(m.Slowdown(pair.Mode, a, []interfere.Load{b}).High, m.Slowdown(pair.Mode, b, []interfere.Load{a}).High)
	}
	cut := Cut{Method: fmt.Sprintf("ours, for %g %% elsewhere", 100*wantedPrecision)}
	for _, part := range folds(p.Pairs, ByModel, Options{Folds: chosenFolds}) {
		train := slices.SortedFunc(slices.Values(part.train), func(a, b Pair) int { return cmp.Compare(bound(a), bound(b)) })
		limit, right := 0.0, 0
		for i, pair := range train {
			both, _ := safety(pair)
			right += count(both)
			if float64(right) >= wantedPrecision*float64(i+1) {
				limit = bound(pair)
			}
		}
		for _, i := range part.test {
			if pair := p.Pairs[i]; bound(pair) <= limit {
				both, mean := safety(pair)
				cut.Called, cut.Right, cut.Mean = cut.Called+1, cut.Right+count(both), cut.Mean+count(mean)
				cut.Faster += count(min(pair.Sides[0].Slowdown, pair.Sides[1].Slowdown) < SafeSpeed)
			}
		}
	}
	return cut
}

// chosenFolds is the number of groups of models that chosen holds out by twos.
const chosenFolds = 8

// safety reports whether both jobs of a pair keep the safe speed, and whether their
// mean does.
func safety(p Pair) (both, mean bool) {
	a, b := 1/p.Sides[0].Slowdown, 1/p.Sides[1].Slowdown
	return min(a, b) >= SafeSpeed, (a+b)/2 >= SafeSpeed
}

func callsSafe(m *interfere.Model, p Pair, limit float64) bool {
	return m.Safe(p.Mode, limit, []interfere.Load{p.Sides[0].Load, p.Sides[1].Load})
}
