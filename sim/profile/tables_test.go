// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func TestReadErrors(t *testing.T) {
	const placements = "placement,local_bsz,step_time,sync_time\n"
	const scalability = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
	const validation = "progress,iteration,metric,grad_sqr,grad_var\n"
	for _, tc := range []struct {
		name, file, text string
		want             []string
	}{
		{"empty", "placements.csv", "", []string{"toy/placements.csv", "line 1", "empty"}},
		{"no rows", "placements.csv", placements, []string{"toy/placements.csv", "no rows"}},
		{"missing column", "placements.csv", "placement,local_bsz,step_time\n1,2,3\n", []string{`column "sync_time" is missing`}},
		{"too few fields", "placements.csv", placements + "1,2,3\n", []string{"toy/placements.csv", "line 2"}},
		{"open quote", "placements.csv", placements + "1,\"2,3,4\n", []string{"toy/placements.csv", "line"}},
		{"placement", "placements.csv", placements + "1,2,3,1\n105,2,3,1\n", []string{"line 3, column 1 (placement)", `"105"`}},
		{"placement too long", "placements.csv", placements + strings.Repeat("1", 33) + ",2,3,1\n", []string{"placement", "32 nodes"}},
		{"local", "placements.csv", placements + "1,2.5,3,1\n", []string{"line 2, column 3 (local_bsz)", `"2.5"`, "whole number"}},
		{"local zero", "placements.csv", placements + "1,0,3,1\n", []string{`(local_bsz): value "0"`}},
		{"local twice", "placements.csv", placements + "12,5,3,1\n21,5,3,1\n", []string{"line 3", "local_bsz", "once"}},
		{"step", "placements.csv", placements + "1,2,abc,1\n", []string{"(step_time)", `"abc"`}},
		{"step zero", "placements.csv", placements + "1,2,0,0\n", []string{"(step_time)", "above 0"}},
		{"step for ever", "placements.csv", placements + "1,2,1e10,0\n", []string{"(step_time)", `"1e10"`}},
		{"step not a number", "placements.csv", placements + "1,2,NaN,1\n", []string{"(step_time)", `"NaN"`}},
		{"step infinite", "placements.csv", placements + "1,2,Inf,1\n", []string{"(step_time)", `"Inf"`}},
		{"sync negative", "placements.csv", placements + "1,2,1,-1\n", []string{"(sync_time)", `"-1"`}},
		{"sync above step", "placements.csv", placements + "1,2,1,1.5\n", []string{"(sync_time)", "at most step_time = 1"}},
		{"nodes", "scalability.csv", scalability + "0,1,2,1,1\n", []string{"toy/scalability.csv", "(num_nodes)"}},
		{"GPUs", "scalability.csv", scalability + "4,3,2,1,1\n", []string{"(num_replicas)", "at least num_nodes = 4"}},
		{"GPUs too many", "scalability.csv", scalability + "4,1e9,2,1,1\n", []string{"(num_replicas)", "16384"}},
		{"scalability local", "scalability.csv", scalability + "4,8,x,1,1\n", []string{"(local_bsz)", `"x"`}},
		{"scalability step", "scalability.csv", scalability + "4,8,1,-1,1\n", []string{"(step_time)", `"-1"`}},
		{"progress", "validation-100.csv", validation + "5,5,0,1,1\n5,6,0,1,1\n", []string{"toy/validation-100.csv", "line 3, column 1 (progress)", "more than 5"}},
		{"iteration", "validation-100.csv", validation + "5,5,0,1,1\n6,5,0,1,1\n", []string{"(iteration)", "more than 5"}},
		{"metric", "validation-100.csv", validation + "5,5,x,1,1\n", []string{"(metric)", "a finite number"}},
		{"grad", "validation-100.csv", validation + "5,5,1,1,-1\n", []string{"(grad_var)", `"-1"`}},
		{"no epochs", "validation-100.csv", validation, []string{"toy/validation-100.csv", "no rows"}},
		{"batch in name", "validation-1e3.csv", validation + "5,5,1,1,1\n", []string{"toy/validation-1e3.csv", `"1e3"`}},
		{"batch twice", "validation-0100.csv", validation + "5,5,1,1,1\n", []string{"two files for batch size 100"}},
	} {
		fsys := toy()
		fsys["toy/"+tc.file] = &fstest.MapFile{Data: []byte(tc.text)}
		_, err := Read(fsys)
		if err == nil {
			t.Errorf("%s: no error", tc.name)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not say %q", tc.name, err, want)
			}
		}
	}
}

