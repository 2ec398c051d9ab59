// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

const soloHead = "model,batch,status,util_mean,step_ms_mean\n"

func TestReadSolo(t *testing.T) {
	got, err := ReadSolo(strings.NewReader(soloHead+"lenet,64,ok,20,2\nbert,8,oom,,\nmlp,8,ok,,1\n"), "solo.csv")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[Key]interfere.Load{{"lenet", 64}: {Util: 0.2, Step: 0.002}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range []struct{ text, want string }{
		{"model,batch\n", "no column status"},
		{soloHead + "lenet,0,ok,20,2\n", `line 2, column 7: batch "0"; want a number of examples`},
		{soloHead + "lenet,64,ok,120,2\n", `line 2, column 13: util_mean "120"; want a number from 0 to 100`},
		{soloHead + "lenet,64,ok,20,x\n", `step_ms_mean "x"`},
	} {
		if _, err := ReadSolo(strings.NewReader(c.text), "solo.csv"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v; want %q", c.text, err, c.want)
		}
	}
}

// TestRead: without a table of jobs alone, the pairs say what they do.
func TestRead(t *testing.T) {
	folder := fstest.MapFS{"x-pairs.csv": {Data: []byte(head + "lenet,64,resnet,8,time-slice,ok,4,20,1.25,1.5,20,50,s1,\n")}}
	for _, c := range []struct {
		solo string
		want float64
	}{{"", 0.2}, {soloHead + "lenet,64,ok,20,2\n", 0.1}} {
		if c.solo != "" {
			folder["x-solo.csv"] = &fstest.MapFile{Data: []byte(c.solo)}
		}
		pairs, err := Read(folder, "x")
		if err != nil {
			t.Fatal(err)
		}
		if got := pairs[0].Sides[0].Load.Util; got != c.want {
			t.Errorf("utilisation %g with solo table %q; want %g", got, c.solo, c.want)
		}
	}
	if _, err := Read(folder, "y"); err == nil || !strings.Contains(err.Error(), "y-pairs.csv") {
		t.Errorf("no pairs: %v; want an error that names the file", err)
	}
}

func FuzzReadSolo(f *testing.F) {
	f.Add([]byte(soloHead + "lenet,64,ok,20,2\n"))
	f.Add([]byte(soloHead + "lenet,64,oom,,\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		loads, err := ReadSolo(bytes.NewReader(data), "fuzz")
		if err != nil {
			return
		}
		for k, l := range loads {
			if k.Batch < 1 || !(l.Step > 0) || l.Util < 0 || l.Util > 1 {
				t.Errorf("accepted %+v %+v", k, l)
			}
		}
	})
}
