// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestReferenceLosses fits the tables published with Pollux, and parts of them,
// and compares the loss with what SciPy's L-BFGS-B reaches: from the start of
// the artifact, and at best from many starts. -v prints the table.
func TestReferenceLosses(t *testing.T) {
	folder := filepath.Join(cmp.Or(os.Getenv("FAIRWAY_TEST_DATA"), "../../../shared/data"), "pollux", "traces")
	if _, err := os.Stat(folder); err != nil {
		t.Skip("the tables of the Pollux artifact are not here; FAIRWAY_TEST_DATA names the folder that holds them")
	}
	data, err := os.ReadFile("testdata/reference-losses.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference struct {
		Cases []referenceCase
	}
	if err := json.Unmarshal(data, &reference); err != nil {
		t.Fatal(err)
	}
	if len(reference.Cases) < 200 {
		t.Fatalf("%d cases; want 200 or more", len(reference.Cases))
	}
	tables := map[string][]Sample{}
	t.Logf("%-12s %-18s %4s %7s %10s %10s %10s", "model", "samples", "seed", "count", "same start", "best", "ours")
	for _, c := range reference.Cases {
		if tables[c.Model] == nil {
			tables[c.Model] = readTables(t, filepath.Join(folder, c.Model))
		}
		p := profileOf(t, c.choose(tables[c.Model])...)
		var f Fitter
		if _, err := f.Fit(p); err != nil {
			t.Fatal(err)
		}
		loss := lossOf(p, f.last.params())
		t.Logf("%-12s %-18s %4d %7d %10.6f %10.6f %10.6f", c.Model, c.Case, c.Seed, p.Len(), c.SameStart, c.Best, loss)
		const slack = 2 * blunt
		if loss > 1.01*c.SameStart+slack {
			t.Errorf("%+v: loss %g", c, loss)
		}
		if loss > 1.02*c.Best+slack {
			t.Errorf("%+v: loss %g, not near the best", c, loss)
		}
	}
}

// referenceCase is one line of reference-losses.json: samples on at most so many
// nodes and GPUs, and of those a number drawn at random (0: all).
type referenceCase struct {
	Model, Case       string
	Nodes, GPUs, Size int
	Seed              uint64
	SameStart         float64 `json:"same_start"`
	Best              float64
}

// choose returns the samples of the case: the same draw as in reference.py,
// driven by splitmix64.
func (c referenceCase) choose(table []Sample) []Sample {
	var part []Sample
	for _, s := range table {
		if s.Nodes <= c.Nodes && s.GPUs <= c.GPUs {
			part = append(part, s)
		}
	}
	if c.Size == 0 {
		return part
	}
	n := min(c.Size, len(part))
	state := c.Seed
	for i := range n {
		state += 0x9E3779B97F4A7C15
		z := state
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		z ^= z >> 31
		j := i + int(z%uint64(len(part)-i))
		part[i], part[j] = part[j], part[i]
	}
	return part[:n]
}

// readTables returns the mean times of a model by nodes, GPUs and local batch.
func readTables(t *testing.T, folder string) []Sample {
	t.Helper()
	var p Profile
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, name := range []string{"placements.csv", "scalability.csv"} {
		file, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(file).ReadAll()
		if err := cmp.Or(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] {
			var s Sample
			if name == "placements.csv" { // one digit for each node: its GPUs
				s.Nodes = len(row[0])
				for _, digit := range row[0] {
					s.GPUs += int(digit - '0')
				}
				row = row[1:]
			} else {
				s.Nodes, s.GPUs = int(number(row[0])), int(number(row[1]))
				row = row[2:]
			}
			s.Local, s.Step, s.Sync = int(number(row[0])), number(row[1]), number(row[2])
			if err := p.Add(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p.Samples()
}
