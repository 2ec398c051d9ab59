// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeagent suspends the pods of gangs in place (docs/adr/0014-node-agent.md). An
// agent runs on each node: it takes the processes of pods off their GPUs and freezes them,
// with the code that the executor of one machine uses. It has no rights in the cluster. It
// asks the operator's Hub what to do, and tells what it has done.
//
// Both sides always tell all they know, and every step can be repeated, so it does not
// matter which of them restarts when. An agent does nothing with a gang that its orders do
// not name: an operator that has just started, and knows no orders yet, wakes nobody.
package nodeagent

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Audience is that of the tokens with which agents authenticate.
const Audience = "fairway-nodes"

// Want is what should become of the pods of an attempt.
type Want string

// The wants.
const (
	Suspended Want = "suspended" // off their GPUs, and frozen
	Running   Want = "running"   // on their GPUs
	Stopping  Want = "stopping"  // not frozen, so that they can be stopped; their GPUs are not theirs
)

// Order says what should become of the pods of an attempt, which are suspended as one.
type Order struct {
	api.AttemptID
	Pods []string `json:"pods"` // their UIDs, by rank
	Want Want     `json:"want"`
	Turn int64    `json:"turn"`           // grows with every change of mind
	Told bool     `json:"told,omitempty"` // that it is suspended was recorded
}

// State is how far an agent is with an order.
type State struct {
	api.AttemptID
	Turn int64 `json:"turn"`
	Is   Want  `json:"is"`
	Told bool  `json:"told,omitempty"`
	// What was measured, or why it failed. Short: host memory was, so it may work later.
	Memory int64          `json:"memory,omitempty"`
	Out    sched.Duration `json:"out,omitempty"`
	Back   sched.Duration `json:"back,omitempty"`
	Failed string         `json:"failed,omitempty"`
	Short  bool           `json:"short,omitempty"`
}

// Report is what an agent tells about its node.
type Report struct {
	Cannot string   `json:"cannot,omitempty"` // why pods cannot be suspended there; empty: they can
	Seen   uint64   `json:"seen"`             // version of the orders that it has
	States []State  `json:"states,omitempty"`
	Begun  []string `json:"begun,omitempty"` // first pods of the gangs that are suspended, or were being
}

// Orders is the answer to a report. It comes when there are others than the agent has, or
// after a while.
type Orders struct {
	Version uint64  `json:"version"`
	Orders  []Order `json:"orders,omitempty"`
}

const (
	maxPods   = sched.MaxGPUs // of a gang on one node
	maxOrders = 1024          // of a node
	maxBody   = 4 << 20
	hold      = 10 * time.Second // how long the hub waits for something to answer
	silence   = time.Minute      // after which an agent counts as gone
)

// Validate checks an order: names become paths of files.
func (o *Order) Validate() error {
	switch {
	case o.Job == "" || o.Number < 1:
		return fmt.Errorf("attempt %q; want a job and a number from 1 on", o.AttemptID.String())
	case o.Want != Suspended && o.Want != Running && o.Want != Stopping:
		return fmt.Errorf("want %q; want %s, %s or %s", o.Want, Suspended, Running, Stopping)
	case len(o.Pods) < 1 || len(o.Pods) > maxPods:
		return fmt.Errorf("%d pods; want 1 to %d", len(o.Pods), maxPods)
	}
	for _, uid := range o.Pods {
		if !validUID(uid) {
			return fmt.Errorf("pod %.80q; want letters, digits and dashes", uid)
		}
	}
	return nil
}

func validUID(uid string) bool {
	for _, c := range uid {
		if !(c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return false
		}
	}
	return len(uid) > 0 && len(uid) <= 64
}