func TestReadWithoutFiles(t *testing.T) {
	fsys := toy()
	delete(fsys, "toy/validation-100.csv")
	delete(fsys, "toy/validation-200.csv")
	if _, err := Read(fsys); err == nil || !strings.Contains(err.Error(), "toy: no file validation-<batch>.csv") {
		t.Errorf("got error %v, want that there is no training run", err)
	}
	if _, err := Read(fstest.MapFS{"toy/notes.txt": {}}); err == nil || !strings.Contains(err.Error(), "no sub-folder") {
		t.Errorf("got error %v, want that there is no profile", err)
	}
	if _, err := Read(broken{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got error %v, want %v", err, fs.ErrPermission)
	}
}

// broken is a file system that may not be read.
type broken struct{}

func (broken) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestColumnsInAnyOrder(t *testing.T) {
	fsys := toy()
	fsys["toy/placements.csv"] = &fstest.MapFile{Data: []byte(",sync_time,placement,extra,step_time,local_bsz\n0,0.5,12,x,2.0,10.0\n")}
	tables, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := tables.On("toy", "")
	if step, sync, err := m.Step([]int{2, 1}, 10); step != 2 || sync != 0.5 || err != nil {
		t.Errorf("got %v, %v, %v; want 2, 0.5", step, sync, err)
	}
}

// endless yields rows without end.
type endless struct{ rest string }

func (e *endless) Read(b []byte) (int, error) {
	if e.rest == "" {
		e.rest = "1,2,3," + strings.Repeat("x", 1<<16) + "\n"
	}
	n := copy(b, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func TestFileTooLarge(t *testing.T) {
	r := io.MultiReader(strings.NewReader("a,b,c,d\n"), &endless{})
	err := scanRows(r, []string{"a"}, func(*table) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Errorf("got error %v, want that the file is too large", err)
	}
}

func FuzzRead(f *testing.F) {
	fsys := toy()
	p, s, v := fsys["toy/placements.csv"].Data, fsys["toy/scalability.csv"].Data, fsys["toy/validation-100.csv"].Data
	f.Add(p, s, v)
	f.Add([]byte("placement,local_bsz,step_time,sync_time\n1,4194304,1e-300,0\n99999999,1,1e9,1e9\n"), s, v)
	f.Add(p, []byte("num_nodes,num_replicas,local_bsz,step_time,sync_time\n4096,16384,4194304,1,1\n1,16384,1,1,1\n"), v)
	f.Add([]byte("\"placement\",local_bsz\n"), []byte("\xef\xbb\xbfnum_nodes\n"), []byte("progress\n\n\n"))
	f.Fuzz(func(t *testing.T, p, s, v []byte) {
		tables, err := Read(fstest.MapFS{
			"m/placements.csv":     {Data: p},
			"m/scalability.csv":    {Data: s},
			"m/validation-100.csv": {Data: v},
		})
		if err != nil {
			return
		}
		m, _ := tables.On("m", "")
		l := m.Limits()
		if err := l.Validate(); err != nil {
			t.Errorf("limits of an accepted profile: %v", err)
		}
		if m.Progress(m.Epochs()) <= 0 {
			t.Error("an accepted profile has nothing to do")
		}
		for _, counts := range [][]int{{1}, {4}, {1, 2}, {4, 4, 4, 4, 4, 4}, {10, 1}} {
			step, sync, err := m.Step(counts, l.LocalMin)
			if err == nil && (!(step > 0) || !(sync >= 0) || sync > step*(1+1e-9)) {
				t.Errorf("%v: step %v, sync %v", counts, step, sync)
			}
		}
	})
}
