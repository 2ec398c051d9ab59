// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// An administrator names the levels of a cluster's topology, from the widest to the
// narrowest: zone, rack, NVLink domain. Nodes say which domain of each level they are
// in, and a job may ask that its gang, or every so many GPUs of it, lie in one domain.
// The level "rack" is always there, and so are those within it: "machine" and "slot".
// Only these three and "cross-rack" have a cost in models of speed (Level).

// Names of the levels that every cluster has, as in Level.
const (
	RackLevel    = "rack"
	machineLevel = "machine"
)

// Domain says where a node is at one level of the topology.
type Domain struct {
	Level string `json:"level"`
	Name  string `json:"name"`
}

// Limits on the topology.
const (
	maxLevels = 8
	maxRules  = 4
)

// Rule is what a job asks of the topology: one domain of a level, for the gang or for
// each segment of it. One of Required and Preferred names the level.
type Rule struct {
	// Segment is how many GPUs, counted by rank, have to be in one domain; the last
	// segment may be shorter. 0: all of them.
	Segment   int    `json:"segment,omitempty"`
	Required  string `json:"required,omitempty"`
	Preferred string `json:"preferred,omitempty"` // else the next wider level, and so on
}

func (r Rule) String() string {
	text := "in one " + cmp.Or(r.Required, r.Preferred)
	if r.Segment > 0 {
		text = fmt.Sprintf("every %d GPUs %s", r.Segment, text)
	}
	if r.Preferred != "" {
		text += " if possible"
	}
	return text
}

// level is one level of a cluster, with the domain of every node; -1: none.
type level struct {
	name     string
	domainOf []int32
	domains  []string // names
}

func (n *Node) checkDomains() error {
	if len(n.Domains) > maxLevels {
		return fmt.Errorf("domains: %d of them; want at most %d", len(n.Domains), maxLevels)
	}
	for i, d := range n.Domains {
		switch {
		case !labelOK(d.Level) || d.Level != RackLevel && slices.Contains(levelNames[:], d.Level):
			return fmt.Errorf("domains: level %q; want a name other than %s, of %s", d.Level, strings.Join(levelNames[:], ", "), wantLabel)
		case len(d.Name) > maxDomain:
			return fmt.Errorf("domains: the name of a %s has %d bytes; want at most %d", d.Level, len(d.Name), maxDomain)
		case d.Level == RackLevel && n.Rack != "" && n.Rack != d.Name:
			return fmt.Errorf("domains: rack %q, but rack = %q; want one of them, or the same", d.Name, n.Rack)
		case slices.ContainsFunc(n.Domains[:i], func(e Domain) bool { return e.Level == d.Level }):
			return fmt.Errorf("domains: level %q twice; want each once, the widest first", d.Level)
		}
	}
	return nil
}

// maxDomain bounds the name of a domain.
const maxDomain = 253

// buildLevels makes the levels of the nodes, which is where the order comes from. A
// domain is named within the next wider one: rack 1 of zone a is not rack 1 of zone b.
func (c *Cluster) buildLevels() {
	var order []string
	for i := range c.Nodes {
		at := 0
		for _, d := range c.Nodes[i].Domains {
			k := slices.Index(order, d.Level)
			if k < 0 {
				order = slices.Insert(order, at, d.Level)
				k = at
			}
			at = k + 1
		}
	}
	if !slices.Contains(order, RackLevel) {
		order = append(order, RackLevel)
	}
	type key struct {
		wider int32
		name  string
	}
	wider := slices.Repeat([]int32{-1}, len(c.Nodes)) // numbered over all levels
	above := int32(0)
	for _, name := range order {
		l := level{name: name, domainOf: make([]int32, len(c.Nodes))}
		known := map[key]int32{}
		for i := range c.Nodes {
			value := c.Nodes[i].domain(name)
			if value == "" && name != RackLevel { // racks without a name are one rack
				l.domainOf[i] = -1
				continue
			}
			k := key{wider[i], value}
			d, ok := known[k]
			if !ok {
				d = int32(len(l.domains))
				known[k], l.domains = d, append(l.domains, value)
			}
			l.domainOf[i], wider[i] = d, above+d
		}
		above += int32(len(l.domains))
		c.levels = append(c.levels, l)
	}
}

func (n *Node) domain(level string) string {
	if level == RackLevel {
		return n.Rack
	}
	for _, d := range n.Domains {
		if d.Level == level {
			return d.Name
		}
	}
	return ""
}

// Levels returns the names of the levels that a rule may use, the widest first.
func (c *Cluster) Levels() []string {
	out := make([]string, 0, len(c.levels)+1)
	for _, l := range c.levels {
		out = append(out, l.name)
	}
	return append(out, machineLevel)
}

// Levels returns the names of the levels that every cluster has.
func Levels() []string { return slices.Clone(levelNames[1:]) }

// HasLevel reports whether a rule may use a level.
func (c *Cluster) HasLevel(name string) bool {
	return slices.Contains(levelNames[1:], name) || slices.ContainsFunc(c.levels, func(l level) bool { return l.name == name })
}

// DomainName returns the name of a domain of a level.
func (c *Cluster) DomainName(level string, domain int) string {
	for _, l := range c.levels {
		if l.name == level && domain >= 0 && domain < len(l.domains) {
			return l.domains[domain]
		}
	}
	if level == machineLevel && domain >= 0 && domain < len(c.Nodes) {
		return c.Nodes[domain].Name
	}
	return ""
}

