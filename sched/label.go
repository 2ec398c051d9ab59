// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"slices"
)

// A label names something that a node offers and a job may select: a pool, a disk,
// a driver, a set of Kubernetes labels and taints. Its meaning is decided where
// nodes are described; here only names are compared.

// maxLabel is the length of the longest label, as in Kubernetes.
const maxLabel = 63

// maxLabels bounds the labels of one node.
const maxLabels = 1024

const wantLabel = "1 to 63 of the characters a-z A-Z 0-9 . _ - /, the first a letter or a digit"

// labelOK reports whether a name is a valid label.
func labelOK(label string) bool {
	for i := range len(label) {
		c := label[i]
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-' || c == '/'):
		default:
			return false
		}
	}
	return 0 < len(label) && len(label) <= maxLabel
}

// CheckLabel says what is wrong with a label, if anything.
func CheckLabel(label string) error {
	if !labelOK(label) {
		return fmt.Errorf("label = %q; want %s", label, wantLabel)
	}
	return nil
}

// Matches reports whether the node accepts jobs with a selector. A job without a
// selector runs on every node that is not dedicated.
func (n *Node) Matches(label string) bool {
	if label == "" {
		return !n.Dedicated
	}
	return slices.Contains(n.Labels, label)
}

func (n *Node) checkLabels() error {
	if len(n.Labels) > maxLabels {
		return fmt.Errorf("marks: %d of them; want at most %d", len(n.Labels), maxLabels)
	}
	for i, label := range n.Labels {
		if !labelOK(label) {
			return fmt.Errorf("marks: %q; want %s", label, wantLabel)
		}
		if i > 0 && n.Labels[i-1] >= label {
			return fmt.Errorf("marks: %q after %q; want them in ascending order, each once", label, n.Labels[i-1])
		}
	}
	return nil
}
