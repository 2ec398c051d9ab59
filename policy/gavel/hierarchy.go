// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// The values of Config.Within.
const (
	Fair    = "fair"
	InOrder = "in-order"
)

// hierarchy is the goal of tenants over jobs. Throughput counts in GPUs, as if a job
// divided its time among types by their numbers. A tenant has its weight times the
// level; of that its jobs have equal parts, each up to the most it can use, or the
// first ones have all they can use. What a job cannot have because its types are full
// goes to the others of its tenant.
//
// The terms of a row are the throughput of one GPU, its tenant (0: none, else 1 and
// its index), and its place in the order.
type hierarchy struct {
	*table
	weights []float64 // by tenant, as in the terms
	inOrder bool
	of      [][]int // by tenant: rows, those that can use least first, or in order
	level   float64 // of needs
	needs   []float64
}

// hierarchical returns what a row needs at a level.
func (t *table) hierarchical(s *sched.Snapshot, within string) func(r int, level float64) float64 {
	h := &hierarchy{table: t, weights: []float64{1}, inOrder: within == InOrder, needs: make([]float64, len(t.rows))}
	h.weights = append(h.weights, s.Shares()...)
	h.of = make([][]int, len(h.weights))
	for r := range t.rows {
		tenant := int(t.terms[r][1])
		h.of[tenant] = append(h.of[tenant], r)
	}
	for _, rows := range h.of {
		slices.SortStableFunc(rows, func(a, b int) int {
			if h.inOrder {
				return cmp.Compare(t.terms[a][2], t.terms[b][2])
			}
			return cmp.Compare(h.most(a), h.most(b))
		})
	}
	return func(r int, level float64) float64 {
		if level != h.level {
			h.level = level
			for tenant, rows := range h.of {
				h.divide(rows, level*h.weights[tenant])
			}
		}
		return h.needs[r]
	}
}

// most returns the GPUs that a job of a row can use.
func (h *hierarchy) most(r int) float64 { return h.rows[r].best / h.terms[r][0] }

// divide divides GPUs among the jobs of a tenant. Frozen rows keep what they have.
func (h *hierarchy) divide(rows []int, gpus float64) {
	jobs := 0.0
	for _, r := range rows {
		if row := &h.rows[r]; row.frozen {
			gpus -= row.count * row.need / h.terms[r][0]
		} else {
			jobs += row.count
		}
	}
	for _, r := range rows {
		row := &h.rows[r]
		if row.frozen {
			continue
		}
		part := gpus / jobs
		if h.inOrder {
			part = gpus / row.count
		}
		part = min(h.most(r), max(0, part))
		h.needs[r] = part * h.terms[r][0]
		gpus -= part * row.count
		jobs -= row.count
	}
}
