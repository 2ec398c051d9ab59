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

// HorusPairs is what pairs of jobs on one GPU do to each other, as measured and
// as predicted.
type HorusPairs struct {
	GPU    string
	Pairs  []learn.Pair
	Model  *interfere.Model // fitted to all pairs
	Report *learn.Report    // of pairs that the fit had not seen
}

// RunHorusPairs evaluates the pairs of a folder of measurements, such as
// lab/profiling/data. predicted, if not nil, is what was predicted of each job from
// its graph by a predictor that had not seen its model.
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

// wantedRight is the share of the pairs called safe that must be.
const wantedRight = 0.95

// Claims are what was to be shown of pairs.
func (h *HorusPairs) Claims() []Claim {
	var out []Claim
	for _, s := range h.Report.Scores {
		if s.Method != learn.Ours || s.Split != learn.ByModel || s.Mode != interfere.TimeSlice.String() {
			continue
		}
		out = append(out, Claim{
			What:  fmt.Sprintf("pairs called safe that are, from %s utilisation", s.Inputs),
			Want:  fmt.Sprintf("%.0f %%", 100*wantedRight),
			Ours:  fmt.Sprintf("%s (%d of %d; %d pairs are safe)", pairPercent(s.Precision()), s.Right, s.Called, s.Safe),
			Holds: s.Precision() >= wantedRight,
		})
	}
	if len(h.Report.Ways) > 0 {
		low, high, all, _ := h.Report.AllWays()
		out = append(out, Claim{
			What:  fmt.Sprintf("the same from measured utilisation, with the models divided in %d other ways", len(h.Report.Ways)),
			Want:  fmt.Sprintf("%.0f %%", 100*wantedRight),
			Ours:  fmt.Sprintf("%s (%s to %s)", pairPercent(all), pairPercent(low), pairPercent(high)),
			Holds: all >= wantedRight,
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

// modes returns those that were evaluated.
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

%d pairs of training jobs on one %s, %d of them taking turns (the default) and %d under
MPS: the time of a step together over that alone. Every figure below is of pairs whose
models were in none of the pairs of the fit (split by models), unless it says otherwise.
A pair is safe if both jobs are slowed by less than %.0f %%, and called safe if the model's
95 %% bound says so of both. "blurred": utilisation and step time off by %.0f %% and %.0f %%,
as if predicted. A time alone is the mean of all that a session measured, and where a pair
was measured twice the geometric mean counts. docs/interference.md
has the model.

    fairway interfere evaluate --data lab/profiling/data
`, len(h.Pairs), strings.ToUpper(h.GPU), len(learn.OfMode(h.Pairs, interfere.TimeSlice)), len(learn.OfMode(h.Pairs, interfere.MPS)),
		100*(h.Report.Limit-1), 100*learn.BlurUtil, 100*learn.BlurStep)
}

func (h *HorusPairs) printScores(w io.Writer) {
	fmt.Fprint(w, `
| mode | inputs | split by | method | pairs | mean abs error of slowdown | jobs below their bound | safe pairs | called safe | of these right | as much faster | of the safe found |
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
With the models divided in %d other ways, %s to %s of the pairs called safe are,
%s in all. "As much faster" counts pairs called safe of which one job ran faster
together than alone by as much as would be unsafe were it slower. No sharing does that:
it is the error of measuring, and here it is in %s of them.
`, len(h.Report.Ways), pairPercent(low), pairPercent(high), pairPercent(all), pairPercent(faster))
}

func (h *HorusPairs) printModel(w io.Writer) {
	fmt.Fprint(w, `
The model as fitted to all pairs, and how far measured slowdowns lie from it by pressure
(what is wanted of the GPU over what there is; above 1 jobs slow):

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

// parameters prints those of a form.
func parameters(s *interfere.Sharing) string {
	if s.Form == interfere.Overload {
		return fmt.Sprintf("speed falls by %.2f for each 1 of wants above %.2f", s.Slope, s.Knee)
	}
	return fmt.Sprintf("%.3f of the GPU left for work, %.2f ms wait for a turn", s.Capacity, 1000*s.Turn)
}

func (h *HorusPairs) printBySum(w io.Writer) {
	fmt.Fprint(w, `
Speed (1 = alone) by the sum of the two utilisations, beside the 1,388 pairs on an
RTX 3090 that Lucid's authors published:

| sum of utilisations | time-slice: jobs | mean speed | tenth percentile | MPS: jobs | mean speed | published mean | tenth percentile |
|---|---|---|---|---|---|---|---|
`)
	turns, together := bySum(learn.OfMode(h.Pairs, interfere.TimeSlice)), bySum(learn.OfMode(h.Pairs, interfere.MPS))
	for i, p := range publishedSpeeds {
		fmt.Fprintf(w, "| %d to %d %% | %d | %s | %s | %d | %s | %.2f | %.2f |\n", 20*i, 20*(i+1),
			len(turns[i]), speedText(meanSpeed(turns[i])), speedText(slowTenth(turns[i])), len(together[i]), speedText(meanSpeed(together[i])), p.mean, p.p10)
	}
}
