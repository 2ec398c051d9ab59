// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// fuzzRead: whatever the bytes, a reader does not panic, and a workload that it
// returns can be written in the native format and read back as it was. Bad
// rows do not stop it.
func fuzzRead(f *testing.F, format Format) {
	for _, file := range files {
		if file.format != format {
			continue
		}
		text, err := os.ReadFile(filepath.Join("testdata", file.name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, m := range malformed {
		if m.format == format {
			f.Add([]byte(m.text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		wl, report, err := Read(bytes.NewReader(text), Options{Format: format, Name: "f", SkipBad: true})
		if err != nil {
			return
		}
		if report.Jobs != len(wl.Work) || report.Skipped < len(report.Bad) {
			t.Fatalf("report %+v of %d jobs", report, len(wl.Work))
		}
		for i := 1; i < len(wl.Work); i++ {
			if wl.Work[i].Submitted.Before(wl.Work[i-1].Submitted) {
				t.Fatalf("job %d comes before the one ahead of it", i)
			}
		}
		var out bytes.Buffer
		if err := Write(&out, wl); err != nil {
			t.Fatal(err)
		}
		again, _, err := Read(&out, Options{Format: Native, Name: "again"})
		if err != nil {
			t.Fatalf("read what was written: %v", err)
		}
		if diff := cmp.Diff(wl, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("workload (-written +read):\n%s", diff)
		}
		Stats(wl)
	})
}

func FuzzNative(f *testing.F)   { fuzzRead(f, Native) }
func FuzzPollux(f *testing.F)   { fuzzRead(f, Pollux) }
func FuzzRubick(f *testing.F)   { fuzzRead(f, Rubick) }
func FuzzPhilly(f *testing.F)   { fuzzRead(f, Philly) }
func FuzzHelios(f *testing.F)   { fuzzRead(f, Helios) }
func FuzzAlibaba(f *testing.F)  { fuzzRead(f, Alibaba) }
func FuzzAcme(f *testing.F)     { fuzzRead(f, Acme) }
func FuzzOpenb(f *testing.F)    { fuzzRead(f, Openb) }
func FuzzTiresias(f *testing.F) { fuzzRead(f, Tiresias) }
func FuzzGavel(f *testing.F)    { fuzzRead(f, Gavel) }

func FuzzDetect(f *testing.F) {
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("testdata", file.name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("\xef\xbb\xbf\n\t"))
	f.Fuzz(func(t *testing.T, head []byte) {
		format, err := Detect(head, "f")
		if (err == nil) == (readers[format] == nil) {
			t.Fatalf("format %q, error %v; want a format or an error", format, err)
		}
	})
}
