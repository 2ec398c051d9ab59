// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"math/rand/v2"
	"slices"
)

// treeConfig says how trees are grown.
type treeConfig struct {
	Trees     int
	Depth     int
	MinLeaf   int     // least rows in a leaf
	Shrink    float64 // part of a leaf's mean that a tree adds
	Subsample float64 // part of the rows that a tree sees
	Seed      uint64
	Forests   int // grown from other samples of the rows and averaged; 0: one
}

// forest is gradient-boosted regression trees for squared error.
type forest struct {
	Base  float64 `json:"base"` // mean of the target
	Trees []tree  `json:"trees"`
}

// tree is a list of nodes, the root first.
type tree []node

// node is a split or, with Left 0, a leaf. Rows whose feature is at most At go
// left.
type node struct {
	Feature int     `json:"f,omitempty"`
	At      float64 `json:"at,omitempty"`
	Left    int     `json:"l,omitempty"`
	Right   int     `json:"r,omitempty"`
	Value   float64 `json:"v,omitempty"`
}

func (t tree) of(x []float64) float64 {
	i := 0
	for t[i].Left != 0 {
		if x[t[i].Feature] <= t[i].At {
			i = t[i].Left
		} else {
			i = t[i].Right
		}
	}
	return t[i].Value
}

// of sums the trees.
func (f *forest) of(x []float64) float64 {
	total := f.Base
	for _, t := range f.Trees {
		total += t.of(x)
	}
	return total
}

// grower grows the trees of one forest.
type grower struct {
	treeConfig
	x     [][]float64
	left  []float64 // residual by row
	order [][]int   // feature -> rows by its value, then number
	taken []int     // row -> node of the current tree, -1 when left out
}

// growForest fits trees to y, each to the residuals of those before. The same input
// gives the same trees.
func growForest(x [][]float64, y []float64, c treeConfig) *forest {
	f := &forest{}
	if len(y) == 0 {
		return f
	}
	for _, v := range y {
		f.Base += v / float64(len(y))
	}
	g := &grower{treeConfig: c, x: x, left: make([]float64, len(y)), taken: make([]int, len(y))}
	for j := range x[0] {
		rows := make([]int, len(x))
		for i := range rows {
			rows[i] = i
		}
		slices.SortStableFunc(rows, func(a, b int) int {
			switch {
			case x[a][j] < x[b][j]:
				return -1
			case x[a][j] > x[b][j]:
				return 1
			}
			return 0
		})
		g.order = append(g.order, rows)
	}
	forests := max(c.Forests, 1)
	for k := range forests {
		for i, v := range y {
			g.left[i] = v - f.Base
		}
		random := rand.New(rand.NewPCG(c.Seed+uint64(k), 0))
		for range c.Trees {
			t := g.grow(random)
			for i := range x {
				g.left[i] -= t.of(x[i])
			}
			for n := range t {
				t[n].Value = rounded(t[n].Value / float64(forests))
			}
			f.Trees = append(f.Trees, t)
		}
	}
	return f
}

// grow makes one tree from a sample of the rows.
func (g *grower) grow(random *rand.Rand) tree {
	for i := range g.taken {
		g.taken[i] = -1
	}
	for _, i := range random.Perm(len(g.x))[:max(1, int(math.Round(g.Subsample*float64(len(g.x)))))] {
		g.taken[i] = 0
	}
	t := tree{{}}
	level := []int{0}
	for range g.Depth {
		var next []int
		for _, at := range level {
			s := g.best(at)
			if !s.found {
				continue
			}
			l, r := len(t), len(t)+1
			t[at] = node{Feature: s.feature, At: s.at, Left: l, Right: r}
			t = append(t, node{}, node{})
			for i, n := range g.taken {
				if n != at {
					continue
				}
				g.taken[i] = r
				if g.x[i][s.feature] <= s.at {
					g.taken[i] = l
				}
			}
			next = append(next, l, r)
		}
		level = next
	}
	g.fillLeaves(t)
	return t
}

// fillLeaves gives every leaf the shrunken mean of its rows.
func (g *grower) fillLeaves(t tree) {
	total, count := make([]float64, len(t)), make([]float64, len(t))
	for i, n := range g.taken {
		if n >= 0 {
			total[n] += g.left[i]
			count[n]++
		}
	}
	for n := range t {
		if t[n].Left == 0 && count[n] > 0 {
			t[n].Value = rounded(g.Shrink * total[n] / count[n])
		}
	}
}

type split struct {
	found   bool
	feature int
	at      float64
	gain    float64
}

// best finds the split of a node that explains most; on a tie the first.
func (g *grower) best(at int) split {
	total, count := 0.0, 0
	for i, n := range g.taken {
		if n == at {
			total += g.left[i]
			count++
		}
	}
	var best split
	if count < 2*g.MinLeaf {
		return best
	}
	whole := total * total / float64(count)
	for j, rows := range g.order {
		sum, n := 0.0, 0
		before := math.NaN()
		for _, i := range rows {
			if g.taken[i] != at {
				continue
			}
			v := g.x[i][j]
			if n >= g.MinLeaf && count-n >= g.MinLeaf && v > before {
				rest := total - sum
				gain := sum*sum/float64(n) + rest*rest/float64(count-n) - whole
				if gain > best.gain*(1+1e-9)+1e-12 {
					best = split{true, j, rounded((before + v) / 2), gain}
					// Rounding must not move a row to the other side.
					if !(best.at >= before && best.at < v) {
						best.at = before
					}
				}
			}
			sum += g.left[i]
			n++
			before = v
		}
	}
	return best
}
