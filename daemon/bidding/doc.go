// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package bidding lets programs outside the daemon bid for GPUs on behalf of an
// app: the exchange between arbiter and agents of Themis (Mahajan et al., NSDI
// 2020) as plain messages, in Go and as JSON over HTTP.
//
// # The exchange
//
// An app registers its own program (`fairway app agent APP URL`). While a policy
// that holds auctions is in force, the daemon asks that program before it decides:
//
//   - RhoQuery, RhoReply: what is your finish-time fairness now?
//   - Offer, BidTable: what would these free GPUs be worth to you?
//   - Win: this is what you hold now.
//
// Agent is the other side in Go; Serve exposes one over HTTP, and HTTPAgent calls
// one. docs/bidding.md describes the protocol; package biddertest checks an
// implementation in any language over a real socket.
//
// # Where the answers go
//
// Exchange asks all agents at the same time, checks their answers, and stores them
// in the journal as the bid of the app. The policy finds it in its snapshot: a
// decision depends only on the snapshot and can be replayed. Gate makes the loop
// wait for the answers, at most for one round: the time of two questions, by
// default one second.
//
// # Untrusted agents
//
// Agents are not trusted. When one is silent, slow or invalid, its bid is withdrawn,
// the policy computes one, and the agent is asked again after a growing pause. Time, memory and connections for all agents together are bounded.
// Hosts keeps an app from making the daemon call addresses that the app itself
// could not reach.
package bidding
