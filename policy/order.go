// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Key is one criterion by which a policy orders jobs.
type Key string

// The keys.
const (
	ByPriority   Key = "priority"
	ByQueue      Key = "queue"            // Note.Level: the queues of tiresias
	ByArrival    Key = "arrival in queue" // Note.Since, or the submission
	ByAttained   Key = "GPU time so far"
	ByRemaining  Key = "remaining run time"
	ByService    Key = "remaining GPU time"
	BySubmission Key = "submission"
)

// Order is the list of keys by which a policy compares two jobs, the first key
// first. A policy whose order depends on more than the two jobs has none. One that
// does not end with BySubmission breaks ties in its own way.
type Order []Key

func (o Order) String() string {
	words := make([]string, len(o))
	for i, k := range o {
		words[i] = string(k)
	}
	return strings.Join(words, ", then ")
}

// Ahead explains why job a goes before b; ahead is false if it does not, or if the
// order does not determine it.
func (o Order) Ahead(a, b *sched.Job, now time.Time) (why string, ahead bool) {
	for _, k := range o {
		if c, text := k.compare(a, b, now); c != 0 {
			return text, c < 0
		}
	}
	return "", false
}

// Waiting returns the jobs that wait and do not go after the i-th job of a snapshot. Without
// an order jobs go as they were submitted.
func (o Order) Waiting(s *sched.Snapshot, i int) (ahead []*sched.Job) {
	for k, j := range s.Jobs {
		_, behind := o.Ahead(s.Jobs[i], j, s.Now)
		if len(o) == 0 {
			behind = k > i
		}
		if j.Phase == sched.Pending && k != i && !behind && j.Ready(s.Now) {
			ahead = append(ahead, j)
		}
	}
	return ahead
}

// compare is negative if a goes first, and names the deciding property of a.
func (k Key) compare(a, b *sched.Job, now time.Time) (int, string) {
	switch k {
	case ByPriority:
		return cmp.Compare(b.Priority, a.Priority), fmt.Sprintf("priority %d, above %d", a.Priority, b.Priority)
	case ByQueue:
		return cmp.Compare(a.Note.Level, b.Note.Level), fmt.Sprintf("in queue %d, ahead of queue %d", a.Note.Level+1, b.Note.Level+1)
	case ByArrival:
		return arrival(a).Compare(arrival(b)), "came to the queue earlier"
	case ByAttained:
		x, y := a.AttainedBy(now), b.AttainedBy(now)
		return cmp.Compare(x, y), fmt.Sprintf("has had %s of GPU time, less than %s", brief(x), brief(y))
	case ByRemaining, ByService:
		return k.compareLeft(a, b, now)
	case BySubmission:
		return cmp.Compare(a.Seq, b.Seq), "submitted earlier"
	}
	return 0, ""
}

func arrival(j *sched.Job) time.Time {
	if j.Note.Since.IsZero() {
		return j.Submitted
	}
	return j.Note.Since
}

// compareLeft compares the remaining work. Jobs without an estimate go last.
func (k Key) compareLeft(a, b *sched.Job, now time.Time) (int, string) {
	x, known := a.Remaining(now)
	y, both := b.Remaining(now)
	switch {
	case !known && !both:
		return 0, ""
	case known != both:
		if known {
			return -1, "has an estimate of its run time; jobs without one go last"
		}
		return 1, ""
	case k == ByService:
		m, n := x.Seconds()*float64(a.GPUs), y.Seconds()*float64(b.GPUs)
		return cmp.Compare(m, n), fmt.Sprintf("needs %s more GPU time, less than %s", brief(m), brief(n))
	}
	return cmp.Compare(x, y), fmt.Sprintf("needs %s more, less than %s", sched.Brief(x), sched.Brief(y))
}

func brief(seconds float64) string {
	return sched.Brief(time.Duration(seconds * float64(time.Second)))
}
