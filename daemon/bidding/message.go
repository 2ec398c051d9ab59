// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/fairway-gpu/fairway/sched"
)

// The paths below the address of an agent. All take POST.
const (
	RhoPath = "/v1/rho"
	BidPath = "/v1/bid"
	WinPath = "/v1/win"
)

// Limits on messages.
const (
	MaxReply   = 1 << 20 // bytes of an answer
	MaxRequest = 8 << 20 // bytes of what is asked
	MaxRows    = 256     // of a bid
	MaxShares  = 4096    // of all rows of a bid together
)

// App is what every question tells about the app.
type App struct {
	ID        sched.AppID `json:"id"`
	Submitted time.Time   `json:"submitted"`
	// Contention is the mean number of apps that shared the cluster over the life of
	// this one; Apps is the current number.
	Contention  float64 `json:"contention"`
	Apps        int     `json:"apps"`
	ClusterGPUs int     `json:"cluster_gpus"`
	// Holds is what the app keeps for now; GPUs whose lease is over are part of an
	// offer instead.
	Holds []Share `json:"holds"`
	// Stages is what is left of the app's search, if Fairway runs it.
	Stages []sched.Stage `json:"stages,omitempty"`
}

// RhoQuery asks an agent for its finish-time fairness.
type RhoQuery struct {
	Round uint64    `json:"round"` // grows with every question
	Now   time.Time `json:"now"`
	App   App       `json:"app"`
	// Lease is how long GPUs are granted, in seconds.
	Lease float64 `json:"lease_s"`
}

// RhoReply is the answer.
type RhoReply struct {
	// Rho is the time from the start of the app to its expected end as things are,
	// divided by the time it would take alone on an equal share of the cluster.
	Rho float64 `json:"rho"`
}

// Offer is what is for sale.
type Offer struct {
	Round uint64    `json:"round"`
	Now   time.Time `json:"now"`
	App   App       `json:"app"`
	Free  []Free    `json:"free"`
	// GPUs come in multiples of Gang, on each node in multiples of Task, and at
	// most Demand of them are of use.
	Gang   int `json:"gang"`
	Task   int `json:"task"`
	Demand int `json:"demand"`
	// Lease is how long they are granted, in seconds.
	Lease float64 `json:"lease_s"`
	// Deadline is the time allowed for the answer, in milliseconds.
	Deadline int64 `json:"deadline_ms"`
}

// Free is what one node has for sale.
type Free struct {
	Node string        `json:"node"`
	Rack string        `json:"rack,omitempty"`
	Type sched.GPUType `json:"gpu_type,omitempty"`
	GPUs int           `json:"gpus"`
}

// Share is a number of GPUs of one node.
type Share struct {
	Node string `json:"node"`
	GPUs int    `json:"gpus"`
}

// BidTable answers an offer.
type BidTable struct {
	Round uint64 `json:"round"` // of the offer
	Rows  []Row  `json:"rows"`  // one of them takes nothing
}

// Row is one choice: the rho of the app with these GPUs added to what it holds.
type Row struct {
	Take []Share `json:"take"`
	Rho  float64 `json:"rho"`
}

// Win is everything the app holds now. It is sent when that has changed, and may
// be sent again.
type Win struct {
	Round uint64      `json:"round"`
	Now   time.Time   `json:"now"`
	App   sched.AppID `json:"app"`
	Jobs  []JobGrant  `json:"jobs"`
	Lease float64     `json:"lease_s"`
}

// JobGrant is what one job of the app holds.
type JobGrant struct {
	Job   sched.JobID `json:"job"`
	GPUs  []Share     `json:"gpus"`
	Until time.Time   `json:"until"` // the end of the lease
}

// decode reads exactly one JSON object. A reply may have only the fields of the
// protocol: an unknown one is likely a mistake. A question may have more, so that
// later versions can extend it.
func decode(data []byte, v any, reply bool) error {
	trimmed := bytes.Trim(data, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return fmt.Errorf("it begins with %.20q; want one JSON object", trimmed)
	}
	if !utf8.Valid(trimmed) {
		return fmt.Errorf("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(trimmed))
	if reply {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("unexpected content: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("data after the JSON object, at byte %d", d.InputOffset())
	}
	return nil
}
