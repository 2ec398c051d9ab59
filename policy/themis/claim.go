// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import "github.com/fairway-gpu/fairway/policy/auction"

// Apps may err, and may lie. Config.Error blurs every rho that anybody finds.
// Config.Liar names an app that multiplies what it says by Config.Claim: in its
// bids, where a factor changes nothing, and when the arbiter asks who is worst
// off, where it would. With Config.Audit the arbiter finds rho by itself, from
// the progress that jobs report, and takes no app to be worse off than that.

// blur returns a rho as it is found, with the error of an estimate. Draws are in
// the order of the apps' names and of the rows of their bids, so that they do not
// depend on the order of the snapshot.
func (r *round) blur(rho float64) float64 {
	if r.Error > 0 {
		rho *= 1 + r.Error*(2*r.errors.Float64()-1)
	}
	return clamp(rho)
}

// lies reports whether an app is the liar.
func (r *round) lies(a *app) bool { return r.Liar != "" && string(a.ID) == r.Liar }

// said returns the bid that an app makes of one that tells what it has found.
func (r *round) said(a *app, b auction.Bid) auction.Bid {
	if r.lies(a) {
		for i := range b.Rows {
			b.Rows[i].Rho = clamp(b.Rows[i].Rho * r.Claim)
		}
	}
	return b
}

// heard returns the rho that the arbiter goes by, of what it finds itself and of
// what the app says.
func (r *round) heard(found, said float64) float64 {
	if r.Audit {
		return min(found, said)
	}
	return said
}

// ask fills in what an app says when the arbiter asks how it is off, after the
// arbiter has found that out itself.
func (r *round) ask(a *app) {
	if r.lies(a) {
		a.outlook = r.heard(a.outlook, clamp(a.outlook*r.Claim))
		a.deprived = r.heard(a.deprived, clamp(a.deprived*r.Claim))
	}
	if a.Bid != nil && a.Bid.Rho >= minRho && a.Bid.Rho <= maxRho {
		a.outlook = r.heard(a.outlook, a.Bid.Rho)
	}
}
