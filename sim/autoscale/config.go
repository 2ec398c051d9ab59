// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package autoscale

import (
	"fmt"
	"strconv"
	"strings"
)

// Rule names a scaling rule; see the package comment.
type Rule string

// The rules.
const (
	Utility    Rule = "utility"
	Goodput    Rule = "goodput"
	Throughput Rule = "throughput"
)

// Rules returns every rule.
func Rules() []Rule { return []Rule{Utility, Goodput, Throughput} }

// Config is how a cluster is scaled.
type Config struct {
	Rule Rule `json:"rule"`
	Min  int  `json:"min"` // nodes, at least 1
	Max  int  `json:"max"` // nodes
	// Low and High bound the mean utility over the last Window checks: rule Utility.
	Low    float64 `json:"low,omitempty"`
	High   float64 `json:"high,omitempty"`
	Window int     `json:"window,omitempty"`
	// U and L are shares of the goodput (or throughput) of a single GPU: while each
	// GPU gives more than U, the cluster grows until about L is left.
	U float64 `json:"u,omitempty"`
	L float64 `json:"l,omitempty"`
}

// Default returns settings for a cluster of that size. The constants of rule Utility
// are those of the Pollux artifact. U and L are ours: with the paper's 2/3 and 1/2,
// jobs take far longer in our simulator than the paper says.
// docs/reproduction/autoscale.md has the comparison behind them.
func Default(least, most int) Config {
	return Config{
		Rule: Utility, Min: least, Max: most,
		Low: 0.35, High: 0.65, Window: 15,
		U: 0.55, L: 0.40,
	}
}

// least is the share of the goodput (or throughput) of a single GPU below which nodes
// are released: as far below L as U is above it.
func (c Config) least() float64 { return c.L * c.L / c.U }

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	switch {
	case c.Min < 1:
		return fmt.Errorf("min = %d; want 1 node or more", c.Min)
	case c.Max < c.Min:
		return fmt.Errorf("max = %d; want at least min = %d nodes", c.Max, c.Min)
	}
	switch c.Rule {
	case Utility:
		switch {
		case !(c.Low >= 0 && c.Low < 1):
			return fmt.Errorf("low = %g; want 0 to below 1", c.Low)
		case !(c.High > c.Low && c.High <= 1):
			return fmt.Errorf("high = %g; want above low = %g, and at most 1", c.High, c.Low)
		case c.Window < 1:
			return fmt.Errorf("window = %d; want 1 or more", c.Window)
		}
	case Goodput, Throughput:
		switch {
		case !(c.L > 0 && c.L < 1):
			return fmt.Errorf("l = %g; want above 0 and below 1", c.L)
		case !(c.U > c.L && c.U <= 1):
			return fmt.Errorf("u = %g; want above l = %g, and at most 1", c.U, c.L)
		}
	default:
		return fmt.Errorf("rule = %q; want one of %v", c.Rule, Rules())
	}
	return nil
}

// ParseRange reads bounds on the number of nodes, written "MIN:MAX".
func ParseRange(text string) (least, most int, err error) {
	const longest = 40 // bytes
	low, high, ok := strings.Cut(text, ":")
	if ok && len(text) <= longest {
		var err1, err2 error
		least, err1 = strconv.Atoi(low)
		most, err2 = strconv.Atoi(high)
		ok = err1 == nil && err2 == nil && least >= 1 && most >= least
	} else {
		ok = false
	}
	if !ok {
		return 0, 0, fmt.Errorf("range of nodes %.40q: want MIN:MAX with 1 <= MIN <= MAX, such as 1:16", text)
	}
	return least, most, nil
}
