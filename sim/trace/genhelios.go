// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sim"
)

// The figures of the GPU jobs of Helios (Hu et al., SC'21), from the summaries of its
// four clusters: 3.72 GPUs on average and a median of 1; run times with a median of 206 s
// and a mean of 6,652 s; 49,354 GPU-seconds for each job, twice the product of the means,
// so that large jobs run longer; 15.5 % fail, and 22.1 % are cancelled. The shares of the
// sizes, the models and the repetition are our choice; run times are log-normal.
const (
	heliosLoad   = 0.8
	heliosMedian = 165.0 // seconds, of a job of one GPU
	heliosSpread = 2.64  // standard deviation of the logarithm of run times
	heliosGrowth = 0.4   // a job of k GPUs runs k to this power times as long
	heliosCap    = 50 * 24 * time.Hour
	heliosRuns   = 20  // of a script, on average
	heliosLike   = 0.7 // share of the variance of log run times that lies between scripts
)

var heliosSizes = [...]struct {
	gpus  int
	share float64
}{{1, 0.7}, {2, 0.06}, {4, 0.06}, {8, 0.13}, {16, 0.024}, {32, 0.014}, {64, 0.012}}

// heliosScript is what the runs of a script have in common.
type heliosScript struct {
	user  string
	model drawnModel
	gpus  int
	z     float64 // normal score of its run times
}

// helios draws scripts that users run again and again.
func (g *Gen) helios(wl *sim.Workload) {
	rnd := g.stream(jobStream)
	scripts := make([]heliosScript, max(1, g.Jobs/heliosRuns))
	for i := range scripts {
		scripts[i] = heliosScript{
			user: fmt.Sprintf("u%03d", rnd.IntN(max(1, len(scripts)/4))), model: drawModel(phillyModels[:], rnd.Float64()),
			gpus: g.heliosGPUs(rnd.Float64()), z: rnd.NormFloat64(),
		}
	}
	for range g.Jobs {
		s := &scripts[rnd.IntN(len(scripts))]
		z := math.Sqrt(heliosLike)*s.z + math.Sqrt(1-heliosLike)*rnd.NormFloat64()
		seconds := heliosMedian * math.Pow(float64(s.gpus), heliosGrowth) * math.Exp(heliosSpread*z)
		w := sim.Work{RunTime: g.cap(min(seconds, heliosCap.Seconds()))}
		w.User, w.GPUs, w.Shareable = s.user, s.gpus, true
		w.Model, w.Consolidate = s.model.name, s.model.consolidate && s.gpus > 1
		w.Work = w.RunTime.D().Seconds()
		wl.Work = append(wl.Work, w)
	}
	g.spread(wl.Work, g.steadySpan(wl.Work, heliosLoad))
	number(wl, KindHelios)
}

func (g *Gen) heliosGPUs(u float64) int {
	for _, s := range heliosSizes {
		if u -= s.share; u < 0 {
			return min(s.gpus, g.MaxGPUs)
		}
	}
	return 1
}
