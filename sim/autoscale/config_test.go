// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package autoscale

import (
	"math"
	"strings"
	"testing"
)

func TestBadConfig(t *testing.T) {
	for _, tc := range []struct {
		edit func(*Config)
		want string
	}{
		{func(c *Config) { c.Min = 0 }, "min = 0"},
		{func(c *Config) { c.Max = 1 }, "max = 1"},
		{func(c *Config) { c.Rule = "luck" }, `rule = "luck"`},
		{func(c *Config) { c.Low = math.NaN() }, "low = NaN"},
		{func(c *Config) { c.High = 0.2 }, "high = 0.2"},
		{func(c *Config) { c.Window = 0 }, "window = 0"},
		{func(c *Config) { c.Rule, c.L = Goodput, 0 }, "l = 0"},
		{func(c *Config) { c.Rule, c.U = Throughput, 0.3 }, "u = 0.3"},
	} {
		c := Default(2, 8)
		tc.edit(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want one about %q", err, tc.want)
		}
	}
}

func FuzzParseRange(f *testing.F) {
	for _, text := range []string{"1:16", "4:4", "0:3", "5:4", "1", ":", "a:b", "1:2:3", "+1:2", "99999999999999999999:1", strings.Repeat("1", 50) + ":1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		least, most, err := ParseRange(text)
		if (err == nil) != (least >= 1 && most >= least) {
			t.Errorf("%q: %d to %d nodes, error %v", text, least, most, err)
		}
	})
}

func TestParseRange(t *testing.T) {
	if least, most, err := ParseRange("2:16"); least != 2 || most != 16 || err != nil {
		t.Errorf("2:16 is %d to %d, %v", least, most, err)
	}
	for _, text := range []string{"", "3", "0:4", "5:4", "1:2:3", "x:4"} {
		if _, _, err := ParseRange(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
