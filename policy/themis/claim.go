// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import "github.com/fairway-gpu/fairway/policy/auction"

// Apps may err or lie. Config.Error adds noise to every computed rho. Config.Liar
// names an app that multiplies its values by Config.Claim: in its bids, where a
// factor changes nothing, and when the arbiter asks which apps are worst off, where
// it would matter. With Config.Audit the arbiter computes rho itself, from the
// progress that jobs report, and caps each app's claim at that.

// blur returns a rho with the error of an estimate. Draws are in the order of the
// apps' names and of the rows of their bids, so that they do not depend on the
// order of the snapshot.
func (r *round) blur(rho float64) float64 {
	if r.Error > 0 {
		rho *= 1 + r.Error*(2*r.errors.Float64()-1)
	}
	return clamp(rho)
}

// lies reports whether an app is the liar.
func (r *round) lies(a *app) bool { return r.Liar != "" && string(a.ID) == r.Liar }

// said returns the bid that an app makes, given its honest bid.
func (r *round) said(a *app, b auction.Bid) auction.Bid {
	if r.lies(a) {
		for i := range b.Rows {
			b.Rows[i].Rho = clamp(b.Rows[i].Rho * r.Claim)
		}
	}
	return b
}

// heard returns the rho that the arbiter uses, from its own value and the app's.
func (r *round) heard(found, said float64) float64 {
	if r.Audit {
		return min(found, said)
	}
	return said
}

// ask fills in the rho that an app claims, after the arbiter has computed its own.
func (r *round) ask(a *app) {
	if r.lies(a) {
		a.expectedRho = r.heard(a.expectedRho, clamp(a.expectedRho*r.Claim))
		a.rhoIfLost = r.heard(a.rhoIfLost, clamp(a.rhoIfLost*r.Claim))
	}
	if a.Bid != nil && a.Bid.Rho >= minRho && a.Bid.Rho <= maxRho {
		a.expectedRho = r.heard(a.expectedRho, a.Bid.Rho)
	}
}
