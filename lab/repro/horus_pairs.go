// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/interfere/learn"
)

// HorusPairs is the measured and predicted slowdown of pairs of jobs on one GPU.
type HorusPairs struct {
	GPU    string
	Pairs  []learn.Pair
	Model  *interfere.Model // fitted to all pairs
	Report *learn.Report    // of pairs held out from the fit
}

// RunHorusPairs evaluates the pairs of a folder of measurements, such as
// lab/profiling/data. predicted, if not nil, is the prediction for each job from its
// graph, by a predictor trained without its model.
func RunHorusPairs(data fs.FS, gpu string, predicted map[learn.Key]interfere.Load) (*HorusPairs, error) {
	pairs, err := learn.Read(data, gpu)
	if err != nil {
		return nil, err
	}
	h := &HorusPairs{GPU: gpu, Pairs: pairs}
	if h.Model, err = learn.Model(pairs, gpu, fmt.Sprintf("%d pairs", len(pairs))); err != nil {
		return nil, err
	}
	h.Report, err = learn.Compare(pairs, predicted)
	return h, err
}

// wantPrecision is the share of the pairs called safe that must be safe.
const wantPrecision = 0.95

// Claims returns the claims about pairs.
func (h *HorusPairs) Claims() []Claim {
	var out []Claim
	for _, s := range h.Report.Scores {
		if s.Method != learn.Ours || s.Split != learn.ByModel || s.Mode != interfere.TimeSlice.String() {
			continue
		}
		out = append(out, Claim{
			What:  fmt.Sprintf("pairs called safe that are safe, from %s utilisation", s.Inputs),
			Want:  fmt.Sprintf("%.0f %%", 100*wantPrecision),
			Ours:  fmt.Sprintf("%s (%d of %d; %d pairs are safe)", pairPercent(s.Precision()), s.Right, s.Called, s.Safe),
			Holds: s.Precision() >= wantPrecision,
		})
	}
	if len(h.Report.Ways) > 0 {
		low, high, all, _ := h.Report.AllWays()
		out = append(out, Claim{
			What:  fmt.Sprintf("the same from measured utilisation, over %d other splits of the models", len(h.Report.Ways)),
			Want:  fmt.Sprintf("%.0f %%", 100*wantPrecision),
			Ours:  fmt.Sprintf("%s (%s to %s)", pairPercent(all), pairPercent(low), pairPercent(high)),
			Holds: all >= wantPrecision,
		})
	}
	return out
}

