// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import "fmt"

// The least that the Horus paper gained over exclusive GPUs.
const (
	horusUtil     = 0.32
	horusMakespan = -0.24
)

// Claims are what was to be shown of sharing.
func (h *HorusShare) Claims() []Claim {
	util, makespan, _ := h.Gains("horus")
	plus, plain := row(h.Main, "horus+").P50Wait, row(h.Main, "horus").P50Wait
	return []Claim{
		{"utilisation of `horus` against exclusive FIFO", fmt.Sprintf("%+.0f %% or more", 100*horusUtil), fmt.Sprintf("%+.0f %%", 100*util), util >= horusUtil},
		{"makespan of `horus` against exclusive FIFO", fmt.Sprintf("%+.0f %% or less", 100*horusMakespan), fmt.Sprintf("%+.0f %%", 100*makespan), makespan <= horusMakespan},
		{"median wait of `horus+`", "below that of `horus`", fmt.Sprintf("%.2f h, `horus` %.2f h", plus/3600, plain/3600), plus < plain},
	}
}
