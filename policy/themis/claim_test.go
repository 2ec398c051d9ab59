// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/policy/auction"
	"github.com/fairway-gpu/fairway/sched"
)

func TestClaimKnobs(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"error = 1;":    func(c *Config) { c.Error = 1 },
		"error = -0.1;": func(c *Config) { c.Error = -0.1 },
		"error = NaN;":  func(c *Config) { c.Error = math.NaN() },
		"claim = 0;":    func(c *Config) { c.Claim = 0 },
		"claim = +Inf;": func(c *Config) { c.Claim = math.Inf(1) },
	} {
		c := Default()
		change(&c)
		if _, err := New(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
	}
}

// Whoever says to be worse off than it is gains nothing by an audit; whoever says
// to be better off is believed.
func TestAsk(t *testing.T) {
	for _, test := range []struct {
		name                   string
		config                 Config
		bid                    *sched.Bid
		expectedRho, rhoIfLost float64
	}{
		{"truth", Config{Audit: true}, nil, 2, 3},
		{"more, audited", Config{Audit: true, Liar: "a", Claim: 2}, nil, 2, 3},
		{"less, audited", Config{Audit: true, Liar: "a", Claim: 0.5}, nil, 1, 1.5},
		{"more, believed", Config{Liar: "a", Claim: 2}, nil, 4, 6},
		{"another lies", Config{Liar: "b", Claim: 2}, nil, 2, 3},
		{"own agent, audited", Config{Audit: true}, &sched.Bid{Rho: 9}, 2, 3},
		{"own agent, believed", Config{}, &sched.Bid{Rho: 9}, 9, 3},
		{"own agent, nonsense", Config{}, &sched.Bid{Rho: math.NaN()}, 2, 3},
	} {
		a := &app{expectedRho: 2, rhoIfLost: 3}
		a.ID, a.Bid = "a", test.bid
		(&round{Config: test.config}).ask(a)
		if a.expectedRho != test.expectedRho || a.rhoIfLost != test.rhoIfLost {
			t.Errorf("%s: heard %g and %g; want %g and %g", test.name, a.expectedRho, a.rhoIfLost, test.expectedRho, test.rhoIfLost)
		}
	}
}

func TestSaid(t *testing.T) {
	r := &round{Config: Config{Liar: "a", Claim: 3}}
	a := &app{}
	a.ID = "a"
	b := r.said(a, auction.Bid{Rows: []auction.Row{{Rho: 2}, {Rho: auction.MaxRho}}})
	if b.Rows[0].Rho != 6 || b.Rows[1].Rho != auction.MaxRho {
		t.Errorf("the liar says %v; want 6 and the largest", b.Rows)
	}
}

func TestBlur(t *testing.T) {
	r := &round{Config: Config{Error: 0.2}, errors: rand.New(rand.NewPCG(1, 1))}
	low, high, sum := math.Inf(1), 0.0, 0.0
	const n = 10_000
	for range n {
		x := r.blur(10)
		low, high, sum = min(low, x), max(high, x), sum+x
	}
	if low < 8 || low > 8.05 || high > 12 || high < 11.95 || math.Abs(sum/n-10) > 0.05 {
		t.Errorf("10 becomes %g to %g, %g in the mean; want 8 to 12, 10", low, high, sum/n)
	}
	if got := (&round{}).blur(10); got != 10 {
		t.Errorf("without errors 10 becomes %g", got)
	}
}
