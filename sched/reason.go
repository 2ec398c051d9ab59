// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"slices"
	"time"
)

// Code says why a job does not run.
type Code uint8

// The codes. Ok is the zero value: the job runs.
const (
	Ok         Code = iota
	Full            // too few free GPUs in the cluster
	Fragmented      // enough free GPUs, but not near enough to each other
	OverQuota       // its tenant has used up its share
	Behind          // others go first under the policy's order
	BackOff         // it failed or timed out, and in back-off until its next attempt
	Impossible      // no part of this cluster could ever host it
	TurnWait        // time-sliced: its next turn comes
	ScreenWait      // it is new, and waits for a place in the screening pool
	// OverGuarantee: it could not be preempted, and its tenant has used up what it
	// is guaranteed.
	OverGuarantee
	Tied // it is suspended, and waits for the GPUs of the node that has its state
)

var codeNames = [...]string{
	"ok", "full", "fragmented", "over-quota", "behind", "back-off", "impossible", "turn", "screening", "over-guarantee", "suspended",
}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code(%d)", uint8(c))
}

// Competes reports whether a job with that code waits for what other jobs hold.
func (c Code) Competes() bool {
	return c == Full || c == Fragmented || c == Behind || c == OverQuota || c == OverGuarantee || c == TurnWait || c == ScreenWait || c == Tied
}

// NumCodes is the number of codes, for arrays indexed by them.
const NumCodes = len(codeNames)

// Codes returns every code with a meaning, Ok first.
func Codes() []Code {
	out := make([]Code, len(codeNames))
	for i := range out {
		out[i] = Code(i)
	}
	return out
}

// MarshalText implements encoding.TextMarshaler.
func (c Code) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Code) UnmarshalText(b []byte) error {
	i := slices.Index(codeNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("reason code %q: want one of %v", b, codeNames)
	}
	*c = Code(i)
	return nil
}

// Reason says why a job does not run, in numbers. A plan has one for every
// waiting job and a large queue has many, so a Reason is a small value and
// becomes text only where a person reads it.
type Reason struct {
	Code  Code  `json:"code"`
	Need  int   `json:"need,omitempty"`  // GPUs the job needs
	Have  int   `json:"have,omitempty"`  // GPUs there are for it, at best
	Level Level `json:"level,omitempty"` // how near to each other it needs them
	// Topology is the level of the job's rule that nothing free satisfies, and Segment
	// is how many GPUs have to be in one domain of it (0: all). Where is then 1 + the
	// domain that has most.
	Topology string `json:"topology,omitempty"`
	Segment  int    `json:"segment,omitempty"`
	// Marked says that only nodes with the label that the job selects count.
	Marked bool      `json:"marked,omitempty"`
	Where  int32     `json:"where,omitempty"` // 1 + index of the rack (SameRack) or node (nearer) that has most; 0: not one place
	Until  time.Time `json:"until,omitzero"`  // when it is expected to change; zero: unknown
	// Promised is when the policy will have started the job at the latest; zero: it
	// promises nothing.
	Promised time.Time `json:"promised,omitzero"`
	Spare    int       `json:"spare,omitempty"` // GPUs that are kept free to replace nodes that fail
}

// OverShare reports whether the job waits for its tenant's share, not for GPUs.
func (r Reason) OverShare() bool { return r.Code == OverQuota || r.Code == OverGuarantee }

// Text prints the reason for a person.
func (r Reason) Text(c *Cluster) string { return r.TextFor(c, "with the label it requires") }

// TextFor is Text for a caller that can say which nodes the job's selector selects:
// selected follows the word "node", as in "with the label gold".
func (r Reason) TextFor(c *Cluster, selected string) string {
	if n := r.Spare; n > 0 {
		r.Spare = 0
		return fmt.Sprintf("%s; nodes with %s are kept free to replace others that fail", r.TextFor(c, selected), gpus(n))
	}
	var until string
	if !r.Until.IsZero() {
		until = " until about " + r.Until.Format("15:04")
		if r.Code == BackOff || r.Code == TurnWait {
			until = " at " + r.Until.Format("15:04:05")
		}
	}
	switch r.Code {
	case Ok:
		return "runs"
	case Full:
		return fmt.Sprintf("needs %s; %d are free %s%s", gpus(r.Need), r.Have, r.among(selected), until)
	case Fragmented:
		return fmt.Sprintf("needs %s%s%s; %s %d free%s", gpus(r.Need), r.within(), r.marked(selected), r.place(c), r.Have, until)
	case OverQuota:
		return fmt.Sprintf("needs %s; its tenant may take %d more%s", gpus(r.Need), max(0, r.Have), until)
	case OverGuarantee:
		return fmt.Sprintf("needs %s and cannot be preempted; its tenant's guarantee leaves %d for such jobs%s", gpus(r.Need), max(0, r.Have), until)
	case Behind:
		return fmt.Sprintf("needs %s; jobs ahead of it leave %d%s", gpus(r.Need), max(0, r.Have), until)
	case BackOff:
		return "in back-off until its next attempt" + until
	case Impossible:
		if r.Marked && r.Have == 0 {
			return fmt.Sprintf("needs %s; no node %s could hold it", gpus(r.Need), selected)
		}
		return fmt.Sprintf("needs %s%s of an accepted type%s; this cluster has at most %d", gpus(r.Need), r.within(), r.marked(selected), r.Have)
	case TurnWait:
		return "time-sliced; its next turn comes" + until
	case Tied:
		node := "its node"
		if i := int(r.Where) - 1; i >= 0 && i < len(c.Nodes) {
			node = "node " + c.Nodes[i].Name
		}
		return fmt.Sprintf("suspended: what it had on its GPUs is in the memory of %s, and it waits for these GPUs%s", node, until)
	case ScreenWait:
		return fmt.Sprintf("waits for screening on %s; the screening pool has %d free%s", gpus(r.Need), r.Have, until)
	}
	return r.Code.String()
}

// among says which GPUs of the cluster count.
func (r Reason) among(selected string) string {
	if r.Marked {
		return "on the nodes " + selected
	}
	return "in the cluster"
}

func (r Reason) marked(selected string) string {
	if r.Marked {
		return " on nodes " + selected
	}
	return ""
}

func gpus(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

// within says how near to each other the GPUs have to be, after their number.
func (r Reason) within() string {
	if r.Topology != "" && r.Segment > 0 {
		return fmt.Sprintf(", every %d of them in one %s", r.Segment, r.Topology)
	}
	if r.Topology != "" {
		return " in one " + r.Topology
	}
	switch r.Level {
	case SameSlot:
		return " in one NVLink island"
	case SameMachine:
		return " in one node"
	case SameRack:
		return " in one rack"
	}
	return " in the cluster"
}

func (r Reason) place(c *Cluster) string {
	i := int(r.Where) - 1
	switch {
	case r.Topology != "":
		if name := c.DomainName(r.Topology, i); name != "" {
			return r.Topology + " " + name + " has"
		}
		return "such places have"
	case r.Level == SameRack && i >= 0 && i < len(c.Racks):
		return "rack " + c.Racks[i].Name + " has"
	case (r.Level == SameSlot || r.Level == SameMachine) && i >= 0 && i < len(c.Nodes):
		return "node " + c.Nodes[i].Name + " has"
	}
	return "the best place has"
}
