// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import "github.com/fairway-gpu/fairway/goodput"

type agent struct{ report *goodput.Report }

func (r *run) newAgent(*job) *agent                    { return nil }
func (r *run) usable(*job) int                         { return 0 }
func (a *agent) choose(setting) (goodput.Config, bool) { return goodput.Config{}, false }
func (a *agent) learn(s setting, o observation) error  { return nil }