// pairPercent prints a share in percent, or a dash where there is none.
func pairPercent(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

// Markdown returns this part of the page. images is the folder of the plots,
// relative to the page.
func (h *HorusPairs) Markdown(images string) string {
	var b strings.Builder
	h.printPairs(&b)
	h.printScores(&b)
	h.printModel(&b)
	h.printBySum(&b)
	for _, mode := range h.modes() {
		fmt.Fprintf(&b, "\n![Predicted and measured slowdown, %s](%s/horus-pairs-%s.svg)\n", mode, images, mode)
	}
	fmt.Fprintf(&b, "\n![Slowdown by sum of utilisations](%s/horus-pairs-sum.svg)\n", images)
	return b.String()
}

// modes returns the evaluated modes.
func (h *HorusPairs) modes() []interfere.Mode {
	var out []interfere.Mode
	for _, mode := range []interfere.Mode{interfere.TimeSlice, interfere.MPS} {
		if len(h.Report.Guesses[mode]) > 0 {
			out = append(out, mode)
		}
	}
	return out
}

func (h *HorusPairs) printPairs(w io.Writer) {
	fmt.Fprintf(w, `## Pairs on one GPU

%d pairs of training jobs on one %s, %d of them time-sliced (the default) and %d under MPS.
Slowdown is the step time together over the step time alone. Unless stated otherwise, figures
are for pairs whose models were in no pair of the fit (split by models). A pair is safe if
both jobs slow down by less than %.0f %%, and called safe if the model's 95 %% bound says so
for both. "blurred": utilisation and step time have errors of %.0f %% and %.0f %%, as if
predicted. The step time alone is the mean over a session; a pair that was measured twice
counts with the geometric mean. docs/interference.md describes the model.

    fairway interfere evaluate --data lab/profiling/data
`, len(h.Pairs), strings.ToUpper(h.GPU), len(learn.OfMode(h.Pairs, interfere.TimeSlice)), len(learn.OfMode(h.Pairs, interfere.MPS)),
		100*(h.Report.Limit-1), 100*learn.BlurUtil, 100*learn.BlurStep)
}

func (h *HorusPairs) printScores(w io.Writer) {
	fmt.Fprint(w, `
| mode | inputs | split by | method | pairs | mean abs error of slowdown | jobs below their bound | safe pairs | called safe | precision | as much faster | recall |
|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, s := range h.Report.Scores {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %d | %.3f | %s | %d | %d | %s | %d | %s |\n", s.Mode, s.Inputs, s.Split, s.Method, s.Pairs,
			s.AbsError, pairPercent(s.Covered), s.Safe, s.Called, pairPercent(s.Precision()), s.Faster, pairPercent(s.Recall()))
	}
	if len(h.Report.Ways) == 0 {
		return
	}
	low, high, all, faster := h.Report.AllWays()
	fmt.Fprintf(w, `
Over %d other splits of the models, precision is %s to %s,
%s overall. "As much faster" counts pairs called safe in which one job ran faster together
than alone by a factor that would be unsafe as a slowdown. Sharing cannot cause that: it is
measurement error, in %s of them here.
`, len(h.Report.Ways), pairPercent(low), pairPercent(high), pairPercent(all), pairPercent(faster))
}

func (h *HorusPairs) printModel(w io.Writer) {
	fmt.Fprint(w, `
The model fitted to all pairs, and the scatter of measured slowdowns around it by pressure
(demand for the GPU over its capacity; above 1 jobs slow down):

| mode | parameters | pressure | jobs | scatter of ln(slowdown) | 95 % below |
|---|---|---|---|---|---|
`)
	for _, mode := range []interfere.Mode{interfere.TimeSlice, interfere.MPS} {
		s := h.Model.TimeSlice
		if mode == interfere.MPS {
			if s = h.Model.MPS; s == nil {
				continue
			}
		}
		for i, p := range s.Spread {
			first := "|"
			if i == 0 {
				first = fmt.Sprintf("%s | %s", mode, parameters(s))
			}
			fmt.Fprintf(w, "| %s | %.2f | %d | %.3f | %.2f |\n", first, p.At, p.Jobs, p.Scatter, p.High)
		}
	}
}

// parameters describes the parameters of a sharing mode.
func parameters(s *interfere.Sharing) string {
	if s.Form == interfere.Overload {
		return fmt.Sprintf("speed falls by %.2f per unit of demand above %.2f", s.Slope, s.Knee)
	}
	return fmt.Sprintf("%.3f of the GPU left for work, %.2f ms wait for a turn", s.Capacity, 1000*s.Turn)
}

func (h *HorusPairs) printBySum(w io.Writer) {
	fmt.Fprint(w, `
Speed (1 = alone) by the sum of the two utilisations, compared with the 1,388 pairs on an
RTX 3090 published with Lucid:

| sum of utilisations | time-slice: jobs | mean speed | tenth percentile | MPS: jobs | mean speed | published mean | tenth percentile |
|---|---|---|---|---|---|---|---|
`)
	turns, together := bySum(learn.OfMode(h.Pairs, interfere.TimeSlice)), bySum(learn.OfMode(h.Pairs, interfere.MPS))
	for i, p := range publishedSpeeds {
		fmt.Fprintf(w, "| %d to %d %% | %d | %s | %s | %d | %s | %.2f | %.2f |\n", 20*i, 20*(i+1),
			len(turns[i]), speedText(meanSpeed(turns[i])), speedText(slowTenth(turns[i])), len(together[i]), speedText(meanSpeed(together[i])), p.mean, p.p10)
	}
}
