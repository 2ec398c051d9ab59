// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Difference is a line of a page that a fresh run does not confirm.
type Difference struct {
	Line        int // of the page; 0: only the run has it
	Page, Fresh string
	Why         string
}

// String is for people.
func (d Difference) String() string {
	at := "new"
	if d.Line > 0 {
		at = fmt.Sprintf("line %d", d.Line)
	}
	return fmt.Sprintf("%s: %s\n  page: %s\n  now:  %s", at, d.Why, d.Page, d.Fresh)
}

var (
	number = regexp.MustCompile(`\d+(?:\.\d+)?`)
	sign   = regexp.MustCompile(`[-+]#`)
	spread = regexp.MustCompile(`^ ± (\d+(?:\.\d+)?)`)
)

// skeleton is a line without its numbers and their signs: what two lines must share to
// be compared.
func skeleton(line string) string {
	line = strings.ReplaceAll(line, "**", "") // a figure is bold if it misses its target
	return sign.ReplaceAllString(number.ReplaceAllString(line, "#"), "#")
}

// Check compares a page with what a run prints now. Lines are matched by their words,
// since rows are often in the order of a figure. A number may differ by the spread
// that the page states after it (±), by a share of itself, or by two units of its last
// digit.
func Check(page, fresh string, share float64) []Difference {
	left := map[string][]string{} // skeleton -> lines of the run that are not matched yet
	for _, line := range strings.Split(fresh, "\n") {
		key := skeleton(line)
		left[key] = append(left[key], line)
	}
	var list []Difference
	for i, line := range strings.Split(page, "\n") {
		key := skeleton(line)
		if len(left[key]) == 0 {
			list = append(list, Difference{i + 1, line, "", "the run prints no such line"})
			continue
		}
		now := left[key][0]
		left[key] = left[key][1:]
		if why := compareNumbers(line, now, share); why != "" {
			list = append(list, Difference{i + 1, line, now, why})
		}
	}
	var added []string
	for _, lines := range left {
		added = append(added, lines...)
	}
	slices.Sort(added)
	for _, line := range added {
		list = append(list, Difference{0, "", line, "the page has no such line"})
	}
	return list
}

// compareNumbers names the first number that differs too much; "" if none does.
func compareNumbers(page, fresh string, share float64) string {
	was, now := number.FindAllStringIndex(page, -1), number.FindAllStringIndex(fresh, -1)
	for i := range min(len(was), len(now)) {
		a, b := page[was[i][0]:was[i][1]], fresh[now[i][0]:now[i][1]]
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		if errX != nil || errY != nil || strings.HasSuffix(page[:was[i][0]], "± ") {
			continue // a spread itself may change
		}
		if signed(page, was[i][0]) {
			x = -x
		}
		if signed(fresh, now[i][0]) {
			y = -y
		}
		allowed := max(share*math.Abs(x), 2*unit(a))
		if m := spread.FindStringSubmatch(page[was[i][1]:]); m != nil {
			if s, err := strconv.ParseFloat(m[1], 64); err == nil {
				allowed = max(allowed, s)
			}
		}
		if math.Abs(x-y) > allowed*(1+1e-9) {
			return fmt.Sprintf("%g is now %g; at most %.3g off is accepted", x, y, allowed)
		}
	}
	return ""
}

// signed reports whether the number at a place has a minus sign, not a hyphen.
func signed(line string, at int) bool {
	return at > 0 && line[at-1] == '-' && (at == 1 || line[at-2] == ' ' || line[at-2] == '(' || line[at-2] == '*')
}

// unit is the value of a number's last digit.
func unit(text string) float64 {
	_, digits, _ := strings.Cut(text, ".")
	return math.Pow(10, -float64(len(digits)))
}
