// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package federation simulates jobs on several clusters that schedule on their own, with
// a dispatcher that chooses where each job goes (sched/federate), against one cluster
// that has all their nodes. It knows only rigid jobs and one policy, and in return plays a
// million jobs on 100,000 GPUs in seconds; agree_test.go holds it against package sim.
package federation

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched/federate"
)

// Dispatch says how a job's cluster is chosen.
type Dispatch int

const (
	// Earliest takes the cluster with the earliest expected start.
	Earliest Dispatch = iota
	// RoundRobin takes one cluster after the other.
	RoundRobin
	// Random draws the cluster.
	Random
)

// Config is what is simulated.
type Config struct {
	Clusters int
	Nodes    int // of each cluster, with 8 GPUs
	Dispatch Dispatch
	Rule     federate.Rule
	// Every is how often waiting jobs are moved, in seconds; 0: never.
	Every float64
	// Look is how many waiting jobs of each cluster are looked at then.
	Look int
	Seed uint64 // of Random
}

// Result is what came of it. Times are in seconds, in the order of the jobs.
type Result struct {
	Waits []float64
	Moves int
	Ended float64 // of the last job
}

// PerGPU returns the average wait of a GPU that is asked for: a gang of 64 counts 64 times.
func (r *Result) PerGPU(jobs []Job) float64 {
	sum, n := 0.0, 0
	for i, w := range r.Waits {
		sum += w * float64(jobs[i].GPUs)
		n += jobs[i].GPUs
	}
	return sum / float64(max(1, n))
}

// Mean returns the average wait of the jobs that ask for at least so many GPUs.
func (r *Result) Mean(jobs []Job, atLeast int) float64 {
	sum, n := 0.0, 0
	for i, w := range r.Waits {
		if jobs[i].GPUs >= atLeast {
			sum += w
			n++
		}
	}
	return sum / float64(max(1, n))
}

// Quantile returns the wait that this part of the jobs does not exceed.
func (r *Result) Quantile(part float64) float64 {
	s := slices.Sorted(slices.Values(r.Waits))
	return s[min(len(s)-1, int(part*float64(len(s))))]
}

// world is a run.
type world struct {
	Config
	jobs     []Job
	clusters []*cluster
	now      float64
	seq      int64
	ends     endings
	where    []int16   // cluster of each job
	on       [][]int32 // nodes of each running job
	estEnd   []float64
	random   *rand.Rand
	turn     int
	offers   []federate.Offer
	out      Result
}

// Run plays the jobs, which are in the order of submission.
func Run(c Config, jobs []Job) (*Result, error) {
	if c.Clusters < 1 || c.Nodes < 1 {
		return nil, fmt.Errorf("%d clusters of %d nodes; want at least one of each", c.Clusters, c.Nodes)
	}
	w := &world{Config: c, jobs: jobs, where: make([]int16, len(jobs)), on: make([][]int32, len(jobs)),
		estEnd: make([]float64, len(jobs)), random: rand.New(rand.NewPCG(c.Seed, 2)), offers: make([]federate.Offer, c.Clusters)}
	w.out.Waits = make([]float64, len(jobs))
	for range c.Clusters {
		w.clusters = append(w.clusters, newCluster(c.Nodes))
	}
	for i, j := range jobs {
		if size(j.GPUs) < 0 || j.GPUs > c.Nodes*perNode {
			return nil, fmt.Errorf("job %d asks for %d GPUs; want a power of 2 up to %d that a cluster of %d has", i, j.GPUs, mix[len(mix)-1].gpus, c.Nodes*perNode)
		}
	}
	w.run()
	return &w.out, nil
}

func (w *world) run() {
	next, pass := 0, math.Inf(1)
	if w.Every > 0 && w.Clusters > 1 {
		pass = w.Every
	}
	for next < len(w.jobs) || len(w.ends) > 0 {
		submit, end := math.Inf(1), math.Inf(1)
		if next < len(w.jobs) {
			submit = w.jobs[next].Submitted
		}
		if len(w.ends) > 0 {
			end = w.ends[0].at
		}
		switch w.now = min(submit, end, pass); w.now {
		case end: // before a submission of the same instant
			e := heap.Pop(&w.ends).(ending)
			c := w.clusters[w.where[e.job]]
			c.release(e.job, w.jobs[e.job].GPUs, w.estEnd[e.job], w.on[e.job])
			w.on[e.job] = nil
			w.schedule(c)
			w.out.Ended = w.now
		case submit:
			w.join(int32(next), w.choose(w.jobs[next]))
			next++
		default:
			w.rebalance()
			pass += w.Every
		}
	}
}

// choose returns the cluster for a new job.
func (w *world) choose(j Job) int {
	switch w.Dispatch {
	case RoundRobin:
		w.turn++
		return w.turn % w.Clusters
	case Random:
		return w.random.IntN(w.Clusters)
	}
	if w.Clusters == 1 {
		return 0
	}
	best, _ := w.Rule.Choose(w.ask(j))
	return best
}

// ask returns what the clusters expect for a job that would be submitted now.
func (w *world) ask(j Job) []federate.Offer {
	for i, c := range w.clusters {
		w.offers[i] = federate.Offer{Known: true, Wait: duration(c.expect(j, w.now))}
	}
	return w.offers
}

func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}

