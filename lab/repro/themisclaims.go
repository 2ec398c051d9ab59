// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Claim is something the paper shows, and whether it holds here.
type Claim struct {
	What, Want, Ours string
	Holds            bool
}

// The targets.
const (
	wantMargin     = 2.25 // times below the largest rho of others
	wantSaving     = 0.05 // of the GPU time of las and of tiresias
	incentive      = 1.2  // largest rho at which sharing counts as no loss
	wantIncentive  = 0.95 // of the apps
	wantErrorDrift = 0.11 // of the largest rho
	wantAlike      = 0.25 // of the largest rho; the paper gives no figure
)

// Claims compares the runs with what the paper shows.
func (t *Themis) Claims() []Claim {
	out := slices.Concat(t.claimsOf(ours), t.claimsOf(published))
	if len(t.Network) > 0 {
		own, other := outcomeOf(t.Network, published).Over(maxRho).Mean, outcomeOf(t.Network, "tiresias").Over(maxRho).Mean
		out = append(out, Claim{
			What: "`themis:paper` and `tiresias`: largest rho with compute-intensive models only", Want: fmt.Sprintf("alike (within %.0f %%)", 100*wantAlike),
			Ours: fmt.Sprintf("%.2f, %.2f", own, other), Holds: math.Abs(other/own-1) <= wantAlike,
		})
	}
	for _, e := range t.Errors[1:] {
		drift := t.drift(e)
		out = append(out, Claim{
			What: fmt.Sprintf("change of the largest rho with estimates up to %.0f %% wrong", 100*e.Error), Want: fmt.Sprintf("at most %.0f %%", 100*wantErrorDrift),
			Ours: fmt.Sprintf("%+.1f %%", 100*drift), Holds: math.Abs(drift) <= wantErrorDrift,
		})
	}
	for _, l := range t.Lies {
		out = append(out, Claim{
			What: fmt.Sprintf("time of an app that claims %g times its rho, %s", l.Claim, l.how()), Want: "no shorter",
			Ours: fmt.Sprintf("%+.2f %% ± %.2f", 100*l.Time, 100*l.Error), Holds: l.Time >= 0,
		})
	}
	return out
}

// claimsOf are those that both subjects are held against.
func (t *Themis) claimsOf(of string) []Claim {
	out := []Claim{
		t.marginClaim(of, "largest rho, below that of every policy in the paper", func(policy string) bool {
			_, ok := paperRho[policy]
			return ok
		}),
		t.marginClaim(of, "the same, below that of every policy here", func(string) bool { return true }),
	}
	for _, other := range []string{"las", "tiresias"} {
		saving := 1 - outcomeOf(t.Policies, of).Over(gpuHours).Mean/outcomeOf(t.Policies, other).Over(gpuHours).Mean
		out = append(out, Claim{
			What: fmt.Sprintf("GPU time below `%s`", other), Want: fmt.Sprintf("%.0f %% or more", 100*wantSaving),
			Ours: fmt.Sprintf("%.1f %%", 100*saving), Holds: saving >= wantSaving,
		})
	}
	within := outcomeOf(t.Contended, of).Within(incentive)
	out = append(out, Claim{
		What: fmt.Sprintf("apps with rho <= %.1f at full contention", incentive), Want: fmt.Sprintf("%.0f %% or more", 100*wantIncentive),
		Ours: fmt.Sprintf("%.1f %%", 100*within), Holds: within >= wantIncentive,
	})
	out = append(out, t.trendClaims(of)...)
	for i := range out {
		out[i].What = fmt.Sprintf("`%s`: %s", of, out[i].What)
	}
	return out
}

// how says whether the arbiter believes lies.
func (l LieOutcome) how() string {
	if l.Audit {
		return "audited"
	}
	return "believed"
}

// marginClaim compares with the best of some others.
func (t *Themis) marginClaim(of, what string, among func(policy string) bool) Claim {
	own := outcomeOf(t.Policies, of).Over(maxRho).Mean
	best, least := "", math.Inf(1)
	for _, o := range t.Policies {
		if x := o.Over(maxRho).Mean / own; o.Policy != ours && o.Policy != published && among(o.Policy) && x < least {
			best, least = o.Policy, x
		}
	}
	return Claim{
		What: what, Want: fmt.Sprintf("%.2f times or more", wantMargin),
		Ours: fmt.Sprintf("%.2f times (`%s`)", least, best), Holds: least >= wantMargin,
	}
}

// drift is the relative change of the largest rho by errors, with the same seeds.
func (t *Themis) drift(e ErrorOutcome) float64 {
	return e.Over(maxRho).Mean/t.Errors[0].Over(maxRho).Mean - 1
}

// trendClaims are those of the paper's figure 19.
func (t *Themis) trendClaims(of string) []Claim {
	rho := func(f float64) float64 { return t.overLeases(of, f, maxRho) }
	gpu := func(f float64) float64 { return t.overLeases(of, f, gpuHours) }
	at := func(lease time.Duration) float64 { return t.knob(of, themisF, lease).Over(maxRho).Mean }
	short, long := at(themisLeases[0]), at(themisLeases[len(themisLeases)-1])
	return []Claim{
		{
			What: "largest rho at f = 0.8 against f = 0, mean over leases", Want: "lower (the paper: 9.8 to 3.0)",
			Ours: fmt.Sprintf("%.2f to %.2f", rho(0), rho(0.8)), Holds: rho(0.8) < rho(0),
		},
		{
			What: "largest rho at f = 1 against f = 0.8", Want: "higher (the paper: 3.0 to 4.1)",
			Ours: fmt.Sprintf("%.2f to %.2f", rho(0.8), rho(1)), Holds: rho(1) > rho(0.8),
		},
		{
			What: "GPU time at f = 0.8 against f = 0", Want: "higher (the paper: +6.1 %)",
			Ours: fmt.Sprintf("%+.1f %%", 100*(gpu(0.8)/gpu(0)-1)), Holds: gpu(0.8) > gpu(0),
		},
		{
			What: "GPU time at f = 1 against f = 0.8", Want: "higher (the paper: +17.5 %)",
			Ours: fmt.Sprintf("%+.1f %%", 100*(gpu(1)/gpu(0.8)-1)), Holds: gpu(1) > gpu(0.8),
		},
		{
			What: "largest rho with leases of 5 min against 40 min, f = 0.8", Want: "lower (the paper: 1.8, 4.2)",
			Ours: fmt.Sprintf("%.2f, %.2f", short, long), Holds: short < long,
		},
	}
}

// overLeases is the mean of a figure over all leases.
func (t *Themis) overLeases(of string, f float64, figure func(Fairness) float64) float64 {
	sum := 0.0
	for _, lease := range themisLeases {
		sum += t.knob(of, f, lease).Over(figure).Mean
	}
	return sum / float64(len(themisLeases))
}
