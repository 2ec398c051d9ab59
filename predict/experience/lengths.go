// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
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
	Estimated              // its user's estimate, corrected by past jobs
	Reported               // what its agent reports
	bases
)

var basisNames = [...]string{"", "all", "similar", "estimate", "reports"}

func (b Basis) String() string { return basisNames[b] }

// Lengths stores how long jobs ran and how far that was from what was expected, to draw
// the run time of another. The zero value is empty.
type Lengths struct {
	groups  map[JobKey]tally // logarithms of run times by group; of all jobs: the zero key
	guesses tally            // logarithms of run time over the user's estimate
	errors  tally            // logarithms of run time over what past jobs let expect
	ended   [bases][]outcome // newest last
	running [bases][]outcome
	reports [Tenths][]report // by tenth of the work, newest last
	known   map[askedFor]Expected
}

// askedFor is what an expected run time depends on.
type askedFor struct {
	key             JobKey
	estimate, whole time.Duration
}

// outcome is how long a job ran, compared with what was expected. Both are logarithms.
type outcome struct {
	expected float64 // seconds
	ratio    float64 // run time over expected
	running  bool    // so far
}

// report is the logarithm of the time that a job still ran over that which its agent's
// rate let expect.
type report struct {
	kind  string
	ratio float64
}

// keepOutcomes bounds what is stored of each kind: the newest.
const keepOutcomes = 1000

// keep adds an outcome and drops old ones.
func keep[T any](list []T, o T) []T {
	if list = append(list, o); len(list) >= 2*keepOutcomes {
		return slices.Clone(list[keepOutcomes:])
	}
	return list
}

// Learn adds a job that has ended.
func (l *Lengths) Learn(r Run, reported Track) {
	if r.Ran <= 0 {
		return
	}
	ran := math.Log(r.Ran.Seconds())
	for b, o := range l.outcomes(r) {
		l.ended[b] = keep(l.ended[b], o)
	}
	for i, t := range reported {
		if t.Left > 0 && t.Ran < r.Ran {
			l.reports[i] = keep(l.reports[i], report{r.Key.kind(), math.Log((r.Ran - t.Ran).Seconds() / t.Left.Seconds())})
		}
	}
	if r.Estimate > 0 {
		l.guesses.add(ran-math.Log(r.Estimate.Seconds()), slow)
	}
	if l.groups == nil {
		l.groups = map[JobKey]tally{}
	} else {
		mean, _ := l.history(r.Key)
		l.errors.add(ran-mean, slow)
	}
	l.group(r.Key, ran)
}

// group adds the logarithm of a run time to the groups of a job.
func (l *Lengths) group(k JobKey, ran float64) {
	for _, g := range append(k.groups(), JobKey{}) {
		t := l.groups[g]
		t.add(ran, quick)
		l.groups[g] = t
	}
	l.known = nil
}

// Watch adds a job that runs. Without those, the jobs that have ended would look typical,
// and long ones be missing among them.
func (l *Lengths) Watch(r Run) {
	if r.Ran <= 0 {
		return
	}
	for b, o := range l.outcomes(r) {
		o.running = true
		l.running[b] = append(l.running[b], o)
	}
	if mean, _ := l.history(r.Key); l.groups != nil {
		if ran := math.Log(r.Ran.Seconds()); ran > mean {
			l.errors.add(ran-mean, slow)
			l.group(r.Key, ran)
		}
	}
}

// Fresh returns a copy to which running jobs can be added.
func (l *Lengths) Fresh() *Lengths {
	c := *l
	c.groups, c.running, c.known = maps.Clone(l.groups), [bases][]outcome{}, nil
	return &c
}

// outcomes returns a run time by what it is compared with.
func (l *Lengths) outcomes(r Run) map[Basis]outcome {
	ran, out := math.Log(r.Ran.Seconds()), map[Basis]outcome{}
	add := func(b Basis, r Run) {
		if e := l.Expect(r); e.Basis != Nothing {
			mean := math.Log(e.Middle.Seconds())
			out[b] = outcome{expected: mean, ratio: ran - mean}
		}
	}
	add(Similar, Run{Key: r.Key})
	if r.Estimate > 0 {
		add(Estimated, Run{Key: r.Key, Estimate: r.Estimate})
	}
	return out
}

