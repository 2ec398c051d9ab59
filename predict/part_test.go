// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"os"
	"testing"
)

func TestParsePart(t *testing.T) {
	d := forGPU(t, "h200").Device()
	for _, c := range []struct {
		text string
		want Part
	}{
		{"100%", Part{"100%", 1, 1, 0}},
		{"25%", Part{"25%", 0.25, math.Pow(0.25, bandwidthPower), 0}},
		{"7g.141gb", Part{"7g.141gb", 1, 1, d.MemoryMiB}},
		{"3g.71gb", Part{"3g.71gb", 3.0 / 7, 0.5, d.MemoryMiB / 2}},
		{"1g.18gb", Part{"1g.18gb", 1.0 / 7, 0.125, d.MemoryMiB / 8}},
	} {
		if got, err := ParsePart(c.text, d); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", "half", "0%", "120%", "NaN%", "3g", "8g.141gb", "3g.71", "0g.18gb", "1g.-18gb", "7g.200gb"} {
		if got, err := ParsePart(text, d); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// Less of a GPU takes longer and is busier; all of it under MPS is as the whole.
func TestPartOfGPU(t *testing.T) {
	m := forGPU(t, "h200")
	x := extract(t, chain(20), 32)
	whole := m.Predict(x)
	last := whole
	for _, text := range []string{"100%", "50%", "25%"} {
		part, err := ParsePart(text, m.Device())
		if err != nil {
			t.Fatal(err)
		}
		p := m.On(part).Predict(x)
		switch {
		case text == "100%" && (p.BusySeconds != whole.BusySeconds || p.Util != whole.Util):
			t.Errorf("all threads: %+v; want %+v", p, whole)
		case text != "100%" && !(p.BusySeconds > last.BusySeconds && p.Util >= last.Util && p.StepSeconds >= last.StepSeconds):
			t.Errorf("%s: %+v; want longer than %+v", text, p, last)
		}
		if p.Memory != whole.Memory || p.HostSeconds != whole.HostSeconds || p.Confidence >= whole.Confidence {
			t.Errorf("%s changes the memory, the host, or not the confidence: %+v, %+v", text, p, whole)
		}
		last = p
	}
	slice, err := ParsePart("1g.18gb", m.Device())
	if err != nil {
		t.Fatal(err)
	}
	if got := m.On(slice).Device().MemoryMiB; math.Abs(got-m.Device().MemoryMiB/8) > 1 {
		t.Errorf("a slice has %.0f MiB", got)
	}
}

// TestEvaluateParts: the measured steps, by sums fitted to whole GPUs without the model.
func TestEvaluateParts(t *testing.T) {
	data := os.DirFS("../lab/profiling/data")
	samples, _, err := ReadSamples(data, "h200")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := ReadParts(data, "h200")
	if err != nil {
		t.Fatal(err)
	}
	e, err := EvaluateParts(parts, samples, "h200")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *e)
	if e.Rows != 16 || e.Models != 7 || e.Longer.RMSLE > 0.25 || e.Longer.RMSLE > e.Ignored/2 || e.RMSLE > 0.25 {
		t.Errorf("%+v; want 16 steps of 7 models, each off by less than a quarter", *e)
	}
}
