// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/tune/search"
)

func TestReadCurves(t *testing.T) {
	const csv = "lr,act,depth,same,seconds,1,2\n" +
		"0.001,relu,2,x,10,20,40\n" +
		"0.1,tanh,4,x,30,50,45\n"
	const lcbench = `{"other": {"0": {}}, "digits": {
		"0": {"config": {"lr": 0.001, "act": "relu", "depth": 2, "same": "x"}, "log": {"Train/val_accuracy": [20, 40], "time": [10, 20]}, "results": {}},
		"1": {"config": {"lr": 0.1, "act": "tanh", "depth": 4, "same": "x"}, "log": {"Train/val_accuracy": [50, 45], "time": [30, 60]}, "results": {}}}}`
	for name, text := range map[string]string{"csv": csv, "lcbench": lcbench} {
		table, err := ReadCurves(strings.NewReader(text), "digits")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		space := table.Dimensions()
		kinds := map[string]search.Kind{}
		for _, d := range space {
			kinds[d.Name] = d.Kind
		}
		if len(space) != 3 || kinds["lr"] != search.LogFloat || kinds["act"] != search.Choice || kinds["depth"] != search.Int {
			t.Errorf("%s: space %+v; want lr on a logarithmic scale, act to choose and depth as whole number", name, space)
		}
		if table.Rows() != 2 || table.Length() != 2 || table.Best() != 50 {
			t.Errorf("%s: %d trials of %d epochs, best %g; want 2, 2 and 50", name, table.Rows(), table.Length(), table.Best())
		}
		// The first trial near the second row has it, and the next one what is left.
		start := table.Open(1)
		near := make(search.Params, len(space))
		for i, d := range space {
			if near[i] = d.High; d.Kind == search.Choice {
				near[i] = 1
			}
		}
		a, b, again := start(near), start(near), start(near)
		if a.Quality(1) != 50 || a.Quality(2) != 45 || a.Pace != 1.5 || b.Quality(2) != 40 || b.Pace != 0.5 || again.Quality(1) != 50 {
			t.Errorf("%s: trials learn %g, %g at pace %g, then %g at pace %g, then %g", name, a.Quality(1), a.Quality(2), a.Pace, b.Quality(2), b.Pace, again.Quality(1))
		}
	}
}

func TestReadBadCurves(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "empty",
		"lr,1,3\n0.1,2,3\n":             "epochs",
		"lr,1,2\n":                      "no trials",
		"lr,1\n0.1,high\n":              `line 2: 1 = "high"`,
		"lr,1\n0.1,1\n0.1,2\n":          "no dimensions",
		"lr,1\n0.1\n":                   "wrong number of fields",
		"lr,act\n0.1,a\n0.2,b\n":        "0 epochs",
		`{"a": {}}`:                     `no data set "digits"; the file has ["a"]`,
		`{"digits": {}}`:                "the data set is empty",
		`{"digits": {"0": {"log": 1}}}`: "data set digits",
		`{"digits": {"0": {"log": {"Train/val_accuracy": [-1]}}}}`: `run "0" has an accuracy or time of -1; want a number from 0 to 1e9`,
	} {
		if _, err := ReadCurves(strings.NewReader(text), "digits"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want %q", text, err, want)
		}
	}
}

// FuzzCurves: whatever a file holds, reading it ends with an error, or with trials that
// can be run.
func FuzzCurves(f *testing.F) {
	for _, seed := range []string{
		"lr,act,seconds,1,2\n0.001,relu,10,20,40\n0.1,tanh,30,50,45\n", "1\n2\n", "lr,1\n\"0.1\n", "lr,lr,1\n1,2,3\n4,5,6\n", "lr,seconds,1\n1,1e-300,1\n2,1e9,1\n", "lr,1\n1e-320,1\n1e308,1\n",
		`{"digits": {"0": {"config": {"lr": 1}, "log": {"Train/val_accuracy": [20, 40], "time": [10, 20]}}, "1": {"config": {"lr": 2}, "log": {"Train/val_accuracy": [20, 40]}}}}`,
		`{"digits": {"0": {}}, "digits": {}}`, `{"other": [], "digits": null}`, `{`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := ReadCurves(strings.NewReader(string(text)), "digits")
		if err != nil {
			return
		}
		start, middle := table.Open(1), make(search.Params, len(table.Dimensions()))
		for i, d := range table.Dimensions() {
			middle[i] = d.Low
		}
		for range table.Rows() {
			trial := start(middle)
			if !(trial.Pace >= 0 && trial.Pace <= float64(table.Rows())) {
				t.Fatalf("%q: pace %g; want that of one of %d trials", text, trial.Pace, table.Rows())
			}
			for epoch := range table.Length() {
				if q := trial.Quality(epoch + 1); math.IsNaN(q) || q < 0 || q > 1e9 {
					t.Fatalf("%q: quality %g", text, q)
				}
			}
		}
	})
}
