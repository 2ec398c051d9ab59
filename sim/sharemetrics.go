// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/bits"
	"time"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// SharingSummary describes the jobs that shared GPUs.
type SharingSummary struct {
	Jobs     int     `json:"jobs"`     // that ever shared a GPU
	Part     float64 `json:"part"`     // of all run time in which the GPUs were shared
	Slowdown float64 `json:"slowdown"` // mean over that time
	// Over is the part of that time in which the slowdown was above
	// interfere.DefaultLimit.
	Over float64 `json:"over"`
	// Measured and Modelled count the groups of jobs on a GPU, for each of their jobs
	// once: those in which its slowdown was measured, and the others.
	Measured int `json:"measured"`
	Modelled int `json:"modelled"`
}

// million is the load of a fully busy GPU; integers keep sums exact.
const million = 1_000_000

// usage integrates GPU utilisation over time.
type usage struct {
	stride int
	load   []int64 // by GPU: the sum of the jobs' utilisations, in millionths
	users  []uint8 // by GPU: jobs on it
	busy   int64   // sum over GPUs of min(1, load), in millionths
	held   int     // GPUs in use
	jobs   []sharer
	last   time.Duration

	busyTime, heldTime, there float64 // GPU-seconds; there: all GPUs while any job was active
	sharedTime, slowTime      float64 // seconds in which jobs shared GPUs, and the same weighted by slowdown
	overTime                  float64
	runTime                   float64
	measured, modelled        int
}

// sharer is the state of a running job.
type sharer struct {
	load     int64 // on each of its GPUs, in millionths
	slowdown float64
	shares   bool
	ever     bool
	since    time.Duration // when its slowdown last changed
	runs     bool
}

func (u *usage) init(r *run) {
	u.stride = r.Cluster.MaxGPUs()
	u.jobs = make([]sharer, len(r.jobs))
}

// of returns the entry of a job; searches add jobs during a run.
func (u *usage) of(j *job) *sharer {
	for len(u.jobs) <= j.result {
		u.jobs = append(u.jobs, sharer{})
	}
	return &u.jobs[j.result]
}

// advance integrates until now.
func (u *usage) advance(r *run) {
	seconds := (r.now - u.last).Seconds()
	u.last = r.now
	if seconds <= 0 {
		return
	}
	u.busyTime += seconds * float64(u.busy) / million
	u.heldTime += seconds * float64(u.held)
	if r.record.running+r.record.queued > 0 {
		u.there += seconds * float64(r.state.Cluster().GPUs())
	}
}

// change adds to the load of a job's GPUs, and to their users.
func (u *usage) change(j *job, load int64, users int) {
	for _, s := range j.setting.placement {
		for g := s.GPUs; g != 0; g &= g - 1 {
			gpu := int(s.Node)*u.stride + bits.TrailingZeros64(uint64(g))
			for len(u.load) <= gpu { // nodes may join
				u.load, u.users = append(u.load, 0), append(u.users, 0)
			}
			u.busy -= min(million, u.load[gpu])
			u.load[gpu] += load
			u.busy += min(million, u.load[gpu])
			if u.users[gpu] > 0 {
				u.held--
			}
			u.users[gpu] += uint8(users)
			if u.users[gpu] > 0 {
				u.held++
			}
		}
	}
}

// book adds the time since a job's slowdown last changed.
func (u *usage) book(r *run, s *sharer) {
	seconds := (r.now - s.since).Seconds()
	s.since = r.now
	u.runTime += seconds
	if !s.shares {
		return
	}
	u.sharedTime += seconds
	u.slowTime += seconds * s.slowdown
	if s.slowdown > interfere.DefaultLimit {
		u.overTime += seconds
	}
}

// count counts a slowdown of a job in new company.
func (u *usage) count(measured bool) {
	if measured {
		u.measured++
	} else {
		u.modelled++
	}
}

// start records that a job holds its GPUs.
func (u *usage) start(r *run, j *job) {
	u.advance(r)
	s := u.of(j)
	*s = sharer{since: r.now, runs: true, slowdown: 1, ever: s.ever, load: int64(j.work.trueUtil() * million)}
	u.change(j, s.load, 1)
	// Its GPUs do no work while it restarts.
	u.busyTime -= (j.held - r.now).Seconds() * j.work.trueUtil() * float64(j.setting.gpus)
}

// pacing is the speed of a job.
type pacing struct {
	slowdown float64 // by jobs on the same GPUs
	shares   bool    // there are such jobs
	speed    float64 // relative to running alone and well placed
}

// placed returns the speed of a job where it runs, without interference, relative to
// its best placement; 1 if unknown.
func placed(j *job) float64 {
	t, ok := j.truth.(*recorded)
	if !ok {
		return 1
	}
	return min(1, t.speed(j.setting)*float64(t.asked)/float64(j.setting.gpus))
}

// adjust records the speed of a job: a GPU that waits for others is idle.
func (u *usage) adjust(r *run, j *job, p pacing) {
	s := u.of(j)
	if !s.runs {
		return
	}
	load := int64(j.work.trueUtil() * p.speed * million)
	p.slowdown = max(1, p.slowdown)
	if load == s.load && p.slowdown == s.slowdown && p.shares == s.shares {
		return
	}
	u.advance(r)
	u.book(r, s)
	s.slowdown, s.shares, s.ever = p.slowdown, p.shares, s.ever || p.shares
	u.change(j, load-s.load, 0)
	s.load = load
}

// leave records that a job has left its GPUs.
func (u *usage) leave(r *run, j *job) {
	u.advance(r)
	s := u.of(j)
	u.book(r, s)
	u.change(j, -s.load, -1)
	if j.held > r.now { // it left during its restart
		u.busyTime += (j.held - r.now).Seconds() * j.work.trueUtil() * float64(j.setting.gpus)
	}
	s.runs = false
}

// summarise completes the summary.
func (u *usage) summarise(r *run, sum *Summary) {
	u.advance(r)
	if u.there > 0 {
		sum.GPUUtil, sum.GPUsHeld = max(0, u.busyTime)/u.there, u.heldTime/u.there
	}
	out := SharingSummary{}
	for i := range u.jobs {
		if s := &u.jobs[i]; s.runs {
			u.book(r, s)
		}
		if u.jobs[i].ever {
			out.Jobs++
		}
	}
	if u.sharedTime > 0 {
		out.Part, out.Slowdown, out.Over = u.sharedTime/u.runTime, u.slowTime/u.sharedTime, u.overTime/u.sharedTime
		out.Measured, out.Modelled = u.measured, u.modelled
		sum.Sharing = &out
	}
}
