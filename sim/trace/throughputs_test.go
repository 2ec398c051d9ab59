// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sim"
)

func TestReadThroughputs(t *testing.T) {
	file, err := os.Open("testdata/throughputs.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	table, err := ReadThroughputs(file)
	if err != nil {
		t.Fatal(err)
	}
	resnet, a3c := sim.Kind{Model: "resnet50", Batch: 64, GPUs: 1}, sim.Kind{Model: "a3c", GPUs: 1}
	two := sim.Kind{Model: "resnet50", Batch: 128, GPUs: 2}
	for _, c := range []struct {
		on   string
		kind sim.Kind
		want float64
	}{{"v100", resnet, 4}, {"k80", resnet, 0.5}, {"v100", two, 7}, {"v100" + sim.Spread, two, 5}, {"v100", a3c, 8}} {
		if got, ok := table.Alone(c.on, c.kind); got != c.want || !ok {
			t.Errorf("%s on %s: %g, %t; want %g", c.kind, c.on, got, ok, c.want)
		}
	}
	if _, ok := table.Alone("k80", two); ok {
		t.Errorf("there is a throughput of %s on k80; want none", two)
	}
	for _, c := range []struct {
		on         string
		own, other sim.Kind
		want       float64
		known      bool
	}{{"v100", resnet, a3c, 1.25, true}, {"v100", a3c, resnet, 2, true}, {"v100", resnet, resnet, 2, true}, {"k80", resnet, a3c, 0, true}, {"v100", a3c, a3c, 0, false}} {
		if got, ok := table.Slowdown(c.on, c.own, c.other); got != c.want || ok != c.known {
			t.Errorf("%s beside %s on %s: %g, %t; want %g, %t", c.own, c.other, c.on, got, ok, c.want, c.known)
		}
	}
}

func TestBadThroughputs(t *testing.T) {
	for text, want := range map[string]string{
		``:                                       "want throughputs by GPU type, kind of job and other kind: unexpected end of JSON input",
		`[1]`:                                    "want throughputs by GPU type, kind of job and other kind: json: cannot unmarshal array",
		`{"v100": {"A3C": {"null": 1}}}`:         `"v100": "A3C"; want a kind of job such as "('ResNet-50 (batch size 64)', 2)"`,
		`{"v100": {"('A3C', 0)": {"null":1}}}`:   `"v100": "('A3C', 0)"; want a kind of job`,
		`{"v100": {"('A3C', 1)": {}}}`:           `"v100": "('A3C', 1)" alone: "[]"; want 1 of steps per second`,
		`{"v100": {"('A3C', 1)": {"null": -1}}}`: `alone: -1; want 0 to 1e9 steps per second`,
		`{"v100": {"('A3C', 1)": {"null": 1, "('A3C', 1)": [1]}}}`:      `"('A3C', 1)" beside "('A3C', 1)": "[1]"; want 2 of steps per second`,
		`{"v100": {"('A3C', 1)": {"null": 1, "('A3C', 1)": [1, "x"]}}}`: `want 2 of steps per second`,
		strings.Repeat(" ", maxThroughputs+1):                           "the file is larger than 64 MiB",
	} {
		if _, err := ReadThroughputs(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v; want %s", text, err, want)
		}
	}
}

func FuzzThroughputs(f *testing.F) {
	text, err := os.ReadFile("testdata/throughputs.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"v100": {"('LM (batch size 5)', 2)": {"null": 1e300}}}`))
	f.Add([]byte(`{"v100": {"('', 1)": {"null": null}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if table, err := ReadThroughputs(bytes.NewReader(text)); (table == nil) == (err == nil) {
			t.Fatalf("table %v, error %v", table, err)
		}
	})
}

// TestPublishedThroughputs: the published file can be read, and is where the speeds of
// gavelspeed.go come from.
func TestPublishedThroughputs(t *testing.T) {
	file, err := os.Open(public + "/gavel/scheduler/simulation_throughputs.json")
	if err != nil {
		t.Skip("the published throughputs are not here")
	}
	defer func() { _ = file.Close() }()
	table, err := ReadThroughputs(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, speed := range gavelSpeeds {
		model, batch := gavelType(name)
		for i, want := range speed.scaled {
			k := sim.Kind{Model: zooName(model), Batch: batch << i, GPUs: 1 << i}
			if got, _ := table.Alone("v100", k); math.Abs(got-want) > 1e-3*want {
				t.Errorf("%s: %g steps per second; want %g", k, got, want)
			}
		}
	}
}
