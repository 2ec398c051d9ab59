// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"cmp"
	"fmt"
	"slices"
)

// The bounds of a pool. Beyond either, the records that have not learned for
// longest are forgotten.
const (
	MaxRecords    = 4096
	MaxAllSamples = 1 << 17 // of all records together
)

// maxUsed keeps the counter of a pool exact in every JSON reader, with room to
// count on.
const maxUsed = 1 << 53

// Pool holds the experience of past jobs.
type Pool struct {
	records []*Record // by key
	used    uint64    // largest Record.Used
	samples int       // of all records
}

// New returns an empty pool.
func New() *Pool { return &Pool{} }

// Len returns the number of records.
func (p *Pool) Len() int { return len(p.records) }

// find returns where the record of a key is, or would be.
func (p *Pool) find(k Key) (int, bool) {
	return slices.BinarySearchFunc(p.records, k, func(r *Record, k Key) int { return r.Key.compare(k) })
}

// Learn takes the outcome of a job into the record of its key. A job that has
// measured nothing changes nothing, and neither does one that has no model,
// script or user, because no later job would find it. If the key or the outcome
// is out of range, the pool stays as it is.
func (p *Pool) Learn(k Key, o Outcome) error {
	if o.empty() || !k.findable() {
		return nil
	}
	i, found := p.find(k)
	old := &Record{Key: k}
	if found {
		old = p.records[i]
	}
	next, err := old.with(o)
	if err != nil {
		return fmt.Errorf("learn from job of %+v: %w", k, err)
	}
	p.used = min(p.used+1, maxUsed)
	next.Used = p.used
	if found {
		p.records[i] = next
	} else {
		p.records = slices.Insert(p.records, i, next)
	}
	p.samples += next.samples() - old.samples()
	for len(p.records) > MaxRecords || p.samples > MaxAllSamples {
		p.forget()
	}
	return nil
}

// forget drops the record that has not learned for longest.
func (p *Pool) forget() {
	oldest := 0
	for i, r := range p.records {
		if r.Used < p.records[oldest].Used {
			oldest = i
		}
	}
	p.samples -= p.records[oldest].samples()
	p.records = slices.Delete(p.records, oldest, oldest+1)
}

// Nearest returns the record that is most similar to a job, and how similar it
// is. Of equally similar ones it is that of the very same key, then that of the
// most jobs, then the first by key. ok is false if none is similar at all.
func (p *Pool) Nearest(k Key) (r *Record, similarity float64, ok bool) {
	best := 0
	for _, candidate := range p.records {
		a := agreement(k, candidate.Key)
		if a == 0 {
			continue
		}
		if c := cmp.Compare(a, best); c > 0 || c == 0 && better(k, candidate, r) {
			r, best = candidate, a
		}
	}
	return r, float64(best) / sameAll, r != nil
}

// better decides between two records that are equally similar to a key.
func better(k Key, a, b *Record) bool {
	if b.Key == k || a.Key == k {
		return a.Key == k
	}
	return a.Jobs > b.Jobs
}

// Prior returns what the pool knows for a new job; nil, which is a prior that
// says nothing, if that is nothing.
func (p *Pool) Prior(k Key, c Config) *Prior {
	r, _, ok := p.Nearest(k)
	if !ok {
		return nil
	}
	return NewPrior(k, r, c)
}

func (o Outcome) empty() bool {
	for _, p := range o.Profiles {
		if p != nil && p.Len() > 0 {
			return false
		}
	}
	return len(o.Noise) == 0 && o.Restart == 0 && o.Work == 0
}
