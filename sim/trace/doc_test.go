// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sim"
)

const formatPage = "../../docs/workload-format.md"

// The example of the format's page can be read.
func TestDocumentedExample(t *testing.T) {
	page, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	example, _, _ := strings.Cut(rest, "```")
	wl, _, err := Read(strings.NewReader(example), Options{Name: "example"})
	if err != nil {
		t.Fatal(err)
	}
	if len(wl.Work) != 3 {
		t.Errorf("the example has %d jobs; want 3", len(wl.Work))
	}
}

// The page names every field of a job and of the header.
func TestDocumentedFields(t *testing.T) {
	page, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	var check func(reflect.Type)
	check = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous:
				check(f.Type)
			case name != "-" && !strings.Contains(string(page), "`"+name+"`"):
				t.Errorf("the page does not describe the field %q of %s", name, typ)
			}
		}
	}
	check(reflect.TypeFor[header]())
	check(reflect.TypeFor[sim.Work]())
	for _, f := range Formats() {
		if !strings.Contains(string(page), "| `"+string(f)+"` |") {
			t.Errorf("the page does not describe the format %s", f)
		}
	}
}
