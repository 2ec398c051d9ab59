// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// How a straggler is found. Eight windows leave a third of a minute to report them.
const (
	// PaceWindow is how many seconds of steps one window of a Pace sums up.
	PaceWindow = 5
	// paceWindows is how many windows are judged together, PaceSeconds how long they are.
	paceWindows = 8
	PaceSeconds = paceWindows * PaceWindow
	// slowEnough is the least slowness that is worth a word, and slowOnce what all
	// windows but one must show.
	slowEnough, slowOnce = 1.2, 1.1
	// beyondNoise is how many standard errors the slowness must exceed, and
	// beyondPeers how many standard deviations of what sets the peers apart. Half of a
	// normal distribution, around its own median, looks 0.6 times as wide.
	beyondNoise, beyondPeers = 6, 3 / 0.6
	// leastNoise is the smallest noise of a window that is believed.
	leastNoise = 0.01
)

// Straggler is a rank that computes more slowly than its peers.
type Straggler struct {
	Rank  int     `json:"rank"`
	Times float64 `json:"times"` // its time over a typical peer's
}

// Pace judges whether ranks of a gang compute more slowly than their peers. It
// looks at the time that a rank computes in a step, without its wait for the
// others: in a gang that exchanges gradients, whole steps are equally long for all.
//
// A rank is a straggler if, over the last windows, its time over that of a typical
// peer is (by the median of the windows) at least 1.2 and in all windows but one at
// least 1.1; if that exceeds six standard errors of the noise, which is estimated
// from how much windows differ; and if it exceeds three standard deviations of what
// sets its peers apart, estimated from the faster half of them. All estimates are
// ranks or medians: a pause, an evaluation on one rank or a heavy tail does not
// matter. A typical peer is slower than a third of the ranks, so that half of them,
// such as those on one of two nodes, can be found slow.
type Pace struct {
	windows [][]float64
}

// Add takes in a window: for each rank the seconds that it computes in a step, 0 if
// nothing was measured. A gang of another size starts afresh.
func (p *Pace) Add(window []float64) {
	if len(p.windows) > 0 && len(p.windows[0]) != len(window) {
		p.windows = nil
	}
	if len(p.windows) == paceWindows {
		p.windows = slices.Delete(p.windows, 0, 1)
	}
	p.windows = append(p.windows, slices.Clone(window))
}

// Stragglers returns the ranks that are slow now, the slowest first.
func (p *Pace) Stragglers() []Straggler {
	slowness, noise, least := p.judge()
	typical := middle(measured(noise))
	var out []Straggler
	for i, s := range slowness {
		if !(s >= math.Log(slowEnough) && least[i] >= math.Log(slowOnce)) {
			continue
		}
		deviation := max(noise[i], typical, leastNoise)
		standardError := 1.25 * deviation / math.Sqrt(paceWindows) // of a median
		if s >= beyondNoise*standardError && s >= beyondPeers*apart(slowness, i) {
			out = append(out, Straggler{Rank: i, Times: math.Exp(s)})
		}
	}
	slices.SortStableFunc(out, func(a, b Straggler) int { return cmp.Compare(b.Times, a.Times) })
	return out
}

// CaughtUp reports whether ranks that were slow are so no longer.
func (p *Pace) CaughtUp(ranks []int) bool {
	slowness, _, _ := p.judge()
	for _, r := range ranks {
		if r >= len(slowness) || !(slowness[r] < math.Log(slowOnce)) {
			return false
		}
	}
	return true
}

// judge returns for each rank the logarithm of its time over a typical peer's, by the
// median of the windows (not a number: not measured), the noise of one window, and the
// least of all windows but one. It returns nothing before there are enough windows.
func (p *Pace) judge() (slowness, noise, least []float64) {
	if len(p.windows) < paceWindows || len(p.windows[0]) < 2 {
		return nil, nil, nil
	}
	for _, x := range p.over() {
		s, n, l := math.NaN(), math.NaN(), math.NaN()
		if len(x) >= paceWindows-1 {
			slices.Sort(x)
			s, l = middle(x), x[len(x)-paceWindows+1]
			n = spread(x, s)
		}
		slowness, noise, least = append(slowness, s), append(noise, n), append(least, l)
	}
	return slowness, noise, least
}

// over returns, by rank, the logarithms of its time over a typical peer's,
// for each window in which it and half of them were measured.
func (p *Pace) over() [][]float64 {
	out := make([][]float64, len(p.windows[0]))
	for _, w := range p.windows {
		known := slices.DeleteFunc(slices.Clone(w), func(v float64) bool { return !(v > 0) })
		if len(known) < 2 || 2*len(known) < len(w) {
			continue
		}
		slices.Sort(known)
		typical := known[(len(known)-1)/3]
		for rank, v := range w {
			if v > 0 {
				out[rank] = append(out[rank], math.Log(v/typical))
			}
		}
	}
	return out
}

// apart returns what sets the peers of a rank apart for good: the standard
// deviation of their slowness, from the faster half of them.
func apart(slowness []float64, rank int) float64 {
	peers := measured(slices.Concat(slowness[:rank], slowness[rank+1:]))
	if len(peers) < 6 { // too few to tell
		return 0
	}
	faster := peers[:(len(peers)+1)/2]
	return spread(faster, middle(faster))
}

// measured returns the numbers that are known, sorted.
func measured(values []float64) []float64 {
	out := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	slices.Sort(out)
	return out
}

// spread estimates a standard deviation from the median distance to a centre.
func spread(values []float64, centre float64) float64 {
	d := make([]float64, len(values))
	for i, v := range values {
		d[i] = math.Abs(v - centre)
	}
	slices.Sort(d)
	return 1.4826 * middle(d)
}

// middle returns the median of sorted numbers; 0: there are none.
func middle(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// slow notes that a rank is slow on a node. That its work is uneven by design is
// ruled out if a gauge explains the slowness (Finding.Node), or if the same GPU
// was slow within Window under another rank.
func (q *Quarantine) slow(name string, e NodeEvent) []NodeChange {
	n := q.record(name)
	e.At = q.now
	old := q.now.Add(-q.config.Window)
	n.slow = slices.DeleteFunc(n.slow, func(s NodeEvent) bool { return s.At.Before(old) })
	why, guilty := e.Finding.Text, e.Finding.Node
	for _, s := range n.slow {
		if !guilty && s.GPU == e.GPU && s.Rank != e.Rank {
			why, guilty = fmt.Sprintf("%s; it was slow under rank %d of %s too", why, s.Rank, s.Job), true
		}
	}
	n.slow = append(n.slow[max(0, len(n.slow)-maxSlow+1):], e)
	if !guilty || n.state != InUse {
		return nil
	}
	return q.accuse(name, why)
}
