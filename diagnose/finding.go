// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// Category says whose failure it is.
type Category string

// The categories.
const (
	User           Category = "user"           // the program, its inputs, its request
	Engine         Category = "engine"         // the training framework and the GPU's software
	Infrastructure Category = "infrastructure" // hosts, GPUs, network, storage, the scheduler
	Unknown        Category = "unknown"
)

// Reasons that the code itself gives; every table has them.
const (
	ReasonUnknown   = "unknown"
	ReasonNone      = "none"             // nothing failed
	ReasonException = "python-exception" // one without a signature
)

// Log is the end of what one process, or all of them, printed.
type Log struct {
	Name string // for people: the file
	Rank int    // of the process in the job; -1: unknown, or several write here
	Text string
	// Line is the number of the first line of Text in the whole log; 0 counts
	// as 1.
	Line int
}

// Event is what the host, the launcher or the scheduler says about the end of an
// attempt. The kinds are those that the table's reasons name, such as
// "oom-kill", "node-lost" or "preempted".
type Event struct {
	Kind string `json:"kind"`
	Node string `json:"node,omitempty"`
	Text string `json:"text,omitempty"`
}

// Input is all that is known about how an attempt ended.
type Input struct {
	Logs   []Log
	Exit   *int   // exit code; nil: unknown
	Signal string // that ended it, such as "SIGKILL"; empty: none, or unknown
	Events []Event
}

// Source says where a piece of evidence was found.
type Source string

// The sources of evidence.
const (
	FromEvent  Source = "event"
	FromLog    Source = "log"
	FromExit   Source = "exit"
	FromSignal Source = "signal"
)

// Evidence is what gave a reason away.
type Evidence struct {
	Source Source `json:"source"`
	Log    string `json:"log,omitempty"`
	Line   int    `json:"line,omitempty"` // number in the log, from 1
	Rank   int    `json:"rank"`           // -1: unknown
	Node   string `json:"node,omitempty"`
	Text   string `json:"text"` // the line, safe to print; or the event, code or signal
}

func (e Evidence) String() string {
	switch {
	case e.Source != FromLog:
		return fmt.Sprintf("%s: %s", e.Source, e.Text)
	case e.Log == "":
		return fmt.Sprintf("line %d: %s", e.Line, e.Text)
	}
	return fmt.Sprintf("%s:%d: %s", e.Log, e.Line, e.Text)
}

// More says what a retry should have more of.
type More string

// What a retry may need more of.
const (
	NoMore        More = ""
	MoreMemory    More = "memory"     // of the host
	MoreGPUMemory More = "gpu-memory" // or a smaller batch
)

// Unlimited is a retry budget without an end, whose retries do not count.
const Unlimited = -1

// Rule is what to do after a failure for some reason.
type Rule struct {
	Budget    int            `json:"budget"`               // retries; Unlimited: any number, uncounted
	After     sched.Duration `json:"after,omitempty"`      // wait before the first; doubles with each
	AvoidNode bool           `json:"avoid_node,omitempty"` // go elsewhere
	More      More           `json:"more,omitempty"`
	Say       string         `json:"say"` // advice for people
}

// Sighting is another reason that was seen, and did not win.
type Sighting struct {
	Reason   string   `json:"reason"`
	Evidence Evidence `json:"evidence"`
}

// Finding is why an attempt failed.
type Finding struct {
	Reason     string     `json:"reason"` // id
	Text       string     `json:"text"`
	Category   Category   `json:"category"`
	Philly     string     `json:"philly,omitempty"` // row of the paper's table
	Confidence float64    `json:"confidence"`       // 0 to 1
	Node       bool       `json:"node,omitempty"`   // the reason alone flags the node
	Evidence   *Evidence  `json:"evidence,omitempty"`
	Retry      Rule       `json:"retry"`
	Also       []Sighting `json:"also,omitempty"` // at most five, best first
}

// Hash is the same for failures that look the same: the reason and the
// evidence without numbers and addresses, which differ from run to run.
func (f Finding) Hash() uint64 {
	text := f.Reason + "\n"
	if f.Evidence != nil {
		text += f.Evidence.Text
	}
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	digits := false
	for i := range len(text) {
		c := text[i]
		hex := c >= '0' && c <= '9' || digits && (c >= 'a' && c <= 'f' || c == 'x' || c == '.' || c == ':' || c == '-')
		if hex && digits {
			continue
		}
		if digits = hex; hex {
			c = '#'
		}
		h = (h ^ uint64(c)) * prime
	}
	return h
}

// EventKinds returns the kinds of event that a table understands, sorted.
func (t *Table) EventKinds() []string {
	var kinds []string
	for _, r := range t.reasons {
		kinds = append(kinds, r.Events...)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Finding returns the finding that an attempt failed for a reason of the table,
// where something else than Classify knows it; of a reason that it does not have,
// ReasonUnknown.
func (t *Table) Finding(id string) Finding {
	i := slices.IndexFunc(t.reasons, func(r Reason) bool { return r.ID == id })
	if i < 0 {
		i = t.mustReason(ReasonUnknown)
	}
	return t.finding(i, 1, nil)
}
