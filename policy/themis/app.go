// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/policy/auction"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/fairness"
)

// app is an app as its agent sees it: its jobs, and the value of GPUs to it.
type app struct {
	sched.App
	nth  int    // in order of name
	jobs []*job // in the order in which they get GPUs

	elapsed     float64   // seconds since it arrived
	left        float64   // GPU-seconds of work still to do, well placed
	lengths     []float64 // seconds that each job needs, well placed at its size, the longest first
	mostAsked   int       // GPUs of all its current jobs at the size they asked for
	longest     float64   // seconds that the job with most left needs, well placed at its size
	total       float64   // GPU-seconds of all jobs it has had
	most        int       // GPUs that all its current jobs together can use
	mostEver    int
	share       float64 // GPUs of an equal part of the cluster now
	ideal       float64 // seconds from its start to its end, alone
	gang        int     // GPUs come in multiples of this
	task        int
	groups      []group         // its jobs by what they need, the largest first
	stretch     int             // GPUs that elastic jobs can use beyond their least size
	holds       []auction.Share // by node, of leases that continue
	end         float64         // seconds until its end with what it has
	expectedRho float64         // if nothing changes
	rhoIfLost   float64         // expected rho without its expired leases
	bids        bool

	halving  *auction.Halving // what is left of a search; nil: its jobs are independent
	gangGPUs float64          // GPUs of one of its jobs, in the mean
}

// job is one job of an app.
type job struct {
	*sched.Job
	app     *app
	index   int // in Snapshot.Jobs
	size    int // least GPUs it runs on
	most    int // GPUs it can use now
	curve   fairness.Curve
	left    float64 // GPU-seconds of work left
	expired bool    // it runs, and its GPUs are on offer
	stays   bool    // it runs, and its GPUs are not on offer
	onOffer bool    // it runs, and its GPUs are for sale
	dropped bool    // its GPUs were taken, or may be
	won     bool    // it has GPUs in the plan
}

// length returns the seconds a job still needs, well placed at its size.
func (j *job) length() float64 { return j.left / float64(j.GPUs) }

// waits reports whether the job could be started now.
func (j *job) waits(r *round) bool {
	return !j.won && !j.stays && (!j.expired || j.dropped) && j.Ready(r.s.Now)
}

// group is a number of jobs with equal needs.
type group struct {
	size, task, count int
	widest            sched.Level
	slow              slowdowns
}

// minLeft is the least work, in GPU-seconds, that a job is assumed to have left: a
// job that has outlived its estimate must not look finished.
const minLeft = 1

// work returns the GPU-seconds a job has left and those it has in all, well placed.
// A job without an estimate is assumed to be half done.
func (r *round) work(j *sched.Job) (left, total float64) {
	if remaining, ok := j.Remaining(r.s.Now); ok {
		return max(minLeft, remaining.Seconds()*float64(j.GPUs)), j.Estimate.D().Seconds() * float64(j.GPUs)
	}
	had := j.AttainedBy(r.s.Now)
	left = max(had, r.lease*float64(j.GPUs))
	return left, had + left
}

// know fills in a job by its index in the snapshot.
func (j *job) know(r *round, i int) {
	sj := r.s.Jobs[i]
	*j = job{Job: sj, index: i, size: sj.GPUs, most: sj.GPUs, curve: fairness.CurveOf(sj, r.s.Cluster)}
	if sj.Elastic() {
		j.size = cmp.Or(sj.NextSize(0), sj.GPUs)
		j.most = max(j.size, sj.LargestSize(growth(sj)), sj.Placement.GPUs())
	}
	if sj.Phase == sched.Running {
		j.expired = r.isExpired(sj)
		j.stays = !j.expired
	}
}

// mostOf returns the GPUs of the largest size of a job.
func mostOf(j *sched.Job) int {
	if j.Elastic() {
		return j.MaxGPUs
	}
	return j.GPUs
}

