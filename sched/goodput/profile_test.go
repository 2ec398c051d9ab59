// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func profileOf(t testing.TB, samples ...Sample) *Profile {
	t.Helper()
	var p Profile
	for _, s := range samples {
		if err := p.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return &p
}

func TestProfileAveragesAndSorts(t *testing.T) {
	p := profileOf(t,
		Sample{Nodes: 2, GPUs: 2, Local: 8, Step: 5, Sync: 2},
		Sample{Nodes: 1, GPUs: 4, Local: 16, Step: 4, Sync: 1},
		Sample{Nodes: 1, GPUs: 4, Local: 8, Step: 2, Sync: 1, Count: 3},
		Sample{Nodes: 1, GPUs: 4, Local: 8, Step: 6, Sync: 2}, // no count: 1
		Sample{Nodes: 1, GPUs: 1, Local: 8, Step: 1, Sync: 0},
	)
	want := []Sample{
		{Nodes: 1, GPUs: 1, Local: 8, Step: 1, Sync: 0, Count: 1},
		{Nodes: 1, GPUs: 4, Local: 8, Step: 3, Sync: 1.25, Count: 4},
		{Nodes: 1, GPUs: 4, Local: 16, Step: 4, Sync: 1, Count: 1},
		{Nodes: 2, GPUs: 2, Local: 8, Step: 5, Sync: 2, Count: 1},
	}
	if diff := cmp.Diff(want, p.Samples()); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	if p.Len() != 4 || p.MostGPUs() != 4 {
		t.Errorf("Len %d, MostGPUs %d; want 4, 4", p.Len(), p.MostGPUs())
	}
	p.Samples()[0].Step = 99
	if got := p.Samples()[0].Step; got != 1 {
		t.Errorf("a caller changed the profile: step = %g", got)
	}
}

func TestProfileRejects(t *testing.T) {
	for want, s := range map[string]Sample{
		"nodes = 0":    {Nodes: 0, GPUs: 1, Local: 1, Step: 1},
		"gpus = 1":     {Nodes: 2, GPUs: 1, Local: 1, Step: 1},
		"local = 0":    {Nodes: 1, GPUs: 1, Local: 0, Step: 1},
		"step = 0":     {Nodes: 1, GPUs: 1, Local: 1, Step: 0},
		"step = NaN":   {Nodes: 1, GPUs: 1, Local: 1, Step: math.NaN()},
		"step = +Inf":  {Nodes: 1, GPUs: 1, Local: 1, Step: math.Inf(1)},
		"step = 1e+30": {Nodes: 1, GPUs: 1, Local: 1, Step: 1e30},
		"sync = -1":    {Nodes: 1, GPUs: 1, Local: 1, Step: 1, Sync: -1},
		"sync = 1":     {Nodes: 1, GPUs: 2, Local: 1, Step: 1, Sync: 1},
		"sync = NaN":   {Nodes: 1, GPUs: 2, Local: 1, Step: 1, Sync: math.NaN()},
		"count = -2":   {Nodes: 1, GPUs: 2, Local: 1, Step: 1, Count: -2},
		"count = +Inf": {Nodes: 1, GPUs: 2, Local: 1, Step: 1, Count: math.Inf(1)},
	} {
		var p Profile
		if err := p.Add(s); err == nil || !strings.Contains(err.Error(), want) || p.Len() != 0 {
			t.Errorf("%+v: got error %v and %d samples, want an error with %q", s, err, p.Len(), want)
		}
	}
}

func TestMostAllowed(t *testing.T) {
	on := func(gpus int) *Profile { return profileOf(t, Sample{Nodes: 1, GPUs: gpus, Local: 1, Step: 1}) }
	wide := Limits{Initial: 128, Max: 4096, LocalMin: 32, LocalMax: 256}
	for _, tc := range []struct {
		name    string
		profile *Profile
		limits  Limits
		limit   int
		want    int
	}{
		{"nothing seen", &Profile{}, wide, 64, 1},
		{"one seen", on(1), wide, 64, 2},
		{"twelve seen", on(12), wide, 64, 24},
		{"the limit", on(48), wide, 64, 64},
		{"batch cannot be split further", on(16), Limits{Initial: 8, Max: 100, LocalMin: 10, LocalMax: 10}, 64, 10},
		{"never less than one", on(16), Limits{Initial: 8, Max: 8, LocalMin: 10, LocalMax: 10}, 64, 1},
		{"no limits yet", on(16), Limits{}, 64, 1},
	} {
		if got := tc.profile.MostAllowed(tc.limits, tc.limit); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestProfileJSON(t *testing.T) {
	p := profileOf(t,
		Sample{Nodes: 2, GPUs: 2, Local: 8, Step: 5, Sync: 2, Count: 7},
		Sample{Nodes: 1, GPUs: 1, Local: 8, Step: 0.1, Sync: 0},
	)
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"nodes":1,"gpus":1,"local":8,"step":0.1,"sync":0,"count":1},{"nodes":2,"gpus":2,"local":8,"step":5,"sync":2,"count":7}]`
	if string(data) != want {
		t.Errorf("got %s\nwant %s", data, want)
	}
	var back Profile
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Samples(), back.Samples()); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if data, err := json.Marshal(Profile{}); err != nil || string(data) != "[]" {
		t.Errorf("empty profile: %s, %v", data, err)
	}
	for text, want := range map[string]string{
		`[{"nodes":1,"gpus":1,"local":1,"step":1},{"nodes":1,"gpus":1,"local":1,"step":-1}]`: "sample 1: add sample: step = -1",
		`{}`: "cannot unmarshal object",
		"[" + strings.Repeat("{},", MaxSamples) + "{}]": "65537 samples; want at most 65536",
	} {
		if err := json.Unmarshal([]byte(text), &back); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got error %v, want one with %q", text, err, want)
		}
	}
	if back.Len() != 2 {
		t.Errorf("a bad text changed the profile: %d samples", back.Len())
	}
}

func FuzzProfileJSON(f *testing.F) {
	f.Add([]byte(`[{"nodes":1,"gpus":1,"local":1,"step":1}]`))
	f.Add([]byte(`[{"nodes":1,"gpus":2,"local":3,"step":1e9,"sync":0.5,"count":1e308},{"nodes":1,"gpus":2,"local":3,"step":1e-9,"count":1e308}]`))
	f.Add([]byte(`[{"nodes":9223372036854775807,"gpus":9223372036854775807,"local":9223372036854775807,"step":1}]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Profile
		if json.Unmarshal(data, &p) != nil {
			return
		}
		for _, s := range p.samples {
			if err := s.Validate(); err != nil {
				t.Fatalf("read %+v: %v", s, err)
			}
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var back Profile
		if err := json.Unmarshal(again, &back); err != nil {
			t.Fatalf("cannot read what was written: %v\n%s", err, again)
		}
		if diff := cmp.Diff(p.Samples(), back.Samples()); diff != "" {
			t.Errorf("round trip (-want +got):\n%s", diff)
		}
		checkFit(t, &p)
	})
}