// Bound is a rule as a cluster knows it. The zero Bound is never kept.
type Bound struct {
	Segment int // GPUs; NoSize: the whole gang
	Name    string
	level   *level // nil: of nodes, if machine
	machine bool
}

// DomainOf returns the domain that a node is in, by its number; -1: in none.
func (b *Bound) DomainOf(node int) int {
	switch {
	case b.machine:
		return node
	case b.level == nil:
		return -1
	}
	return int(b.level.domainOf[node])
}

// Bounds returns the rules of a job, those about the most GPUs first. At step 0
// preferred levels count like required ones, and at each step they are one level
// wider until they count no more. last says that another step would change nothing.
func (c *Cluster) Bounds(j *Job, step int) (bounds []Bound, last bool) {
	last = true
	for _, r := range j.Topology {
		name := r.Required
		if name == "" {
			var wider bool
			name, wider = c.widen(r.Preferred, step)
			last = last && !wider
		}
		if name != "" && name != CrossRack.String() {
			bounds = append(bounds, c.bound(name, cmp.Or(r.Segment, NoSize)))
		}
	}
	slices.SortStableFunc(bounds, func(a, b Bound) int { return cmp.Compare(b.Segment, a.Segment) })
	return bounds, last
}

// RequiredBounds returns the rules that a job insists on.
func (c *Cluster) RequiredBounds(j *Job) []Bound {
	if len(j.Topology) == 0 {
		return nil
	}
	bounds, _ := c.Bounds(j, math.MaxInt)
	return bounds
}

// Within returns the bound of a gang that has to be in one rack or one machine; ok is
// false for a level that bounds nothing.
func (c *Cluster) Within(l Level) (b Bound, ok bool) {
	switch l {
	case SameRack:
		return c.bound(RackLevel, NoSize), true
	case SameSlot, SameMachine:
		return c.bound(machineLevel, NoSize), true
	}
	return Bound{}, false
}

func (c *Cluster) bound(name string, segment int) Bound {
	b := Bound{Segment: segment, Name: name, machine: name == machineLevel}
	for i := range c.levels {
		if c.levels[i].name == name {
			b.level = &c.levels[i]
		}
	}
	return b
}

// widen returns the level so many steps wider; empty: all of the cluster.
func (c *Cluster) widen(name string, steps int) (wider string, more bool) {
	at := slices.IndexFunc(c.levels, func(l level) bool { return l.name == name })
	if name == machineLevel {
		at = len(c.levels)
	}
	if at -= steps; at < 0 {
		return "", false
	}
	if steps > 0 {
		name = c.levels[at].name
	}
	return name, true
}

// Keeps reports whether a placement keeps to bounds.
func (c *Cluster) Keeps(p Placement, bounds []Bound) bool {
	for i := range bounds {
		if !p.keeps(&bounds[i]) {
			return false
		}
	}
	return true
}

// keeps: the domain may change only where a segment ends.
func (p Placement) keeps(b *Bound) bool {
	before, rank := -1, 0
	for _, s := range p {
		d := b.DomainOf(int(s.Node))
		if d < 0 || d != before && rank%b.Segment != 0 {
			return false
		}
		before = d
		rank += s.GPUs.Len()
	}
	return true
}

// checkTopology says what is wrong with the rules of a job, if anything.
func (s *Spec) checkTopology(bad func(field string, value any, want string) error) error {
	if len(s.Topology) > maxRules {
		return bad("topology", len(s.Topology), fmt.Sprintf("at most %d rules", maxRules))
	}
	for i, r := range s.Topology {
		field, name := fmt.Sprintf("topology[%d].", i), cmp.Or(r.Required, r.Preferred)
		switch {
		case (r.Required == "") == (r.Preferred == ""):
			return bad(field+"required, preferred", [2]string{r.Required, r.Preferred}, "the name of a level in one of them")
		case !labelOK(name):
			return bad(field+"required, preferred", fmt.Sprintf("%q", name), "a level: "+wantLabel)
		case name == SameSlot.String() && (r.Segment > 0 || r.Preferred != ""):
			return bad(field+"required, preferred", name, "slot only as required and without a segment; GPUs of a node are taken from one slot where that is possible")
		case r.Segment < 0 || r.Segment > 1<<20 || r.Segment%max(1, s.TaskGPUs) != 0:
			return bad(field+"segment", r.Segment, fmt.Sprintf("GPUs in whole tasks: a multiple of %d", max(1, s.TaskGPUs)))
		}
		for _, o := range s.Topology[:i] {
			if a, b := max(o.Segment, r.Segment), min(o.Segment, r.Segment); b > 0 && a%b != 0 {
				return bad(field+"segment", r.Segment, fmt.Sprintf("a divisor or a multiple of the other segment, %d", o.Segment))
			}
		}
	}
	return nil
}

// foldTopology turns rules that a whole gang be within a level that every cluster has
// into MaxSpread, which every policy plans with.
func (s *Spec) foldTopology() {
	var rest []Rule
	for _, r := range s.Topology {
		l := Level(max(0, slices.Index(levelNames[:], r.Required)))
		switch {
		case r.Segment > 0 || l == NoLevel:
			rest = append(rest, r)
		case s.MaxSpread == NoLevel || l < s.MaxSpread:
			s.MaxSpread = l
		}
	}
	s.Topology = rest
}

// TopologyKey tells jobs with different rules apart, in caches.
func (j *Job) TopologyKey() string {
	if len(j.Topology) == 0 {
		return ""
	}
	return fmt.Sprint(j.Topology)
}
