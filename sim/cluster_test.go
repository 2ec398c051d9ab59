// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

func TestParseCluster(t *testing.T) {
	c, err := sim.ParseCluster("6x4+2x8:A100/1", "t4")
	if err != nil {
		t.Fatal(err)
	}
	if got := len(c.Nodes); got != 8 {
		t.Errorf("%d nodes, want 8", got)
	}
	if got := c.GPUs(); got != 40 {
		t.Errorf("%d GPUs, want 40", got)
	}
	if got := len(c.Racks); got != 3 {
		t.Errorf("%d racks, want 3: one for the first group, one each for the second", got)
	}
	if n := c.Nodes[6]; n.Type != "a100" || n.GPUs != 8 || n.Rack == c.Nodes[7].Rack || n.Rack == c.Nodes[0].Rack {
		t.Errorf("node 6 is %+v", n)
	}
}

func TestParseClusterErrors(t *testing.T) {
	for _, text := range []string{"", "16", "x4", "16x", "0x4", "16x0", "16x65", "-1x4", "16x4:", "16x4/", "16x4/0", "16x4++", "999999x8", "1e3x4"} {
		c, err := sim.ParseCluster(text, "t4")
		if err == nil {
			t.Errorf("ParseCluster(%q) gives %d nodes, want an error", text, len(c.Nodes))
		} else if !strings.Contains(err.Error(), text) {
			t.Errorf("ParseCluster(%q): %v; want the text in it", text, err)
		}
	}
}

const mixed = `{"version": 1, "nodes": [
  {"name": "a", "count": 4, "gpus": 8, "gpu_type": "A100", "rack": "r", "rack_nodes": 2,
   "nvlink": [[0,1,2,3],[4,5,6,7]], "cpus": 96, "memory": 1099511627776, "gpu_memory": 42949672960, "marks": ["new", "disk"]},
  {"name": "old", "gpus": 2, "rack": "annex"}]}`

