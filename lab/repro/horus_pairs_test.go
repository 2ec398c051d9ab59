// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"
)

// toyPairs is a table of pairs by this rule: a job gets what the other leaves of
// nine tenths of the GPU, and at least half of that.
func toyPairs() string {
	var b strings.Builder
	b.WriteString("model_a,batch_a,model_b,batch_b,mode,status,solo_ms_a,solo_ms_b,slowdown_a,slowdown_b,solo_util_a,solo_util_b,session\n")
	for i := range 12 {
		for j := range i {
			u, v := 0.08*float64(i+1), 0.08*float64(j+1)
			rule := func(own, other float64) float64 { return max(1, own/max(0.45, 0.9-other)) }
			fmt.Fprintf(&b, "m%d,8,m%d,8,time-slice,ok,20,30,%.3f,%.3f,%.1f,%.1f,s1\n", i, j, rule(u, v), rule(v, u), 100*u, 100*v)
		}
	}
	return b.String()
}

func TestHorusPairs(t *testing.T) {
	h, err := RunHorusPairs(fstest.MapFS{"toy-pairs.csv": {Data: []byte(toyPairs())}}, "toy", nil)
	if err != nil {
		t.Fatal(err)
	}
	claims := h.Claims()
	if len(claims) != 3 || !claims[0].Holds || !claims[2].Holds {
		t.Errorf("claims %+v; want three; the first and the last hold for pairs made by the rule", claims)
	}
	page := h.Markdown("images")
	for _, want := range []string{
		"66 pairs of training jobs on one TOY, 66 of them time-sliced (the default) and 0 under MPS",
		"| time-slice | measured | models | ours | 66 |",
		"| time-slice | 0.9", "| 180 to 200 % | 2 |",
		"(images/horus-pairs-time-slice.svg)", "(images/horus-pairs-sum.svg)",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page:\n%s", want, page)
		}
	}
	if strings.Contains(page, "NaN") {
		t.Errorf("NaN in the page:\n%s", page)
	}
	charts := h.Charts()
	if len(charts) != 2 {
		t.Errorf("%d charts; want 2", len(charts))
	}
	for name, c := range charts {
		if !strings.Contains(page, name) {
			t.Errorf("chart %s is not on the page", name)
		}
		var b bytes.Buffer
		if err := c.Write(&b); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "<circle"); n < 2*66 {
			t.Errorf("%s: %d dots; want one for each job, %d", name, n, 2*66)
		}
		for d := xml.NewDecoder(&b); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}
