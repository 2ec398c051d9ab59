// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// shardings are what the replicas of a plan are called, by what they share.
var shardings = [...]string{Replicated: "dp", Optimizer: "zero", Full: "fsdp"}

// String names a plan, such as "dp2-tp4-pp2" or "zero8/4+offload": replicas and what they
// share, GPUs of a layer, stages, parts of the batch.
func (p Plan) String() string {
	var parts []string
	if p.Data > 1 || p.Sharding != Replicated || p.Tensor*p.Pipeline == 1 {
		parts = append(parts, fmt.Sprintf("%s%d", shardings[p.Sharding], p.Data))
	}
	if p.Tensor > 1 {
		parts = append(parts, fmt.Sprintf("tp%d", p.Tensor))
	}
	if p.Pipeline > 1 {
		parts = append(parts, fmt.Sprintf("pp%d", p.Pipeline))
	}
	name := strings.Join(parts, "-")
	if p.Micro > 1 {
		name += fmt.Sprintf("/%d", p.Micro)
	}
	if p.Offload {
		name += "+offload"
	}
	if p.Recompute {
		name += "+recompute"
	}
	return name
}

// Parse reads the name of a plan.
func Parse(name string) (Plan, error) {
	p := Plan{Data: 1, Tensor: 1, Pipeline: 1, Micro: 1}
	rest := name
	rest, p.Recompute = strings.CutSuffix(rest, "+recompute")
	rest, p.Offload = strings.CutSuffix(rest, "+offload")
	rest, micro, divided := strings.Cut(rest, "/")
	if divided {
		p.Micro = degree(micro)
	}
	for part := range strings.SplitSeq(rest, "-") {
		kind := strings.TrimRight(part, "0123456789")
		n := degree(part[len(kind):])
		switch i := slices.Index(shardings[:], kind); {
		case i >= 0:
			p.Sharding, p.Data = Sharding(i), n
		case kind == "tp":
			p.Tensor = n
		case kind == "pp":
			p.Pipeline = n
		}
	}
	// What was not understood, or is written in another way, is missing or different here.
	if p.String() != name || p.Validate() != nil {
		return Plan{}, fmt.Errorf("plan %.40q; want a name such as dp4, zero8, fsdp4, tp2 or fsdp2-tp4-pp2, with /4 for four parts of the batch, +offload, +recompute", name)
	}
	return p, nil
}

// degree reads a number of GPUs or parts; 0: it is none.
func degree(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// MarshalText implements encoding.TextMarshaler.
func (p Plan) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Plan) UnmarshalText(b []byte) error {
	var err error
	*p, err = Parse(string(b))
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Plan) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		type fields Plan // without methods
		return json.Unmarshal(b, (*fields)(p))
	}
	var name string
	if err := json.Unmarshal(b, &name); err != nil {
		return err
	}
	return p.UnmarshalText([]byte(name))
}
