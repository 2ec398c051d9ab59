// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// TestHorusShare runs a small backlog: sharing must pay where GPUs are half idle,
// and the bound must keep slowdowns in check.
func TestHorusShare(t *testing.T) {
	gen := trace.Gen{Kind: trace.KindHorus, Jobs: 1500, Seed: 1, Load: 16, Longest: 6 * time.Hour, Error: 0.133}
	w, err := horusWorkload(&gen)
	if err != nil {
		t.Fatal(err)
	}
	h := HorusShare{Config: DefaultHorusShare(), MeanUtil: meanUtil(w)}
	for _, spec := range []string{exclusive, "packing", "horus", "horus+", exclusive + "@share"} {
		res, err := shareRun(spec, w, gen.Seed)
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		if res.Finished != gen.Jobs {
			t.Errorf("%s: %d of %d jobs finished", spec, res.Finished, gen.Jobs)
		}
		h.Main = append(h.Main, shareRow(spec, []*sim.Summary{&res.Summary}))
	}
	base, horus, packed := row(h.Main, exclusive), row(h.Main, "horus"), row(h.Main, "packing")
	if horus.AvgWait > 0.6*base.AvgWait || horus.AvgJCT > 0.8*base.AvgJCT {
		t.Errorf("horus: mean wait %.0f s and JCT %.0f s; exclusive FIFO has %.0f s and %.0f s", horus.AvgWait, horus.AvgJCT, base.AvgWait, base.AvgJCT)
	}
	if base.Slowdown != 1 || horus.Slowdown < 1 || horus.Slowdown >= packed.Slowdown {
		t.Errorf("slowdown in company: exclusive %.3f, horus %.3f, packing %.3f; want 1, and horus below packing", base.Slowdown, horus.Slowdown, packed.Slowdown)
	}
	var b strings.Builder
	h.Print(&b, "images")
	for _, want := range []string{"| `horus` |", "the paper | +32 to +61.5 %", "horus-makespan.svg"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page does not have %q", want)
		}
	}
}