// Expected is an expected run time, and what it is based on.
type Expected struct {
	Middle time.Duration
	Basis  Basis
	Jobs   int // that are alike: of the narrowest group that has any
}

// Expect returns the expected run time of a job. An estimate and the run times of
// similar jobs are both used, the one that was right more often weighs more.
func (l *Lengths) Expect(r Run) Expected {
	asked := askedFor{r.Key, r.Estimate, r.Whole}
	if e, ok := l.known[asked]; ok {
		return e
	}
	if l.known == nil {
		l.known = map[askedFor]Expected{}
	}
	e := l.expect(r)
	l.known[asked] = e
	return e
}

func (l *Lengths) expect(r Run) Expected {
	mean, jobs := l.history(r.Key)
	e := Expected{Middle: r.Whole, Basis: Reported, Jobs: jobs}
	switch {
	case r.Whole > 0:
		return e
	case r.Estimate > 0:
		e.Basis = Estimated
		guess, scatter := l.guesses.posterior(-0.5, 0.7)
		guess += math.Log(r.Estimate.Seconds())
		if l.groups == nil {
			mean = guess
			break
		}
		bias, other := l.errors.posterior(0, 2)
		mean = (guess/scatter + (mean+bias)/other) / (1/scatter + 1/other)
	case l.groups == nil:
		return Expected{}
	case jobs > 0:
		e.Basis = Similar
	default:
		e.Basis, e.Jobs = Anything, l.groups[JobKey{}].jobs
	}
	e.Middle = time.Duration(math.Exp(mean) * float64(time.Second))
	return e
}

// history returns the mean logarithm of the run times of similar jobs: of each group
// with the mean of the next wider one as one more job. jobs is the number of jobs in the
// narrowest group that has any; 0: none is similar.
func (l *Lengths) history(k JobKey) (mean float64, jobs int) {
	all, ok := l.groups[JobKey{}]
	if !ok {
		return 0, 0
	}
	mean = all.sum / all.weight
	for _, g := range slices.Backward(k.groups()) {
		if t, ok := l.groups[g]; ok {
			mean, jobs = (t.sum+mean)/(t.weight+1), t.jobs
		}
	}
	return mean, jobs
}

// tally sums up numbers, of which older ones weigh less.
type tally struct {
	jobs                 int
	weight, sum, squares float64
}

// How much of its weight a number keeps with each that follows.
const (
	quick = 0.85
	slow  = 0.98
)

func (t *tally) add(x, keep float64) {
	t.jobs++
	t.weight, t.sum, t.squares = t.weight*keep+1, t.sum*keep+x, t.squares*keep+x*x
}

// posterior returns mean and variance, where what is assumed weighs as much as a few
// numbers.
func (t *tally) posterior(mean, variance float64) (float64, float64) {
	w := t.weight + prior
	m := (t.sum + prior*mean) / w
	return m, max(0.01, (t.squares+prior*(variance+mean*mean))/w-m*m)
}

