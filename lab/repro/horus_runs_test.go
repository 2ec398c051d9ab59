// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fairway-gpu/fairway/lab/repro"
)

// TestHorusRuns: the page counts the pairs that were called correctly.
func TestHorusRuns(t *testing.T) {
	runs, err := repro.ReadHorusRuns(os.DirFS("../bench/gpu/results"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	runs.Print(&b)
	safe, right := 0, 0
	for _, p := range runs.Pairs {
		if p.Safe {
			safe++
			if p.MeasuredA < 1.15 && p.MeasuredB < 1.15 {
				right++
			}
		}
	}
	want := "Of the pairs called safe, " + string(rune('0'+right)) + " of " + string(rune('0'+safe)) + " were"
	if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
		t.Errorf("the page does not say %q:\n%s", want, b.String())
	}
	if _, err := repro.ReadHorusRuns(fstest.MapFS{"pairs-x.json": {Data: []byte("[{")}}, "x"); err == nil || !strings.Contains(err.Error(), "pairs-x.json") {
		t.Errorf("a broken file: got %v", err)
	}
}

func FuzzHorusRuns(f *testing.F) {
	f.Add([]byte("[]"))
	f.Add([]byte(`[{"a":"x","safe":true}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = repro.ReadHorusRuns(fstest.MapFS{"pairs-x.json": {Data: data}, "share-x.json": {Data: data}}, "x")
	})
}
