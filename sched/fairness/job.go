// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"maps"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/num"
)

// Job is one job of an app.
type Job struct {
	GPUs    int     // that it asked for
	Seconds float64 // that it takes on them in all, well placed
	Most    int     // GPUs of its largest size, of an elastic job; 0: GPUs
	Curve   Curve   // nil: nobody has measured how it scales
}

// Curve is the speed of a job by its number of GPUs, well placed, in any unit. It is
// 0 for a size at which the job cannot run.
type Curve func(gpus int) float64

// alone returns how long a job takes on a share of the cluster, and how many GPUs of
// it it uses. Without a curve it takes longer in proportion on less than it asked
// for, and no shorter on more. With one it uses its share up to its largest size, or
// the size it asked for if it is faster there.
func (j Job) alone(share float64) (seconds, gpus float64) {
	asked, wide := float64(j.GPUs), min(float64(j.most()), share)
	gpus = min(asked, share)
	seconds = j.Seconds * asked / gpus
	if j.Curve == nil || wide == asked {
		return seconds, gpus
	}
	full, speed := j.Curve(j.GPUs), j.Curve.at(wide, j.most())
	if !(full > 0) || (asked < wide && speed <= full) {
		return seconds, gpus
	}
	return j.Seconds * full / speed, wide
}

// Measured returns the job with Seconds by a time on another number of GPUs.
func (j Job) Measured(seconds float64, gpus int) Job {
	j.Seconds = seconds * float64(gpus) / float64(j.GPUs)
	if j.Curve != nil && gpus != j.GPUs {
		if there, full := j.Curve(gpus), j.Curve(j.GPUs); there > 0 && full > 0 {
			j.Seconds = seconds * there / full
		}
	}
	return j
}

func (j Job) most() int { return max(j.GPUs, j.Most) }

// at returns the speed on a number of GPUs that need not be whole. On 2.5 GPUs a job
// has 2 for half of the time and 3 for the other half; on half a GPU it has one half
// of the time. A size at which it cannot run is made of its neighbours likewise.
func (c Curve) at(gpus float64, most int) float64 {
	below := int(gpus)
	low := c.value(below)
	for below > 0 && low <= 0 {
		below--
		low = c.value(below)
	}
	if float64(below) == gpus {
		return low
	}
	for above := int(gpus) + 1; above <= most; above++ {
		if high := c.value(above); high > 0 {
			return low + (high-low)*(gpus-float64(below))/float64(above-below)
		}
	}
	return low
}

func (c Curve) value(gpus int) float64 {
	if gpus == 0 {
		return 0
	}
	return c(gpus)
}

// CurveOf returns the curve of a job by the model that its agent has fitted, on as
// few nodes as possible, of the type that it runs on or else of the first type it has
// a model for; nil: it has none.
func CurveOf(j *sched.Job, c *sched.Cluster) Curve {
	if j.Perf == nil || len(j.Perf.Params) == 0 {
		return nil
	}
	kind := ""
	if len(j.Placement) > 0 {
		kind = string(c.Nodes[j.Placement[0].Node].Type)
	}
	if _, ok := j.Perf.Params[kind]; !ok {
		kind = slices.Sorted(maps.Keys(j.Perf.Params))[0]
	}
	report, node := j.Perf, max(1, c.MaxGPUs())
	return func(n int) float64 {
		_, speed, _ := report.Goodput(kind, goodput.Shape{Nodes: num.CeilDiv(n, node), GPUs: n})
		return speed
	}
}
