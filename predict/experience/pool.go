// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"cmp"
	"fmt"
	"slices"
)

// The bounds of a pool. Beyond either, the least recently updated records are
// dropped.
const (
	MaxRecords    = 4096
	MaxAllSamples = 1 << 17 // of all records together
)

// maxUsed keeps the counter of a pool exact in every JSON reader, with room to grow.
const maxUsed = 1 << 53

// Pool holds the experience of past jobs.
type Pool struct {
	records []*Record // by key
	used    uint64    // largest Record.Used
	samples int       // of all records

	ratios   map[[2]string]float64 // a cache; see StepRatio
	ratiosAt uint64                // used, when it was made
}

// New returns an empty pool.
func New() *Pool { return &Pool{} }

// Len returns the number of records.
func (p *Pool) Len() int { return len(p.records) }

// find returns the index of the record of a key, or where it would be.
func (p *Pool) find(k Key) (int, bool) {
	return slices.BinarySearchFunc(p.records, k, func(r *Record, k Key) int { return r.Key.compare(k) })
}

// Learn adds the outcome of a job to the record of its key. It ignores a job without
// measurements, and one without model, script or user, because no later job would
// find it. If the key or the outcome is out of range, the pool does not change.
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

// forget drops the least recently updated record.
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

// Nearest returns the most similar record, and its similarity. On a tie it is the
// record of the same key, then that of the most jobs, then the first by key. ok is
// false if no record is similar.
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

// Prior returns the prior for a new job; nil (a prior without data) if no record is
// similar.
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
