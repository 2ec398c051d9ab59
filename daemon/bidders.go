// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/daemon/bidding"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

// Bidders is the configuration of programs that bid for apps.
type Bidders struct {
	Hosts    []string       `json:"hosts"`    // that may be called beside this machine
	Deadline sched.Duration `json:"deadline"` // for one answer
	Every    sched.Duration `json:"every"`    // between questions while nothing changes
}

// DefaultBidders is what applies without a configuration.
func DefaultBidders() Bidders {
	return Bidders{Deadline: sched.Duration(bidding.DefaultDeadline), Every: sched.Duration(10 * time.Second)}
}

// Validate says which field is wrong, if any.
func (c Bidders) Validate() error {
	switch {
	case c.Deadline.D() < 10*time.Millisecond || c.Deadline.D() > 10*time.Second:
		return fmt.Errorf("bidders.deadline = %s; want 10ms to 10s: decisions wait for it", c.Deadline)
	case c.Every.D() < time.Second || c.Every.D() > time.Hour:
		return fmt.Errorf("bidders.every = %s; want 1s to 1h", c.Every)
	}
	if _, err := bidding.NewHosts(c.Hosts); err != nil {
		return fmt.Errorf("bidders.hosts: %w", err)
	}
	return nil
}

// Check says why an address may not be called for an app, if it may not.
func (c Bidders) Check(url string) error {
	hosts, err := bidding.NewHosts(c.Hosts)
	if err != nil {
		return err
	}
	return hosts.Check(url)
}

// leaseOf returns for how long a policy gives GPUs; ok is false if it holds no
// auction. A policy prints the knobs in which it differs from its defaults,
// those of a variant included.
func leaseOf(p sched.Policy, spec string) (lease time.Duration, ok bool) {
	if s, prints := p.(fmt.Stringer); prints {
		spec = s.String()
	}
	name, _, _ := strings.Cut(spec, ":")
	if name != auctioneer {
		return 0, false
	}
	text := ""
	for _, k := range policy.Builtin()[name].Knobs {
		if k.Name == "lease" {
			text = k.Default
		}
	}
	for _, knob := range strings.Split(spec, ":")[1:] {
		if value, is := strings.CutPrefix(knob, "lease="); is {
			text = value
		}
	}
	lease, err := sched.ParseDuration(text)
	return lease, err == nil && lease > 0
}

// auctioneer is the policy that looks at bids.
const auctioneer = "themis"
