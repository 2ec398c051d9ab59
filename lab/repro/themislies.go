// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"math"

	"github.com/fairway-gpu/fairway/sim"
)

// lieLoad keeps the small mixes contended, so that there is something to gain.
const lieLoad = 2

// LieOutcome is the effect of claims of one kind on the apps that made them.
type LieOutcome struct {
	Claim float64 // what the liar multiplies its rho by
	Audit bool    // the arbiter computes which apps are worst off
	Lies  int
	Seeds int
	// Time and Rho are the mean relative changes of the liar's time from
	// submission to end and of its rho; below 0 the lie pays. Error is the
	// standard error of Time's mean, with seeds taken as independent.
	Time, Rho, Error float64
	Gained           float64 // share of lies that made the liar's time shorter by more than 1 %
	Lost             float64 // longer by more than 1 %
}

// lieRun is one mix with every app as the liar in turn.
type lieRun struct {
	time, rho    []float64 // changes, by app
	gained, lost int
}

func (t *Themis) tellLies(m *mixes) error {
	kinds := lieKinds()
	runs := make([][]lieRun, len(kinds))
	for k := range runs {
		runs[k] = make([]lieRun, m.config.LieSeeds)
	}
	err := m.each("apps that lie", m.config.LieSeeds, func(i int) error {
		x := mix{seed: uint64(i + 1), jobs: m.config.LieJobs, load: lieLoad, thin: thinner}
		w, err := m.workload(x)
		if err != nil {
			return err
		}
		truth, err := m.replay(w, x, "themis")
		if err != nil {
			return err
		}
		honest := fairnessOf(w, truth)
		for k, kind := range kinds {
			if runs[k][i], err = m.lieOnce(w, x, liar{kind, honest}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for k, kind := range kinds {
		t.Lies = append(t.Lies, kind.sum(runs[k]))
	}
	return nil
}

// lieKinds returns the claims, each believed and audited, without results.
func lieKinds() []LieOutcome {
	var out []LieOutcome
	for _, audit := range []bool{false, true} {
		for _, claim := range themisClaims {
			out = append(out, LieOutcome{Claim: claim, Audit: audit})
		}
	}
	return out
}

// liar is a kind of lie, and the outcome without it.
type liar struct {
	kind   LieOutcome
	honest Fairness // outcome if no app lies
}

// lieOnce runs a mix with every app as the only liar in turn.
func (m *mixes) lieOnce(w *sim.Workload, x mix, l liar) (lieRun, error) {
	var out lieRun
	for k, app := range l.honest.Apps {
		res, err := m.replay(w, x, fmt.Sprintf("themis:liar=%s:claim=%g:audit=%t", app.App, l.kind.Claim, l.kind.Audit))
		if err != nil {
			return out, err
		}
		lied := fairnessOf(w, res).Apps[k]
		time := lied.Time/app.Time - 1
		out.time = append(out.time, time)
		out.rho = append(out.rho, lied.Rho/app.Rho-1)
		switch {
		case time < -0.01:
			out.gained++
		case time > 0.01:
			out.lost++
		}
	}
	return out, nil
}

// sum summarises the runs with claims of one kind.
func (o LieOutcome) sum(runs []lieRun) LieOutcome {
	o.Seeds = len(runs)
	var means []float64
	for _, r := range runs {
		o.Lies += len(r.time)
		sum := 0.0
		for i := range r.time {
			sum += r.time[i]
			o.Time += r.time[i]
			o.Rho += r.rho[i]
		}
		o.Gained += float64(r.gained)
		o.Lost += float64(r.lost)
		if len(r.time) > 0 {
			means = append(means, sum/float64(len(r.time)))
		}
	}
	if o.Lies == 0 {
		return o
	}
	n := float64(o.Lies)
	o.Time, o.Rho, o.Gained, o.Lost = o.Time/n, o.Rho/n, o.Gained/n, o.Lost/n
	o.Error = standardError(means)
	return o
}

// standardError of a mean; 0 of fewer than two values.
func standardError(x []float64) float64 {
	n := float64(len(x))
	if n < 2 {
		return 0
	}
	mean, squares := 0.0, 0.0
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / (n - 1) / n)
}

func (t *Themis) printLies(w io.Writer) {
	fmt.Fprintf(w, `
## Apps that lie

%d smaller mixes: one job in %d of every app, on 1/%d of the cluster, arriving twice as
fast. In each mix every app in turn is the only one that lies: for its whole life it
multiplies every rho that it reports by the factor. Means over all lies; ± is the standard
error, with mixes taken as independent.

In the auction itself the factor changes nothing, because the product does not depend on
scale. It acts through the filter, which chooses the worst-off apps by the rho they report.
Believed (`+"`audit=false`"+`, as in the paper): the arbiter accepts what apps report. Audited (the
default): the arbiter takes no app to be worse off than it computes from the estimates and
the progress of jobs.

| claim | | lies | liar's time | liar's rho | shorter by > 1 %% | longer by > 1 %% |
|---|---|---|---|---|---|---|
`, t.Config.LieSeeds, thinner, thinner)
	for _, l := range t.Lies {
		fmt.Fprintf(w, "| %g times | %s | %d | %+.2f %% ± %.2f | %+.2f %% | %.0f %% | %.0f %% |\n",
			l.Claim, l.how(), l.Lies, 100*l.Time, 100*l.Error, 100*l.Rho, 100*l.Gained, 100*l.Lost)
	}
}
