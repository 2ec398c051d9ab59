// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package bidding lets programs outside the daemon bid for GPUs in the name of
// an app: the exchange between arbiter and agents of Themis (Mahajan et al.,
// NSDI 2020) as plain messages, in Go and as JSON over HTTP.
//
// # The exchange
//
// An app names a program of its own (`fairway app agent APP URL`). While a policy
// that holds auctions is in force, the daemon asks that program before it
// decides:
//
//   - RhoQuery, RhoReply: how unfair is it as things stand?
//   - Offer, BidTable: what would these free GPUs be worth to you?
//   - Win: this is what you hold now.
//
// Agent is the other side in Go; Serve answers HTTP with one, and HTTPAgent is
// one that lives behind an address. docs/bidding.md describes the wire, package
// biddertest checks an implementation in any language over a real socket.
//
// # Where the answers go
//
// Exchange asks all agents at the same time, checks what they say, and keeps it
// in the journal as the bid of the app. The policy finds it in its snapshot: a
// decision depends on nothing but the snapshot and can be replayed. Gate makes
// the loop wait for the answers, never longer than a round may take: the time of
// two questions, by default one second.
//
// # Strangers
//
// Nobody vouches for an agent. One that is silent, slow or talks nonsense loses
// its turn: its bid is taken back, the policy works out one by itself, and it is
// asked again after a pause that grows. Time, memory and connections for all of
// them together are bounded. Hosts keeps an app from making the daemon call
// addresses that the app itself could not reach.
package bidding
