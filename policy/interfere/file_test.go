// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package interfere_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

func TestDefault(t *testing.T) {
	m, err := interfere.Default("h200")
	if err != nil {
		t.Fatal(err)
	}
	if m.GPU != "h200" || m.TimeSlice.Form != interfere.FairShare {
		t.Errorf("GPU %q, form %q; want h200, fair-share", m.GPU, m.TimeSlice.Form)
	}
	for _, name := range []string{"a100", "", "../models/h200"} {
		m, err := interfere.Default(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(interfere.Published(), m); diff != "" {
			t.Errorf("Default(%q) (-want +got):\n%s", name, diff)
		}
	}
}

func TestDecodeRoundTrip(t *testing.T) {
	text, err := json.Marshal(known())
	if err != nil {
		t.Fatal(err)
	}
	got, err := interfere.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(known(), got); diff != "" {
		t.Errorf("after a round trip (-want +got):\n%s", diff)
	}
}

func TestDecodeErrors(t *testing.T) {
	const good = `{"gpu":"x","source":"y","time-slice":{"form":"overload","knee":0.9,"slope":0.3,"spread":[{"at":1,"scatter":0.1,"high":1.2,"jobs":3}],"pairs":3,"mean_abs_error":0.1}}`
	if _, err := interfere.Decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"gpu":"x"`, `"gpu":""`, "gpu is missing"},
		{`"gpu":"x"`, `"gpu":7`, "line 1, column 8: field gpu"},
		{`"pairs":3`, `"pears":3`, "pears"},
		{`"overload"`, `"spline"`, `form "spline"; want fair-share or overload`},
		{`"overload"`, `"fair-share"`, "time-slice: capacity 0; want 0.1 to 4"},
		{`"slope":0.3`, `"slope":-1`, "slope -1; want 0 to 10"},
		{`"at":1`, `"at":0`, "spread[0].at 0; want above 0"},
		{`"high":1.2`, `"high":0.9`, "spread[0].high 0.9"},
		{`"scatter":0.1`, `"scatter":9`, "spread[0].scatter 9"},
		{`"jobs":3}`, `"jobs":3},{"at":1.1,"scatter":0.1,"high":1.01,"jobs":1}`, "spread[1]"},
		{`[{"at":1,"scatter":0.1,"high":1.2,"jobs":3}]`, `[]`, "spread is empty"},
		{`}}`, `}}{}`, "more text after the model"},
		{`{"gpu"`, "{\n!", "line 2, column 1"},
	} {
		_, err := interfere.Decode([]byte(strings.Replace(good, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v; want %q", c.new, c.old, err, c.want)
		}
	}
	if _, err := interfere.Decode(make([]byte, interfere.MaxFile+1)); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("a file that is too large: %v", err)
	}
}

// FuzzDecode: what is accepted can be reckoned with.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"gpu":"x","source":"y","time-slice":{"form":"overload","knee":0.9,"slope":0.3,"spread":[{"at":1,"scatter":0.1,"high":1.2,"jobs":3}],"pairs":3,"mean_abs_error":0.1}}`))
	f.Add([]byte(`{"gpu":"x","time-slice":{"form":"fair-share","capacity":0.9,"corner":8,"turn_s":0.001,"short_step_s":0.001,"long_step_s":1,"spread":[{"at":1,"high":1}]}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := interfere.Decode(data)
		if err != nil {
			return
		}
		for _, mode := range []interfere.Mode{interfere.TimeSlice, interfere.MPS} {
			e := m.Slowdown(mode, interfere.Load{Util: 0.8, Step: 0.01}, []interfere.Load{{Util: 0.5}, {}})
			if !(e.Mean >= 1) || !(e.High >= e.Mean) {
				t.Errorf("%s: %+v; want 1 <= Mean <= High", data, e)
			}
		}
	})
}
