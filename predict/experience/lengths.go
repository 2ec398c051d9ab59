// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// Run is what is known about the run time of a job.
type Run struct {
	Key      JobKey
	Estimate time.Duration // its user's; 0: none
	Ran      time.Duration // so far; of a job that has ended: in all
	// Whole is how long its work takes at the rate that its agent reports, and Done how
	// much of that is done. 0: its agent reports nothing.
	Whole, Done time.Duration
}

// Track is what was known about a job when it had done each tenth of its work.
type Track [Tenths]Tenth

// Tenth is how long a job had run at a point of its work, and how long it would still run
// at the rate that its agent reported. The zero value is unknown.
type Tenth struct{ Ran, Left time.Duration }

// Tenths is their number.
const Tenths = 10

// Tenth returns the tenth of its work that a job is in.
func (r Run) Tenth() int {
	return max(0, min(Tenths-1, int(Tenths*r.Done.Seconds()/max(1e-9, r.Whole.Seconds()))))
}

// Basis is what the expected run time of a job is based on.
type Basis int

// The kinds of basis.
const (
	Nothing   Basis = iota // no job has ended yet
	Anything               // the run times of all jobs that have ended
	Similar                // the run times of similar jobs that have ended
	Estimated              // its user's estimate, and the run times of past jobs
	Reported               // what its agent reports
)

var basisNames = [...]string{"", "all", "similar", "estimate", "reports"}

func (b Basis) String() string { return basisNames[b] }

// Lengths stores how long jobs ran, what their users had estimated and what their agents
// had reported, to draw the run time of another. The zero value is empty.
type Lengths struct {
	ended   []lived          // newest last
	running []lived          // so far
	reports [Tenths][]report // by tenth of the work, newest last
	trust   trust
	apps    map[string]bool // of jobs that have ended or run
	common  map[JobKey]shared
	typical *future // the mean of all futures
}

// lived is how long a job ran.
type lived struct {
	key           JobKey
	log, estimate float64 // logarithms of seconds; estimate: NaN if there is none
	reported      bool    // its agent said how much was left
	early         bool    // it ended long before its work was done
}

// report is the logarithm of the time that a job still ran over that which its agent's
// rate let expect.
type report struct {
	kind  string
	ratio float64
}

// shared is what a job has in common with past jobs: those of each level, by index, and
// what it has in common with any that has ended.
type shared struct {
	kin  [levels][]int
	most kinship
	jobs int // of the narrowest group of similar ones that have ended
}

// recentJobs bounds what is stored: the newest.
const recentJobs = 300

// keep adds a value and drops old ones.
func keep[T any](list []T, o T) []T {
	if list = append(list, o); len(list) >= 2*recentJobs {
		return slices.Clone(list[recentJobs:])
	}
	return list
}

func newest[T any](list []T) []T { return list[max(0, len(list)-recentJobs):] }

// undone is the part of its work that a job leaves undone if it ends early.
const undone = 0.1

func (r Run) lived() lived {
	o := lived{key: r.Key, log: math.Log(r.Ran.Seconds()), estimate: math.NaN(), reported: r.Whole > 0}
	if r.Estimate > 0 {
		o.estimate = math.Log(r.Estimate.Seconds())
	}
	o.early = o.reported && r.Done.Seconds() < (1-undone)*r.Whole.Seconds()
	return o
}

// Learn adds a job that has ended.
func (l *Lengths) Learn(r Run, reported Track) {
	if r.Ran <= 0 {
		return
	}
	o := r.lived()
	if past := newest(l.ended); len(past) > 0 {
		kin := make([]kinship, len(past))
		for i := range past {
			kin[i] = r.Key.kin(&past[i].key)
		}
		l.trust.judge(past, kin, &o)
	}
	for i, t := range reported {
		if t.Left > 0 && t.Ran < r.Ran && !o.early {
			l.reports[i] = keep(l.reports[i], report{r.Key.kind(), math.Log((r.Ran - t.Ran).Seconds() / t.Left.Seconds())})
		}
	}
	l.ended = keep(l.ended, o)
	l.met(r.Key)
}

// Watch adds a job that runs. Without those, the jobs that have ended would look typical,
// and long ones be missing among them.
func (l *Lengths) Watch(r Run) {
	if r.Ran <= 0 {
		return
	}
	l.running = append(l.running, r.lived())
	l.met(r.Key)
}

// met notes a job, and forgets what is not true with it.
func (l *Lengths) met(k JobKey) {
	if l.apps == nil {
		l.apps = map[string]bool{}
	}
	l.apps[k.App] = true
	l.common, l.typical = nil, nil
}

// Fresh returns a copy to which running jobs can be added.
func (l *Lengths) Fresh() *Lengths {
	c := *l
	c.running, c.apps, c.common, c.typical = nil, maps.Clone(l.apps), nil, nil
	return &c
}

// kind is what says most about how a job trains.
func (k JobKey) kind() string { return cmp.Or(k.Model, k.User) }

// known returns the key without an app that no past job is of: nearly every job is an app
// of its own.
func (l *Lengths) known(k JobKey) JobKey {
	if !l.apps[k.App] {
		k.App = ""
	}
	return k
}

// shared returns what a job has in common with past ones: those that have ended, then
// those that run.
func (l *Lengths) shared(k JobKey) shared {
	k = l.known(k)
	if s, ok := l.common[k]; ok {
		return s
	}
	if l.common == nil {
		l.common = map[JobKey]shared{}
	}
	var s shared
	past := newest(l.ended)
	add := func(i int, kin kinship) {
		for level := range levels {
			if kin>>level&1 != 0 {
				s.kin[level] = append(s.kin[level], i)
			}
		}
	}
	for i := range past {
		kin := k.kin(&past[i].key)
		s.most |= kin
		add(i, kin)
	}
	for level := range levels {
		if n := len(s.kin[level]); alike>>level&1 != 0 && n > 0 {
			s.jobs = n
		}
	}
	for i := range l.running {
		add(len(past)+i, k.kin(&l.running[i].key))
	}
	l.common[k] = s
	return s
}

// Expected is an expected run time, and what it is based on.
type Expected struct {
	Middle time.Duration
	Basis  Basis
	Jobs   int // that are alike: of the narrowest group that has any
}

// Expect returns the expected run time of a job.
func (l *Lengths) Expect(r Run) Expected {
	s := l.shared(r.Key)
	e := Expected{Basis: l.basis(r, s), Jobs: s.jobs}
	switch e.Basis {
	case Nothing:
		return Expected{}
	case Reported:
		e.Middle = r.Whole
		return e
	case Anything:
		e.Jobs = len(newest(l.ended))
	}
	if l.typical == nil {
		l.typical = l.mean()
	}
	e.Middle = seconds(math.Exp(l.typical.life(r, s, false).after(0, 0.5)))
	return e
}

// nothing reports whether nothing is known of how long a job runs.
func (l *Lengths) nothing(r Run) bool {
	return r.Whole <= 0 && r.Estimate <= 0 && len(l.ended) == 0
}

func (l *Lengths) basis(r Run, s shared) Basis {
	switch {
	case r.Whole > 0:
		return Reported
	case r.Estimate > 0:
		return Estimated
	case l.nothing(r):
		return Nothing
	case s.most&alike != 0:
		return Similar
	}
	return Anything
}

// seconds returns a duration; one that is too long is cut.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, math.MaxInt64/2e9) * float64(time.Second))
}
