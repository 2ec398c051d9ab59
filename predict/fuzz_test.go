// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// FuzzRead: a model file that is read can be used.
func FuzzRead(f *testing.F) {
	text, err := modelFiles.ReadFile("models/h200.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(strings.Replace(string(text), `"l": 1`, `"l": 0`, 1)))
	f.Add(text[:len(text)/2])
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		v := blank()
		for i := range v.Busy {
			v.Busy[i] = 1
		}
		if u := m.util(v, m.estimate(v)); u < 0 || u > 100 {
			t.Errorf("utilisation %g", u)
		}
		within(m.Bands, 50)
		m.Space.nearest(m.treeInputs(v, m.estimate(v)))
	})
}

// FuzzTables: what is read of tables is finite.
func FuzzTables(f *testing.F) {
	features, err := os.ReadFile("../lab/profiling/data/h200-features.csv")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"h200-solo.csv", "h200-features.csv", "h200-steps.csv"} {
		text, err := os.ReadFile("../lab/profiling/data/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:min(len(text), 4000)])
	}
	f.Add([]byte(soloHeader + "m,f,8,ok,50,10,900,100,s\n"))
	f.Add([]byte("a,b\n\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if samples, err := readSolo("solo.csv", bytes.NewReader(text)); err == nil {
			for _, s := range samples {
				if s.Batch < 1 || s.Util < 0 || s.Util > 100 || math.IsInf(s.MemMiB, 0) || s.StepMS <= 0 {
					t.Errorf("read %+v", s)
				}
			}
		}
		if steps, err := ReadSteps(fstest.MapFS{"h200-steps.csv": {Data: text}, "h200-features.csv": {Data: features}}, "h200"); err == nil {
			for _, s := range steps {
				if !(s.Spread >= 0) || math.IsInf(s.Spread, 0) {
					t.Errorf("read %+v", s)
				}
			}
		}
		if vectors, err := readVectors("features.csv", bytes.NewReader(text)); err == nil {
			for k, v := range vectors {
				for _, n := range v.Busy {
					if math.IsNaN(n) || math.IsInf(n, 0) {
						t.Errorf("%v: %g", k, n)
					}
				}
			}
		}
	})
}

// FuzzParsePart: a part is never more than the GPU.
func FuzzParsePart(f *testing.F) {
	for _, seed := range []string{"50%", "100%", "0%", "NaN%", "3g.71gb", "7g.141gb", "8g.1gb", "1g.99999999999999999999gb", "g.gb"} {
		f.Add(seed)
	}
	d := Device{Name: "h200", MemoryMiB: 143771}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePart(text, d)
		if err == nil && !(p.Compute > 0 && p.Compute <= 1 && p.Bandwidth > 0 && p.Bandwidth <= 1 && p.Memory >= 0 && p.Memory <= d.MemoryMiB) {
			t.Errorf("%q is %+v", text, p)
		}
	})
}
