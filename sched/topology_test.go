// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
)

// TestLevels: the order of the levels comes from the nodes, domains are named within
// wider ones, racks are a level, and what nodes say wrong is refused.
func TestLevels(t *testing.T) {
	in := func(words ...string) (out []sched.Domain) {
		for _, w := range words {
			level, name, _ := strings.Cut(w, "=")
			out = append(out, sched.Domain{Level: level, Name: name})
		}
		return out
	}
	c, err := sched.NewCluster([]sched.Node{
		{Name: "a", Domains: in("zone=1", "nvlink=x")},
		{Name: "b", Domains: in("zone=1", "rack=r", "nvlink=x")},
		{Name: "c", Domains: in("zone=2", "block=b", "rack=r", "nvlink=y")},
		{Name: "d"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Levels()); got != "[zone block rack nvlink machine]" {
		t.Errorf("levels are %s", got)
	}
	for i, want := range []string{"", "r", "r", ""} {
		if got := c.Nodes[i].Rack; got != want {
			t.Errorf("rack of node %d is %q; want %q", i, got, want)
		}
	}
	if c.RackOf(1) == c.RackOf(2) || len(c.Racks) != 4 {
		t.Errorf("rack r of zone 1 is rack r of zone 2, or there are %d racks; want 4", len(c.Racks))
	}
	if !c.HasLevel("block") || !c.HasLevel("slot") || c.HasLevel("hall") {
		t.Error("the levels are not those of the nodes and those of all clusters")
	}
	for _, n := range []sched.Node{
		{Domains: in("machine=m")}, {Domains: in("=m")}, {Domains: in("zone=1", "zone=2")}, {Rack: "r", Domains: in("rack=s")},
		{Domains: in("a=1", "b=1", "c=1", "d=1", "e=1", "f=1", "g=1", "h=1", "i=1")}, {Domains: in("zone=" + strings.Repeat("x", 254))},
	} {
		n.Name = "n"
		if _, err := sched.NewCluster([]sched.Node{n}); err == nil {
			t.Errorf("%+v is taken", n)
		}
	}
}
