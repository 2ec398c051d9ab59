// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"strings"
	"testing"
)

func TestParseDecoder(t *testing.T) {
	for text, want := range map[string]string{
		"layers=2,width=8,heads=2,vocabulary=10,sequence=4": "",
		"layers=2":   "width 0",
		"layers=two": `layers "two"`,
		"depth=2":    `"depth=2"`,
		"layers=2,width=9,heads=2,vocabulary=10,sequence=4":   "no multiple of heads",
		"layers=2000,width=8,heads=2,vocabulary=1,sequence=4": "layers 2000",
	} {
		_, err := ParseDecoder(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

func FuzzParseDecoder(f *testing.F) {
	f.Add("layers=2,width=8,heads=2,vocabulary=10,sequence=4")
	f.Add("layers=1,,=3")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDecoder(text)
		if err != nil || d.Layers > 8 {
			return
		}
		if s, err := Infer(d.Model(), Options{Batch: 1}); err != nil || s.Unshaped > 0 || len(s.Unknown) > 0 {
			t.Errorf("%+v: %v, %v", d, s, err)
		}
	})
}
