// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package auction divides free GPUs between apps by a partial-allocation
// auction with hidden payments (Cole, Gkatzelis and Goel, EC 2013), as Themis
// (Mahajan et al., NSDI 2020) does. It is mathematics only: no policy, no
// messages, no clock.
//
// # The auction
//
// An app bids with a table: with these GPUs on top of what it holds its
// finish-time fairness would be rho (Bid, made by Table from a function that
// knows rho; Together and Halving are what such a function needs). Its
// valuation of a row is 1/rho. Run
//
//   - refuses invalid bids (Check); they do not affect other apps;
//   - chooses one row for each app so that all fit and the product of the
//     valuations is largest: the proportional-fair choice;
//   - lets each app keep the fraction c of its row: the product of the others'
//     valuations with it, over that without it. The rest is its hidden payment;
//   - turns fractions into whole gangs (Rounding).
//
// GPUs that are withheld or that no app wanted go to apps outside the auction
// (PlaceLeftovers).
//
// # How the choice is made
//
// Machines of one rack, type and kind are interchangeable, so a row that names
// one may be served by another, unless the app holds GPUs of it or pins the row;
// in the end machines are swapped so that as many as possible get the one they
// named. Values are logarithms in fixed point, relative to the present rho: sums
// do not depend on their order, and an app that scales all its rho changes
// nothing. Ties are broken by app name, never by the order of the bids.
//
// Small problems are solved by branch and bound, larger ones by upgrades in the
// order of gain per GPU and then by exchanges between two bidders. Solution says
// whether the optimum is proven, and else how far off it can be. Payments
// solve again without each winner, from the solution on.
//
// # Truthfulness
//
// In theory no lie pays if valuations are homogeneous, GPUs are divisible, and having
// none is worth nothing. The tests try every lie on a grid in markets of 1 to 3 GPUs
// and 2 or 3 bidders. As long as having none is worth next to nothing, no lie pays
// with Chance, for any valuations, nor with Mixed for homogeneous ones. But an app
// that gets nothing has a finite rho, because it will get GPUs later. That part of its
// value cannot be withheld, so it pays too little, and some lies pay: with Chance up
// to a quarter of the value of having everything, with Mixed up to a half. With Floor
// no lie pays for homogeneous valuations in these markets, but with others lies gain
// up to nearly everything; and an app that wins a single gang gets nothing whenever it
// pays anything. TestTruth prints how often and how much.
package auction
