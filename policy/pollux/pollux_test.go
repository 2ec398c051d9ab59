// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pollux

import (
	"fmt"
	"math"
	"testing"
)

func TestNew(t *testing.T) {
	with := func(set func(*Config)) Config {
		c := Default()
		set(&c)
		return c
	}
	for _, c := range []struct {
		config Config
		want   string // the error
	}{
		{Default(), "<nil>"},
		{with(func(c *Config) { c.P = -10 }), "<nil>"},
		{with(func(c *Config) { c.P = 0 }), "<nil>"},
		{with(func(c *Config) { c.Search, c.Apart = Genetic, false }), "<nil>"},
		{with(func(c *Config) { c.Restart = 0 }), "<nil>"},
		{with(func(c *Config) { c.P = 2 }), "p = 2; want -50 to 1"},
		{with(func(c *Config) { c.P = math.NaN() }), "p = NaN; want -50 to 1"},
		{with(func(c *Config) { c.Restart = -1 }), "restart = -1ns; want 0s to 24h"},
		{with(func(c *Config) { c.Interval = 0 }), "interval = 0s; want 1s or more"},
		{with(func(c *Config) { c.Search = "slow" }), `search = "slow"; want fast or genetic`},
		{with(func(c *Config) { c.Population = 1 }), "population = 1; want 4 to 10000"},
		{with(func(c *Config) { c.Generations = -1 }), "generations = -1; want 0 to 10000"},
	} {
		if _, err := New(c.config); fmt.Sprint(err) != c.want {
			t.Errorf("New(%+v): %v; want %s", c.config, err, c.want)
		}
	}
}
