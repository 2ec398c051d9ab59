// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package federate

import (
	"testing"
	"time"
)

func in(wait time.Duration, price float64) Offer { return Offer{Known: true, Wait: wait, Price: price} }

func TestChoose(t *testing.T) {
	never, unknown := Offer{Never: true}, Offer{Price: 1}
	for _, c := range []struct {
		name   string
		rule   Rule
		offers []Offer
		want   int // -1: none
	}{
		{"the earliest", Rule{}, []Offer{in(time.Hour, 0), in(time.Minute, 0), in(2*time.Minute, 0)}, 1},
		{"the earliest, whatever it costs", Rule{}, []Offer{in(time.Hour, 1), in(time.Minute, 9)}, 1},
		{"of two that start at once, the cheaper", Rule{}, []Offer{in(0, 3), in(0, 2), in(time.Hour, 1)}, 1},
		{"a cheaper one within the patience", Rule{Patience: time.Hour}, []Offer{in(0, 3), in(time.Hour, 1), in(2*time.Hour, 0)}, 1},
		{"of equal prices the earlier", Rule{Patience: time.Hour}, []Offer{in(time.Minute, 1), in(0, 1)}, 1},
		{"where no job has to make room", Rule{}, []Offer{{Known: true, Ousts: 1}, in(0, 0)}, 1},
		{"the first of equals", Rule{}, []Offer{in(time.Hour, 0), in(0, 0), in(0, 0)}, 1},
		{"a known start before an unknown one", Rule{Patience: time.Hour}, []Offer{{}, in(24*time.Hour, 9)}, 1},
		{"the cheapest if nothing is known", Rule{}, []Offer{{Price: 2}, unknown}, 1},
		{"never is no offer", Rule{}, []Offer{never, in(time.Hour, 0)}, 1},
		{"nowhere", Rule{}, []Offer{never, never}, -1},
		{"no cluster", Rule{}, nil, -1},
	} {
		got, ok := c.rule.Choose(c.offers)
		if ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%s: %d, %t; want %d", c.name, got, ok, c.want)
		}
	}
}

func TestMove(t *testing.T) {
	r := Rule{Least: time.Minute, Part: 0.25}
	for _, c := range []struct {
		name string
		stay Offer
		to   Offer
		want bool
	}{
		{"to an earlier start", in(10*time.Minute, 0), in(0, 0), true},
		{"not for seconds", in(59*time.Second, 0), in(0, 0), false},
		{"not for a small part of the wait", in(10*time.Hour, 0), in(8*time.Hour, 0), false},
		{"not to a later start, though cheaper", in(time.Hour, 9), in(2*time.Hour, 0), false},
		{"not if its own start is unknown", Offer{}, in(0, 0), false},
		{"not to an unknown start", in(time.Hour, 0), Offer{}, false},
		{"not to where it never runs", in(time.Hour, 0), Offer{Never: true}, false},
	} {
		if _, got := r.Move(c.stay, []Offer{c.to}); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// TestMoveDoesNotBounce: where a job has moved by what two clusters said, it does not move
// back by the same.
func TestMoveDoesNotBounce(t *testing.T) {
	for a := range 100 {
		for b := range 100 {
			first, second := in(time.Duration(a)*time.Minute, 0), in(time.Duration(b)*time.Minute, 0)
			_, there := Default.Move(first, []Offer{second})
			if _, back := Default.Move(second, []Offer{first}); there && back {
				t.Fatalf("%v and %v: there and back", first.Wait, second.Wait)
			}
		}
	}
}
