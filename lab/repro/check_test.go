// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	page := strings.Join([]string{"# Title", "| `a` | 10.0 min | +3 % |", "| `b` | 20.0 ± 2.5 min | -1 % |"}, "\n")
	for name, tc := range map[string]struct {
		fresh, want string // "": no difference
	}{
		"the same":              {page, ""},
		"rows in another order": {"# Title\n| `b` | 20.0 ± 2.5 min | -1 % |\n| `a` | 10.0 min | +3 % |", ""},
		"within the share":      {strings.Replace(page, "10.0 min", "10.4 min", 1), ""},
		"within the spread":     {strings.Replace(page, "20.0 ± 2.5", "22.4 ± 2.1", 1), ""},
		"bold":                  {strings.Replace(page, "10.0 min", "**10.0 min**", 1), ""},
		"beyond the share":      {strings.Replace(page, "10.0 min", "10.6 min", 1), "line 2: 10 is now 10.6"},
		"beyond the spread":     {strings.Replace(page, "20.0 ±", "23.0 ±", 1), "line 3: 20 is now 23"},
		"another sign":          {strings.Replace(page, "+3 %", "-3 %", 1), "line 2: 3 is now -3"},
		"a row less":            {"# Title\n| `a` | 10.0 min | +3 % |", "line 3: the run prints no such line"},
		"a row more":            {page + "\n| `c` | 1 min | +0 % |", "new: the page has no such line"},
		"words":                 {strings.Replace(page, "Title", "Other", 1), "line 1: the run prints no such line"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range Check(page, tc.fresh, 0.05) {
				got = append(got, d.String())
			}
			all := strings.Join(got, "\n")
			if tc.want == "" && all != "" || !strings.Contains(all, tc.want) {
				t.Errorf("differences:\n%s\nwant %q", all, tc.want)
			}
		})
	}
}
