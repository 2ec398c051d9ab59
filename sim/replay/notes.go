// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"

	"github.com/fairway-gpu/fairway/sched"
)

// Note says how the replay differs from what happened.
type Note struct {
	Text    string `json:"text"`
	Count   int    `json:"count"`   // of jobs, nodes or tenants
	Example string `json:"example"` // one of them; empty: it applies to the whole journal
}

func (n Note) String() string {
	switch {
	case n.Example == "":
		return n.Text
	case n.Count == 1:
		return fmt.Sprintf("%s: %s", n.Example, n.Text)
	}
	return fmt.Sprintf("%d times, such as %s: %s", n.Count, n.Example, n.Text)
}

// notes counts notes, once for each text and object.
type notes struct {
	list []Note
	seen map[[2]string]bool
}

func (n *notes) add(text string, about sched.JobID) {
	key := [2]string{text, string(about)}
	if n.seen[key] {
		return
	}
	if n.seen == nil {
		n.seen = map[[2]string]bool{}
	}
	n.seen[key] = true
	for i := range n.list {
		if n.list[i].Text == text {
			n.list[i].Count++
			return
		}
	}
	n.list = append(n.list, Note{Text: text, Count: 1, Example: string(about)})
}