// TestReadDomains: the nodes of a group are dealt to the domains of every level.
func TestReadDomains(t *testing.T) {
	c, err := sim.ReadCluster(strings.NewReader(`{"version": 1, "nodes": [{"name": "a", "count": 8, "gpus": 8, "domains": [
		{"level": "zone", "name": "z"}, {"level": "rack", "name": "r", "nodes": 4}, {"level": "nvlink-domain", "name": "d", "nodes": 2}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Levels(), len(c.Racks), c.Nodes[5].Domains); got != "[zone rack nvlink-domain machine] 2 [{zone z} {rack r1} {nvlink-domain d2}]" {
		t.Errorf("levels, racks and domains of the sixth node are %s", got)
	}
}

func TestReadCluster(t *testing.T) {
	c, err := sim.ReadCluster(strings.NewReader(mixed))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Nodes) != 5 || c.GPUs() != 34 || len(c.Racks) != 3 {
		t.Errorf("%d nodes, %d GPUs, %d racks; want 5, 34, 3", len(c.Nodes), c.GPUs(), len(c.Racks))
	}
	n := c.Nodes[2]
	if n.Name != "a2" || n.Rack != "r1" || n.Type != "a100" || n.CPUs != 96 {
		t.Errorf("third node is %+v", n)
	}
	if !n.Matches("disk") || !n.Matches("new") || n.Matches("gold") || c.Nodes[4].Matches("disk") {
		t.Errorf("marks are %v and %v", n.Labels, c.Nodes[4].Labels)
	}
	if l := c.Level(sched.Placement{{Node: 2, GPUs: 0b11000, Milli: sched.WholeGPU}}); l != sched.SameMachine {
		t.Errorf("GPUs 3 and 4 are at level %s, want %s: they are on different islands", l, sched.SameMachine)
	}
}

const nodeList = `sn,cpu_milli,memory_mib,gpu,model
node-0,32000,262144,0,
node-1,64000,262144,2,P100
node-2,96500,786432,8,V100M32
`

func TestReadNodeList(t *testing.T) {
	c, err := sim.ReadCluster(strings.NewReader(nodeList))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Nodes) != 2 || c.GPUs() != 10 {
		t.Errorf("%d nodes, %d GPUs; want the 2 with 10 GPUs", len(c.Nodes), c.GPUs())
	}
	if n := c.Nodes[1]; n.Name != "node-2" || n.Type != "v100m32" || n.CPUs != 96 || n.Memory != 786432<<20 {
		t.Errorf("second node is %+v", n)
	}
	for more, want := range map[string]string{
		"node-3,1,1,x,T4\n":   `line 5: gpu = "x"; want a whole number`,
		"node-3,1,1,99,T4\n":  "line 5: gpu = 99; want at most",
		"node-3,1,1,1\n":      "wrong number of fields",
		"node-2,1,1,1,T4\n":   "node-2",
		"node-3,1,-5,1,T4\n":  `memory_mib = "-5"`,
		"node-3,1,1,1,\"T4\n": "quote",
	} {
		if _, err := sim.ReadCluster(strings.NewReader(nodeList + more)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want %q in it", more, err, want)
		}
	}
}

func TestReadClusterErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                                       "read cluster file",
		`{"version": 2, "nodes": []}`:            "version = 2; want 1",
		`{"version": 1, "nodes": []}`:            "nodes is empty",
		`{"version": 1, "nodes": [{"gpus": 4}]}`: "name is empty",
		`{"version": 1, "nodes": [{"name": "a", "gpus": 400}]}`:                                                      "gpus = 400",
		`{"version": 1, "nodes": [{"name": "a", "gpus": 4, "nvlink": [[4]]}]}`:                                       "GPU 4",
		`{"version": 1, "nodes": [{"name": "a", "gpus": 4, "colour": "red"}]}`:                                       "colour",
		`{"version": 1, "nodes": [{"name": "a", "gpus": 4}, {"name": "a", "gpus": 4}]}`:                              "taken",
		`{"version": 1, "nodes": [{"name": "a", "count": 999999999, "gpus": 4}]}`:                                    "count",
		`{"version": 1, "nodes": [{"name": "a", "gpus": 4, "nvlink": [[0,1],[1,2]]}]}`:                               "islands",
		`{"version": 1, "nodes": [{"name": "a", "gpus": 4, "rack_nodes": -1}]}`:                                      "rack_nodes",
		`{"version": 1, "nodes": [{"name": "a", "gpus": 4, "marks": ["a b"]}]}`:                                      "marks",
		`{"version": 1, "nodes": [{"name": "a", "gpus": 4, "domains": [{"level": "machine", "name": "m"}]}]}`:        "domains",
		`{"version": 1, "nodes": [{"name": "a", "gpus": 4, "domains": [{"level": "z", "name": "m", "nodes": -1}]}]}`: "nodes = -1",
		`{"version": 1, "nodes": [{"name": "a", "gpus": 4, "memory": -1}]}`:                                          "memory",
	} {
		_, err := sim.ReadCluster(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

func FuzzReadCluster(f *testing.F) {
	f.Add(mixed)
	f.Add(nodeList)
	f.Add(`{"version": 1, "nodes": [{"name": "a", "gpus": 64}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			return
		}
		c, err := sim.ReadCluster(strings.NewReader(text))
		if err == nil && (len(c.Nodes) == 0 || c.GPUs() < 0) {
			t.Errorf("accepted a cluster of %d nodes, %d GPUs", len(c.Nodes), c.GPUs())
		}
	})
}

func FuzzParseCluster(f *testing.F) {
	for _, s := range []string{"16x4", "6x4:t4+2x8:a100/1", "1x1/1", "200000x1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := sim.ParseCluster(text, "t4")
		if err == nil && c.GPUs() < 1 {
			t.Errorf("accepted a cluster of %d GPUs", c.GPUs())
		}
	})
}
