// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package horus

import (
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// byClass serves classes of jobs by weighted fairness, round by round, until every
// waiting job has been tried.
func (d *decision) byClass() {
	jobs := slices.Clone(d.waiting)
	slices.SortFunc(jobs, func(a, b int) int { return int(d.Snapshot.Jobs[a].Seq - d.Snapshot.Jobs[b].Seq) })
	points := make([]point, len(jobs))
	for k, i := range jobs {
		points[k] = pointOf(d.Snapshot.Jobs[i])
	}
	queues := make([]queue, d.K)
	for k, class := range cluster(points, d.K) {
		queues[class].jobs = append(queues[class].jobs, jobs[k])
	}
	for q := range queues {
		queues[q].open(d)
	}
	for {
		turns := shares(queues, d.Beta)
		if turns == nil {
			return
		}
		for q, n := range turns {
			for range n {
				d.start(queues[q].next())
			}
		}
	}
}

// queue is a class of jobs in serving order.
type queue struct {
	jobs   []int
	waits  []time.Duration // of all its jobs, ascending
	oldest time.Duration
	weight float64
}

// open orders the jobs of a class.
func (q *queue) open(d *decision) {
	for _, i := range q.jobs {
		q.waits = append(q.waits, max(0, d.Snapshot.Now.Sub(d.Snapshot.Jobs[i].Since)))
	}
	slices.Sort(q.waits)
	if len(q.waits) > 0 {
		q.oldest = q.waits[len(q.waits)-1]
		// The median of the jobs that waited when the decision began.
		q.weight = max(1, q.waits[len(q.waits)/2].Seconds())
	}
	d.sort(q.jobs)
}

// next takes the first job.
func (q *queue) next() int {
	i := q.jobs[0]
	q.jobs = q.jobs[1:]
	return i
}

// shares returns how many of beta jobs come from each queue: in proportion to
// median wait x length, by largest remainder, and at least one from the queue
// whose oldest job has waited longest. It is nil if all are empty.
func shares(queues []queue, beta int) []int {
	total, oldest := 0.0, -1
	for q := range queues {
		if len(queues[q].jobs) == 0 {
			continue
		}
		total += queues[q].weight * float64(len(queues[q].jobs))
		if oldest < 0 || queues[q].oldest > queues[oldest].oldest {
			oldest = q
		}
	}
	if oldest < 0 {
		return nil
	}
	turns, rest := make([]int, len(queues)), make([]float64, len(queues))
	given := 0
	for q := range queues {
		exact := float64(beta) * queues[q].weight * float64(len(queues[q].jobs)) / total
		turns[q] = min(int(exact), len(queues[q].jobs))
		rest[q] = exact - math.Floor(exact)
		given += turns[q]
	}
	if turns[oldest] == 0 {
		turns[oldest]++
		given++
	}
	for given < beta {
		best := -1
		for q := range queues {
			if turns[q] < len(queues[q].jobs) && (best < 0 || rest[q] > rest[best]) {
				best = q
			}
		}
		if best < 0 {
			break
		}
		turns[best]++
		rest[best]--
		given++
	}
	return turns
}

// point is what classes are formed by: tasks, utilisation, GPUs per task, memory.
type point [4]float64

func pointOf(j *sched.Job) point {
	return point{float64(j.GPUs) / float64(j.Task()), util(j), float64(j.Task()), float64(j.GPUMemory)}
}

// distance is the sum of the absolute differences.
func (a point) distance(b point) float64 {
	d := 0.0
	for i := range a {
		d += math.Abs(a[i] - b[i])
	}
	return d
}

// mostRounds bounds the search for classes. Each round costs jobs x k.
const mostRounds = 30

// cluster sorts points into k classes, or fewer if there are fewer points: Lloyd's
// algorithm with L1 distance over standardised values. The result depends only on
// the points and their order.
func cluster(points []point, k int) []int {
	points = standardise(points)
	centres := spread(points, k)
	of := make([]int, len(points))
	for range mostRounds {
		changed := false
		for i := range points {
			best := nearest(points[i], centres)
			changed = changed || best != of[i]
			of[i] = best
		}
		if !changed {
			break
		}
		recentre(points, of, centres)
	}
	return of
}

// standardise gives every value mean 0 and standard deviation 1.
func standardise(points []point) []point {
	out := slices.Clone(points)
	for v := range len(point{}) {
		var mean, square float64
		for _, p := range points {
			mean += p[v] / float64(len(points))
		}
		for _, p := range points {
			square += (p[v] - mean) * (p[v] - mean) / float64(len(points))
		}
		for i := range out {
			out[i][v] -= mean
			if square > 0 {
				out[i][v] /= math.Sqrt(square)
			}
		}
	}
	return out
}

// spread chooses the first centres: the point nearest to the mean, then repeatedly
// the one farthest from those chosen.
func spread(points []point, k int) []point {
	if len(points) == 0 {
		return nil
	}
	centres := []point{points[nearest(point{}, points)]}
	away := make([]float64, len(points))
	for i := range points {
		away[i] = points[i].distance(centres[0])
	}
	for len(centres) < min(k, len(points)) {
		far := 0
		for i := range points {
			if away[i] > away[far] {
				far = i
			}
		}
		centres = append(centres, points[far])
		for i := range points {
			away[i] = min(away[i], points[i].distance(points[far]))
		}
	}
	return centres
}

// nearest returns the index of the nearest of some points, the first of equals.
func nearest(p point, of []point) int {
	best, least := 0, math.Inf(1)
	for i := range of {
		if d := p.distance(of[i]); d < least {
			best, least = i, d
		}
	}
	return best
}

// recentre moves every centre to the mean of its points. A centre without points
// stays.
func recentre(points []point, of []int, centres []point) {
	sums, counts := make([]point, len(centres)), make([]float64, len(centres))
	for i, c := range of {
		counts[c]++
		for v := range points[i] {
			sums[c][v] += points[i][v]
		}
	}
	for c := range centres {
		for v := range centres[c] {
			if counts[c] > 0 {
				centres[c][v] = sums[c][v] / counts[c]
			}
		}
	}
}