// gather groups the jobs by app, in order of name.
func (r *round) gather() {
	byID := make(map[sched.AppID]*app, r.s.Apps())
	m := r.memory
	if len(m.apps) < r.s.Apps() || len(m.jobs) < len(r.s.Jobs) {
		*m = memory{make([]app, r.s.Apps()), make([]job, len(r.s.Jobs))}
	}
	apps := m.apps
	r.jobs, r.apps = make([]*job, len(r.s.Jobs)), make([]*app, 0, r.s.Apps())
	for i := range r.s.Jobs {
		j := &m.jobs[i]
		j.know(r, i)
		r.marked = r.marked || j.Selector != ""
		r.jobs[i] = j
		a := byID[j.App]
		if a == nil {
			known, _ := r.s.App(j.App)
			if b := known.Bid; b != nil && !b.At.IsZero() && r.s.Now.Sub(b.At) > bidLife {
				known.Bid = nil // its agent no longer answers
			}
			if len(apps) == 0 { // a layer has added jobs of new apps
				apps = make([]app, 1)
			}
			a, apps = &apps[0], apps[1:]
			*a = app{App: known, jobs: a.jobs[:0], lengths: a.lengths[:0], groups: a.groups[:0]}
			a.ID = j.App
			byID[j.App] = a
			r.apps = append(r.apps, a)
		}
		j.app = a
		a.jobs = append(a.jobs, j)
	}
	slices.SortFunc(r.apps, func(a, b *app) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for n, a := range r.apps {
		a.nth = n
		r.know(a)
	}
}

// know computes what the app's agent knows.
func (r *round) know(a *app) {
	a.elapsed = max(0, r.s.Now.Sub(a.Submitted).Seconds())
	fresh, noted, total := 0.0, 0.0, 0.0 // GPU-seconds: of jobs without a note, of the app by its notes, of all current jobs
	facts := r.facts[:0]
	for _, j := range a.jobs {
		var all float64
		j.left, all = r.work(j.Job)
		a.left += j.left
		total += all
		a.longest = max(a.longest, j.left/float64(j.GPUs))
		facts = append(facts, fairness.Job{GPUs: j.GPUs, Seconds: all / float64(j.GPUs), Most: mostOf(j.Job), Curve: j.curve})
		a.lengths = append(a.lengths, j.left/max(j.speed(j.most), float64(j.GPUs)))
		a.mostAsked += j.GPUs
		a.most += mostOf(j.Job)
		a.stretch += j.most - j.size
		if j.Note.Count > 0 {
			noted = max(noted, float64(j.Note.Count))
		} else {
			fresh += all
		}
		a.mostEver = max(a.mostEver, j.Note.Level)
		a.gang, a.task = gcd(a.gang, j.size), gcd(a.task, j.Task())
		if j.stays {
			a.hold(j.Placement)
		}
	}
	r.facts = facts
	if a.stretch > 0 {
		a.gang = a.task
	}
	a.gangGPUs = float64(a.mostAsked) / float64(len(a.jobs))
	a.total = max(total, noted+fresh)
	if len(a.Stages) > 0 {
		left := a.search(facts)
		a.total = max(noted, total-a.left+left)
		a.left, facts = left, nil
	}
	a.mostEver = max(a.mostEver, a.most)
	a.share = r.gpus / float64(len(r.apps))
	a.ideal = r.idealOf(r.alone(a, facts))
	slices.SortFunc(a.lengths, func(x, y float64) int { return cmp.Compare(y, x) })
	slices.SortFunc(a.jobs, inTurn)
	a.groups = groupsOf(r, a, a.groups)
}

// search takes the app as a search of several stages, and returns the GPU-seconds of
// work left in them. Trials to come are taken to be like those it has.
func (a *app) search(jobs []fairness.Job) (left float64) {
	h := &auction.Halving{Most: 1}
	mean := 0.0 // GPU-seconds of a whole trial
	for _, j := range jobs {
		h.IterSerial = append(h.IterSerial, j.Seconds)
		mean += j.Seconds * float64(j.GPUs) / float64(len(jobs))
	}
	for _, s := range a.Stages {
		h.Phases = append(h.Phases, auction.Phase{Jobs: s.Jobs, Iterations: s.Part})
		left += float64(s.Jobs) * s.Part * mean
	}
	a.halving = h
	return left
}

func (a *app) hold(p sched.Placement) { a.holds = add(a.holds, p) }

// give is the opposite of hold.
func (a *app) give(p sched.Placement) {
	less := add(nil, p)
	for i := range less {
		less[i].GPUs *= -1
	}
	a.holds = slices.DeleteFunc(merge(a.holds, less), func(s auction.Share) bool { return s.GPUs == 0 })
}

// inTurn orders the jobs of an app: the most time left first, because the app ends
// with its last job.
func inTurn(a, b *job) int {
	return cmp.Or(
		-cmp.Compare(a.Priority, b.Priority),
		-cmp.Compare(math.Round(a.left/float64(a.GPUs)/turnStep), math.Round(b.left/float64(b.GPUs)/turnStep)),
		-cmp.Compare(a.Phase, b.Phase), // running ones first
		cmp.Compare(a.Seq, b.Seq),
	)
}

// turnStep is the smallest difference in seconds left that affects the order of
// jobs: a smaller one is not worth a restart.
const turnStep = 1800

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// groupsOf counts the jobs of an app that need the same, in the memory of out.
func groupsOf(r *round, a *app, out []group) []group {
	learned := r.learn(a)
	for _, j := range a.jobs {
		g := group{size: j.size, task: j.Task(), widest: j.MaxSpread, slow: learned[j.Model]}
		if g.slow == nil {
			g.slow = classOf(j.Job)
		}
		at := slices.IndexFunc(out, func(o group) bool {
			return o.size == g.size && o.task == g.task && o.widest == g.widest && o.slow == g.slow
		})
		if at < 0 {
			at = len(out)
			out = append(out, g)
		}
		out[at].count++
	}
	slices.SortStableFunc(out, func(x, y group) int {
		return cmp.Or(cmp.Compare(y.size, x.size), cmp.Compare(x.task, y.task), cmp.Compare(x.widest, y.widest), cmp.Compare(x.slow[sched.CrossRack], y.slow[sched.CrossRack]))
	})
	return out
}

// bidLife is how long the bid of an app's own agent is valid; drivers renew it
// several times as often.
const bidLife = 2 * time.Minute