// Future returns a function that draws how long jobs still run, from how far
// expectations of the same basis were off before. All draws of one future share what
// nobody knows: how typical the jobs are that have ended so far (a bootstrap), and by how
// much jobs of one kind are off together.
func (l *Lengths) Future(r *rand.Rand) func(Run) (left time.Duration, b Basis) {
	var past [bases][]outcome
	for b, all := range l.ended {
		all = slices.Concat(all[max(0, len(all)-bootstrap):], l.running[b])
		for range all {
			past[b] = append(past[b], all[r.IntN(len(all))])
		}
	}
	past[Anything] = past[Similar]
	kinds := map[JobKey]float64{}
	return func(run Run) (time.Duration, Basis) {
		e := l.Expect(run)
		if e.Basis == Nothing {
			return 0, e.Basis
		}
		kind := JobKey{Tenant: run.Key.Tenant, User: run.Key.User, Model: run.Key.Model}
		if _, known := kinds[kind]; !known {
			kinds[kind] = r.NormFloat64()
		}
		var left float64
		if e.Basis == Reported {
			left = max(0, run.Whole-run.Done).Seconds() * math.Exp(ReportSpread*kinds[kind]+l.reported(r, run))
		} else {
			d := draw{r, past[e.Basis], math.Log(e.Middle.Seconds()), together * kinds[kind]}
			left = d.after(run.Ran.Seconds()) - run.Ran.Seconds()
		}
		return time.Duration(min(left, math.MaxInt64/2e9) * float64(time.Second)), e.Basis
	}
}

// reported draws the logarithm of the time that a job still runs over that which its
// agent's rate lets expect: as it was for jobs that had done as much, of the same kind if
// some are found.
func (l *Lengths) reported(r *rand.Rand, run Run) float64 {
	past := l.reports[run.Tenth()]
	past = past[max(0, len(past)-bootstrap):]
	noise := ReportSpread * r.NormFloat64()
	if n := float64(len(past)); r.Float64()*(n+prior) >= n {
		return 3 * noise
	}
	var o report
	for range 2 * contest {
		if o = past[r.IntN(len(past))]; o.kind == run.Key.kind() {
			break
		}
	}
	return o.ratio + noise
}

// kind is what says most about how a job trains.
func (k JobKey) kind() string { return cmp.Or(k.Model, k.User) }

// draw draws the run time of one job.
type draw struct {
	*rand.Rand
	past             []outcome
	expected, shared float64 // logarithms
}

// after returns a run time of more than ran, in seconds.
func (d draw) after(ran float64) float64 {
	least := math.Log(ran)
	for range tries {
		var total float64
		// With few jobs behind it, experience is not trusted alone.
		if n := float64(len(d.past)); d.Float64()*(n+prior) < n {
			total = d.pick()
		} else {
			total = d.expected + unsure*d.NormFloat64()
		}
		if total += d.shared + smooth*d.NormFloat64(); total > least {
			return math.Exp(total)
		}
	}
	return math.Exp(d.beyond(least))
}

// pick returns the run time of a past job of which about as much was expected. One that
// still runs stands for those that ran longer than it has so far.
func (d draw) pick() float64 {
	best := d.past[d.IntN(len(d.past))]
	for range contest - 1 {
		if o := d.past[d.IntN(len(d.past))]; math.Abs(o.expected-d.expected) < math.Abs(best.expected-d.expected) {
			best = o
		}
	}
	if !best.running {
		return d.expected + best.ratio
	}
	for range tries {
		if o := d.past[d.IntN(len(d.past))]; !o.running && o.ratio > best.ratio {
			return d.expected + o.ratio
		}
	}
	return d.beyond(d.expected + best.ratio)
}

// beyond returns the run time of a job that has run longer than nearly all others: the
// longer it has, the longer it will.
func (d draw) beyond(ran float64) float64 { return ran - math.Log(1-d.Float64())/tail }

const (
	tries     = 100
	contest   = 4   // jobs of which the most similar is picked
	bootstrap = 300 // the newest jobs count
	prior     = 5   // what is assumed weighs as much as so many jobs
	smooth    = 0.1 // run times differ a little from those seen before
	together  = 0.5 // standard deviation of the logarithm by which jobs of one kind are off together
	tail      = 1.5 // exponent of the power law
	// unsure is the standard deviation of the logarithm of run time over expectation
	// that is assumed before any is known. Users estimate too much: their jobs run for
	// a part of it, spread about evenly (Mu'alem and Feitelson, TPDS'01).
	unsure = 0.7
)

// ReportSpread is the standard deviation of the logarithm of the time that is left, by
// the rate that an agent reports.
const ReportSpread = 0.1
