// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package knob_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/policy/knob"
	"github.com/fairway-gpu/fairway/sched"
)

type config struct {
	Lease sched.Duration   `json:"lease" help:"a duration"`
	Steps []sched.Duration `json:"steps" help:"durations"`
	Rates []float64        `json:"rates,omitempty" help:"numbers"`
	Count int              `json:"count" help:"a whole number"`
	Share float64          `json:"share" help:"a number"`
	On    bool             `json:"on" help:"a switch"`
	Mode  string           `json:"mode" help:"a word"`
	Near  sched.Level      `json:"near" help:"a level"`
}

func standard() config {
	return config{Lease: sched.Duration(time.Minute), Steps: []sched.Duration{sched.Duration(time.Hour)}, Count: 3, Share: 0.5, Mode: "x"}
}

func TestSet(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        func(*config)
	}{
		{"lease", "7d", func(c *config) { c.Lease = sched.Duration(7 * 24 * time.Hour) }},
		{"steps", "1m/1h", func(c *config) { c.Steps = []sched.Duration{sched.Duration(time.Minute), sched.Duration(time.Hour)} }},
		{"steps", "", func(c *config) { c.Steps = []sched.Duration{} }},
		{"rates", "1/2.5/1e+06", func(c *config) { c.Rates = []float64{1, 2.5, 1e6} }},
		{"count", "-4", func(c *config) { c.Count = -4 }},
		{"share", "2", func(c *config) { c.Share = 2 }},
		{"on", "true", func(c *config) { c.On = true }},
		{"mode", `a "b"`, func(c *config) { c.Mode = `a "b"` }},
		{"mode", "", func(c *config) { c.Mode = "" }},
		{"near", "rack", func(c *config) { c.Near = sched.SameRack }},
	} {
		got, want := standard(), standard()
		c.want(&want)
		if err := knob.Set(&got, c.name, c.value); err != nil {
			t.Errorf("Set(%s, %q): %v", c.name, c.value, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Set(%s, %q) (-want +got):\n%s", c.name, c.value, diff)
		}
	}
}

func TestSetErrors(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"count", "1.5", `knob count = "1.5"; want a whole number`},
		{"count", "", `knob count = ""; want a whole number`},
		{"count", "null", `knob count = "null"; want a whole number`},
		{"count", "1,2", `knob count = "1,2"; want a whole number`},
		{"count", "99999999999999999999", `knob count = "99999999999999999999"; want a whole number`},
		{"on", "1", `knob on = "1"; want true or false`},
		{"share", `"1"`, `knob share = "\"1\""; want a number`},
		{"rates", "1/null", `knob rates = "1/null"; want a list, separated by "/", of which each element is a number`},
		{"rates", "1//2", `knob rates = "1//2"; want a list, separated by "/", of which each element is a number`},
		{"rates", "1,2", `knob rates = "1,2"; want a list, separated by "/", of which each element is a number`},
		{"near", "moon", `knob near = "moon"; want a word that it knows`},
		{"lease", "10", `knob lease = "10"; want a duration with a unit, such as 90s, 10m, 16h or 7d`},
		{"Count", "1", `unknown knob "Count"; did you mean "count"? there are: count, lease, mode, near, on, rates, share, steps`},
		{"", "1", `unknown knob ""; there are: count, lease, mode, near, on, rates, share, steps`},
	} {
		got := standard()
		err := knob.Set(&got, c.name, c.value)
		if err == nil || err.Error() != c.want {
			t.Errorf("Set(%s, %q):\n got %v\nwant %s", c.name, c.value, err, c.want)
		}
		if diff := cmp.Diff(standard(), got); diff != "" {
			t.Errorf("Set(%s, %q) failed and changed the config (-want +got):\n%s", c.name, c.value, diff)
		}
	}
}

func TestTextReadsBack(t *testing.T) {
	c := standard()
	if got := knob.Text("p", c, standard()); got != "p" {
		t.Errorf("Text of the default = %q; want p", got)
	}
	c.Lease, c.Steps, c.Rates, c.On, c.Near = sched.Duration(90*time.Second), nil, []float64{0.1, 1e21}, true, sched.SameMachine
	text := knob.Text("p", c, standard())
	if want := "p:lease=1m30s:steps=:rates=0.1/1e+21:on=true:near=machine"; text != want {
		t.Errorf("Text = %q; want %q", text, want)
	}
	back := standard()
	for _, word := range strings.Split(text, ":")[1:] {
		name, value, _ := strings.Cut(word, "=")
		if err := knob.Set(&back, name, value); err != nil {
			t.Error(err)
		}
	}
	if got := knob.Text("p", back, standard()); got != text {
		t.Errorf("read back it is %q; want %q", got, text)
	}
}

func TestList(t *testing.T) {
	c := standard()
	c.Rates = make([]float64, 20)
	got := knob.List(c)[:4]
	want := []knob.Knob{
		{Name: "lease", Default: "1m", Help: "a duration"},
		{Name: "steps", Default: "1h", Help: "durations"},
		{Name: "rates", Default: "0/0/0/0/... (20 values)", Help: "numbers"},
		{Name: "count", Default: "3", Help: "a whole number"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}