// expect returns how long a new job would wait: not at all if it may start now, else as
// long as the work that waits takes on all GPUs, and as the job's own GPUs take to become
// free. This is coarser than what a daemon says, which plays its policy forward.
func (c *cluster) expect(j Job, now float64) float64 {
	if c.length == 0 && c.fits(j.GPUs, true) || c.length > 0 && c.reservedFor >= 0 && c.may(j.GPUs, j.Estimate, now) {
		return 0
	}
	return c.after(c.queued, j.GPUs, now)
}

// after returns how long a gang waits behind so much work.
func (c *cluster) after(work float64, gpus int, now float64) float64 {
	wait := work / float64(len(c.nodes)*perNode)
	if gpus <= perNode {
		left := max(0, c.ends/float64(max(1, c.running))-now) // of a running job, by its estimate
		return wait + float64(gpus)*left/float64(len(c.nodes)*perNode)
	}
	return wait + c.empties(gpus/perNode, now) - now
}

// join puts a job into the queue of a cluster and starts it if it may.
func (w *world) join(job int32, to int) {
	c, j := w.clusters[to], w.jobs[job]
	w.where[job] = int16(to)
	alone := c.length == 0
	if alone && c.fits(j.GPUs, true) || !alone && c.reservedFor >= 0 && c.may(j.GPUs, j.Estimate, w.now) {
		w.start(c, job)
		return
	}
	w.seq++
	k := size(j.GPUs)
	c.queue[k] = append(c.queue[k], waiting{job, w.seq})
	c.length++
	c.queued += float64(j.GPUs) * j.Estimate
	if alone || c.reservedFor < 0 {
		w.schedule(c)
	}
}

// leave takes a job out of its queue.
func (w *world) leave(c *cluster, k, at int) {
	j := w.jobs[c.queue[k][at].job]
	if at == 0 {
		c.queue[k] = c.queue[k][1:]
	} else {
		c.queue[k] = slices.Delete(c.queue[k], at, at+1)
	}
	c.length--
	c.queued -= float64(j.GPUs) * j.Estimate
	if c.length == 0 {
		c.queued = 0 // what rounding left
	}
}

func (w *world) start(c *cluster, job int32) {
	j := w.jobs[job]
	w.estEnd[job] = w.now + j.Estimate
	w.on[job] = c.place(job, j.GPUs, w.estEnd[job])
	w.out.Waits[job] = w.now - j.Submitted
	heap.Push(&w.ends, ending{w.now + j.Run, job})
}

// schedule starts what may start.
func (w *world) schedule(c *cluster) {
	for c.length > 0 {
		job, _ := c.first()
		gpus := w.jobs[job].GPUs
		if c.fits(gpus, true) {
			c.unreserve()
			w.leave(c, size(gpus), 0)
			w.start(c, job)
			continue
		}
		if c.free == 0 {
			return
		}
		c.reserve(job, gpus, w.now)
		for w.overtake(c, job) {
		}
		return
	}
	c.unreserve()
}

// overtake starts the oldest job that may overtake the first.
func (w *world) overtake(c *cluster, first int32) bool {
	oldest, class, index := int64(math.MaxInt64), -1, 0
	for k, q := range c.queue {
		if len(q) == 0 || mix[k].gpus > c.free {
			continue
		}
		if !c.fits(mix[k].gpus, true) {
			continue
		}
		for at := range q[:min(depth, len(q))] {
			if q[at].seq > oldest {
				break
			}
			if q[at].job != first && c.may(mix[k].gpus, w.jobs[q[at].job].Estimate, w.now) {
				oldest, class, index = q[at].seq, k, at
				break
			}
		}
	}
	if class < 0 {
		return false
	}
	job := c.queue[class][index].job
	w.leave(c, class, index)
	w.start(c, job)
	return true
}

// rebalance moves waiting jobs to clusters that start them earlier.
func (w *world) rebalance() {
	for from, c := range w.clusters {
		w.spread(from, c)
	}
}

// spread looks at the first jobs of a queue.
func (w *world) spread(from int, c *cluster) {
	var next [16]int // of each size
	ahead := 0.0
	for looked := 0; looked < w.Look; looked++ {
		k := -1
		for i, q := range c.queue {
			if next[i] < len(q) && (k < 0 || q[next[i]].seq < c.queue[k][next[k]].seq) {
				k = i
			}
		}
		if k < 0 {
			return
		}
		job := c.queue[k][next[k]].job
		j := w.jobs[job]
		wait := c.after(ahead, j.GPUs, w.now)
		if job == c.reservedFor {
			wait = max(wait, c.start-w.now)
		}
		offers := w.ask(j)
		offers[from].Never = true // there it is already
		to, pays := w.Rule.Move(federate.Offer{Known: true, Wait: duration(wait)}, offers)
		if !pays {
			ahead += float64(j.GPUs) * j.Estimate
			next[k]++
			continue
		}
		if job == c.reservedFor {
			c.unreserve()
		}
		w.leave(c, k, next[k])
		w.join(job, to)
		w.out.Moves++
	}
	w.schedule(c)
}

// ending is the end of a running job.
type ending struct {
	at  float64
	job int32
}

// endings is a heap.
type endings []ending

func (e endings) Len() int { return len(e) }
func (e endings) Less(i, k int) bool {
	return e[i].at < e[k].at || e[i].at == e[k].at && e[i].job < e[k].job
}
func (e endings) Swap(i, k int) { e[i], e[k] = e[k], e[i] }
func (e *endings) Push(v any)   { *e = append(*e, v.(ending)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
