// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestHorusPrediction(t *testing.T) {
	h, err := RunHorusPrediction(os.DirFS("../profiling/data"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range h.Claims() {
		missed := c.What == h.claimAfter().What // by a tenth, which the page says
		if c.Holds == missed {
			t.Errorf("%s: %s, wanted %s", c.What, c.Ours, c.Want)
		}
	}
	page := h.Markdown("images")
	for name, plot := range h.Charts() {
		if !strings.Contains(page, "(images/"+name+")") {
			t.Errorf("the page does not show %s", name)
		}
		var b bytes.Buffer
		if err := plot.Write(&b); err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(&b); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	loads := h.Loads()
	if len(loads) != h.Evaluation.Rows {
		t.Errorf("%d loads of %d measured jobs", len(loads), h.Evaluation.Rows)
	}
	for k, l := range loads {
		if l.Util <= 0 || l.Util > 1 || l.Step <= 0 || l.Spread < 0 || l.Spread > 1.5 {
			t.Errorf("%v: load %+v", k, l)
		}
	}
}
