// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"strings"
)

// Page prints reasons as a table in Markdown, for docs/failures.md.
func Page(reasons []Reason) string {
	var b strings.Builder
	b.WriteString("| reason | what happened | category | Philly's row | retries | events, signals, exit codes | signatures |\n|---|---|---|---|---|---|---|\n")
	for _, r := range reasons {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %d |\n", r.ID, r.Text, r.Category, dash(r.Philly), r.Retry, dash(r.outside()), len(r.Signatures))
	}
	return b.String()
}

// String prints a rule in a few words.
func (r Rule) String() string {
	var parts []string
	switch r.Budget {
	case Unlimited:
		return "always, uncounted"
	case 0:
		return "none"
	default:
		parts = append(parts, fmt.Sprintf("%d after %s", r.Budget, r.After))
	}
	if r.AvoidNode {
		parts = append(parts, "elsewhere")
	}
	if r.More != NoMore {
		parts = append(parts, "more "+string(r.More))
	}
	return strings.Join(parts, ", ")
}

// outside lists what tells of a reason beside logs.
func (r Reason) outside() string {
	parts := append(append([]string{}, r.Events...), r.Signals...)
	for _, e := range r.Exits {
		parts = append(parts, fmt.Sprint(e))
	}
	return strings.Join(parts, ", ")
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
