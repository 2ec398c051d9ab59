// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// What is assumed of a cluster before anything was seen of it, with the weight of one
// failure: Meta counted 419 unexpected interruptions in 54 days on 2,048 nodes of 8
// H100 ("The Llama 3 Herd of Models", 2024, section 3.3.4), one in 6,300 node-hours.
const (
	priorFailures = 1.0
	priorHours    = 6300.0
)

// Before a node has come back, repairs are taken to last an hour, with the weight of one.
const priorRepair = time.Hour

// Outages returns how often nodes go out of use and for how long, after so many came back,
// which were away and in use for so long in all.
func Outages(back int, away, inUse time.Duration) sched.Outages {
	return sched.Outages{
		PerHour: RateOf(float64(back), inUse.Hours()).PerHour,
		Repair:  sched.Duration(float64(priorRepair+away) / (1 + float64(back))),
	}
}

// OneFailure is how far apart failures on a node must be to count as two: several jobs
// that fail together saw the same one.
const OneFailure = 10 * time.Minute

// FailureRate is how often attempts on a node fail because of the infrastructure. It is
// learned by Bayes' rule: failures are Poisson with a rate that is gamma distributed.
type FailureRate struct {
	Failures float64 `json:"failures"` // seen; one of a gang is shared by its nodes
	Hours    float64 `json:"hours"`    // that the node was in the cluster
	PerHour  float64 `json:"per_hour"` // expected
	// Low and High enclose the rate with a probability of 90 %, approximately (Wilson
	// and Hilferty, 1931).
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// RateOf returns the failure rate of a cluster with so many failures in so many
// node-hours.
func RateOf(failures, hours float64) FailureRate { return learned(priorHours, failures, hours) }

// RateOfNode returns the failure rate of a node. Before anything was seen of it, it is
// that of its cluster.
func RateOfNode(cluster FailureRate, failures, hours float64) FailureRate {
	return learned(priorFailures/cluster.PerHour, failures, hours)
}

// learned returns the rate after so many failures in so many hours, if before
// priorFailures in hoursBefore were assumed.
func learned(hoursBefore, failures, hours float64) FailureRate {
	shape, scale := priorFailures+failures, 1/(hoursBefore+hours)
	quantile := func(z float64) float64 {
		root := 1 - 1/(9*shape) + z/(3*math.Sqrt(shape))
		return shape * max(0, root*root*root) * scale
	}
	return FailureRate{Failures: failures, Hours: hours, PerHour: shape * scale, Low: quantile(-1.645), High: quantile(1.645)}
}
