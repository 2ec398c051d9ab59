// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"math"
	"time"
)

// tally is what happened on a node within the window.
type tally struct {
	score    float64 // weighted failures of different jobs
	jobs     map[string]float64
	users    map[string]bool // whose jobs failed
	everyone map[string]bool // whose attempts ended
	attempts float64
}

func newTally() tally {
	return tally{jobs: map[string]float64{}, users: map[string]bool{}, everyone: map[string]bool{}}
}

// count adds the ends on one node since a time. A job counts once for each
// node, with its heaviest failure.
func (t *tally) count(ends []attemptEnd, since time.Time) {
	clear(t.jobs)
	for _, e := range ends {
		if e.at.Before(since) {
			continue
		}
		t.attempts++
		t.everyone[e.user] = true
		if e.weight == 0 {
			continue
		}
		t.users[e.user] = true
		if more := e.weight - t.jobs[e.job]; more > 0 {
			t.jobs[e.job] += more
			t.score += more
		}
	}
}

// judge says whether a node should be out of use by the number of its failures,
// and why.
func (q *Quarantine) judge(name string) (why string, guilty bool) {
	since := q.now.Add(-q.config.Window)
	here, others := newTally(), newTally()
	here.count(q.nodes[name].ends, since)
	if len(here.jobs) < q.config.MinJobs {
		return "", false
	}
	for _, other := range q.sorted() {
		if other != name {
			others.count(q.nodes[other].ends, since)
		}
	}
	users := q.config.MinUsers
	if len(others.everyone) == 0 || len(others.everyone) == 1 && len(here.everyone) == 1 && others.everyone[one(here.everyone)] {
		users = 1
	}
	if len(here.users) < users {
		return "", false
	}
	// Half a failure in ten attempts is what is believed of nodes that nothing
	// is known about yet.
	rate := (others.score + 0.5) / (others.attempts + 10)
	expected := rate * here.attempts
	chance := poissonTail(here.score, expected)
	if chance >= q.config.Alpha/float64(max(1, len(q.nodes))) {
		return "", false
	}
	return fmt.Sprintf("%d jobs of %d users failed on it within %s (weight %.1f, %.2f expected, probability %.1g)",
		len(here.jobs), len(here.users), q.config.Window, here.score, expected, chance), true
}

func one(set map[string]bool) string {
	for k := range set { // it has one element
		return k
	}
	return ""
}

// poissonTail returns the probability of k or more events, k rounded down,
// where mean are expected.
func poissonTail(k, mean float64) float64 {
	n := int(math.Floor(k + 1e-9))
	if n <= 0 {
		return 1
	}
	// Summed from the term of n on, so that small probabilities keep their
	// digits.
	log, _ := math.Lgamma(float64(n) + 1)
	term := math.Exp(float64(n)*math.Log(mean) - mean - log)
	sum := 0.0
	for i := n; i < n+10_000; i++ {
		sum += term
		term *= mean / float64(i+1)
		if float64(i) > mean && term < sum*1e-12 {
			break
		}
	}
	return min(1, sum)
}
