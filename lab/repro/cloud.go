// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"time"

	"github.com/fairway-gpu/fairway/sim"
)

// simulate runs a policy on zoo models with 60 s rounds.
func simulate(spec, cluster string, w *sim.Workload, edit func(*sim.Config)) (*sim.Result, error) {
	c, err := sim.ParseCluster(cluster, "t4")
	if err != nil {
		return nil, err
	}
	cfg, err := configOf(spec)
	if err != nil {
		return nil, err
	}
	cfg.Cluster, cfg.Interval, cfg.Agent = c, time.Minute, 30*time.Second
	edit(&cfg)
	res, _, err := sim.Run(cfg, w)
	return res, err
}
