// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"slices"
)

// A mark is a name for something that a node offers and a job may need: a pool
// that it belongs to, a disk, a driver, a set of labels and taints. What it means
// is decided where nodes are described; here only names are compared.

// maxMark is the length of the longest mark, as that of a label in Kubernetes.
const maxMark = 63

// maxMarks bounds the marks of one node.
const maxMarks = 1024

const wantMark = "1 to 63 of the characters a-z A-Z 0-9 . _ - /, the first a letter or a digit"

// markOK reports whether a name can be a mark.
func markOK(mark string) bool {
	for i := range len(mark) {
		c := mark[i]
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-' || c == '/'):
		default:
			return false
		}
	}
	return 0 < len(mark) && len(mark) <= maxMark
}

// CheckMark says what is wrong with the name of a mark, if anything.
func CheckMark(mark string) error {
	if !markOK(mark) {
		return fmt.Errorf("mark = %q; want %s", mark, wantMark)
	}
	return nil
}

// Bears reports whether the node takes jobs that need a mark. The empty one is
// that of a job without a need: all nodes take it but those that are kept for
// others.
func (n *Node) Bears(mark string) bool {
	if mark == "" {
		return !n.Kept
	}
	return slices.Contains(n.Marks, mark)
}

func (n *Node) checkMarks() error {
	if len(n.Marks) > maxMarks {
		return fmt.Errorf("marks: %d of them; want at most %d", len(n.Marks), maxMarks)
	}
	for i, mark := range n.Marks {
		if !markOK(mark) {
			return fmt.Errorf("marks: %q; want %s", mark, wantMark)
		}
		if i > 0 && n.Marks[i-1] >= mark {
			return fmt.Errorf("marks: %q after %q; want them in ascending order, each once", mark, n.Marks[i-1])
		}
	}
	return nil
}
