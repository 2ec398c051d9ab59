// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func text(t testing.TB, p *Pool) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func fullPool(t testing.TB) *Pool {
	pool := New()
	for i := range uint64(4) {
		learn(t, pool, Key{Model: "cifar10", Dataset: fmt.Sprint("d", i%2), User: "ann"}, history(t, cifar, cifarLocals, lognormal(i, 0.1)))
		learn(t, pool, Key{Model: "bert <large>", Script: `C:\train "it".py`}, history(t, bert, bertLocals, lognormal(i, 0.1)))
	}
	learn(t, pool, Key{User: "größe"}, Outcome{Restart: 0.1})
	return pool
}

func TestRoundTrip(t *testing.T) {
	for name, pool := range map[string]*Pool{"empty": New(), "full": fullPool(t)} {
		first := text(t, pool)
		read, err := Read(strings.NewReader(first))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(pool, read, cmp.AllowUnexported(Pool{}), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: the pool came back changed:\n%s", name, d)
		}
		if second := text(t, read); second != first {
			t.Errorf("%s: other bytes the second time:\n%s", name, cmp.Diff(first, second))
		}
	}
}

func TestSameOutcomesSameBytes(t *testing.T) {
	if a, b := text(t, fullPool(t)), text(t, fullPool(t)); a != b {
		t.Error(cmp.Diff(a, b))
	}
}

// The order of the lines does not matter.
func TestReadSorts(t *testing.T) {
	want := text(t, fullPool(t))
	lines := strings.SplitAfter(strings.TrimSpace(want)+"\n", "\n")
	slices.Reverse(lines[1 : len(lines)-1])
	read, err := Read(strings.NewReader(strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, read); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

const head = `{"fairway":"experience","version":1,"records":1}` + "\n"

func TestReadErrors(t *testing.T) {
	sample := `{"nodes":1,"gpus":1,"local":8,"step":0.5,"sync":0,"count":1}`
	record := func(fields string) string { return head + `{"key":{"model":"m"},"jobs":1,"used":1` + fields + "}\n" }
	samples := func(list string) string { return record(`,"most_gpus":1,"samples":{"t4":[` + list + `]}`) }
	if _, err := Read(strings.NewReader(samples(sample))); err != nil {
		t.Fatalf("a good file: %v", err)
	}
	for _, c := range []struct{ text, want string }{
		{"", "empty"},
		{"hello\n", "line 1: column 1"},
		{"{}\n", `line 1: fairway = ""; want "experience"`},
		{`{"fairway":"workload","version":1}`, `fairway = "workload"`},
		{`{"fairway":"experience","version":2,"new":1}`, "version = 2; want 1"},
		{`{"fairway":"experience","version":1,"new":1}`, `unknown field "new"`},
		{`{"fairway":"experience","version":1,"records":1}`, "1 records in the header, 0 in the file"},
		{head + "{}\n", "line 2: key = {"},
		{head + "{\"key\":{\"model\":7}}", "line 2: column 17: field key.model: a number; want string"},
		{head + "{\"key\":", "line 2"},
		{record("") + record("")[len(head):], "line 3: key = {Model:m"},
		{strings.TrimSuffix(record(""), "\n") + " x", `"x" after the object`},
		{record(`,"seed":1`), `unknown field "seed"`},
		{record(`,"jobs":0`), "jobs = 0"},
		{record(`,"most_gpus":-1`), "most_gpus = -1"},
		{record(`,"used":9007199254740993`), "used = 9007199254740993"},
		{record(`,"key":{"model":"a\nb"}`), `key: model = "a\nb"`},
		{record(`,"restart":{"value":-1,"count":1}`), "restart: value = -1"},
		{record(`,"work":{"value":1,"count":0}`), "work: value = 1 with count = 0"},
		{record(`,"work":{"value":1,"count":21}`), "count = 21"},
		{record(`,"noise":[{"cell":20,"noise":1,"count":1}]`), "noise[0]: cell = 20; want 0 to 19"},
		{record(`,"noise":[{"cell":2,"noise":1,"count":1},{"cell":2,"noise":1,"count":1}]`), "noise[1]: cell = 2 after cell 2"},
		{record(`,"noise":[{"cell":2,"noise":0,"count":1}]`), "noise = 0; want"},
		{record(`,"noise":[{"cell":2,"noise":1,"count":0}]`), "count = 0; want"},
		{record(`,"noise":[{"cell":2,"noise":1e999,"count":1}]`), "number 1e999"},
		{samples(""), "GPU type t4: 0 samples"},
		{samples(sample + "," + sample), "sample 1: 1 nodes, 1 GPUs, local 8 after 1, 1, 8"},
		{samples(strings.Replace(sample, `"step":0.5`, `"step":-1`, 1)), "sample 0: step = -1"},
		{samples(strings.Replace(sample, `"count":1`, `"count":50`, 1)), "sample 0: count = 50"},
		{samples(strings.Replace(sample, `"gpus":1`, `"gpus":4`, 1)), "most_gpus = 1; want at least 4"},
		{samples(strings.Replace(sample, `"step"`, `"steps"`, 1)), `unknown field "steps"`},
		{record(`,"most_gpus":1,"samples":{"":[` + sample + `]}`), `GPU type ""`},
		{head + strings.Repeat(" ", maxLine+1), "line 2: bufio.Scanner: token too long"},
	} {
		pool, err := Read(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "read experience: ") || pool != nil {
			t.Errorf("%.200s\n\terror %v\n\twant  %s", c.text, err, c.want)
		}
	}
}

func TestReadLimit(t *testing.T) {
	whole := text(t, fullPool(t))
	if _, err := read(strings.NewReader(whole), int64(len(whole))); err != nil {
		t.Errorf("as large as the limit: %v", err)
	}
	for _, more := range []string{"\n", strings.Repeat(" \n", 100)} {
		want := fmt.Sprintf("more than %d bytes", len(whole))
		if _, err := read(strings.NewReader(whole+more), int64(len(whole))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("larger than the limit: error %v, want %s", err, want)
		}
	}
	broken := errors.New("disk on fire")
	if _, err := Read(readerFunc(func([]byte) (int, error) { return 0, broken })); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if err := fullPool(t).Write(writerFunc(func([]byte) (int, error) { return 0, broken })); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// A pool can always read what it has written: the longest possible texts and
// numbers, as many as the bounds allow, stay below the limits of the reader.
func TestFullPoolFits(t *testing.T) {
	const digits = 1.2345678901234567e-9
	size := func(x any) int {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(x); err != nil {
			t.Fatal(err)
		}
		return b.Len()
	}
	long := strings.Repeat(`"`, maxText)
	r := &Record{
		Key:  Key{long, long, long, long},
		Work: Mean{digits, memory}, Restart: Mean{digits, memory},
		MostGPUs: math.MaxInt, Jobs: math.MaxInt32, Used: maxUsed,
	}
	for i := range Cells {
		r.Noise = append(r.Noise, Point{i, 123.45678901234567, digits})
	}
	sample := goodput.Sample{Nodes: math.MaxInt, GPUs: math.MaxInt, Local: math.MaxInt, Step: digits, Sync: digits, Count: digits}
	one := size(sample)
	kind := 2*maxType + len(`"":[],`)
	if line := size(r) + MaxTypes*kind + MaxTypes*MaxSamples*one; line > maxLine {
		t.Errorf("a record takes up to %d bytes; a line has %d", line, maxLine)
	}
	if whole := len(head) + MaxRecords*size(r) + MaxAllSamples*(one+kind); whole > MaxFile {
		t.Errorf("a pool takes up to %d bytes; a file has %d", whole, MaxFile)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(text(f, New())))
	f.Add([]byte(text(f, fullPool(f))))
	f.Add([]byte(head + `{"key":{"model":"m"},"samples":{"t4":[{"nodes":1,"gpus":1,"local":8,"step":0.5,"sync":0,"count":1}]},"most_gpus":1,"jobs":1,"used":9007199254740992}`))
	f.Add([]byte(head + `{"key":{"model":"m"},"noise":[{"cell":0,"noise":1e12,"count":20}],"jobs":2147483647}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		pool, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		first := text(t, pool)
		again, err := Read(strings.NewReader(first))
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if second := text(t, again); second != first {
			t.Fatal(cmp.Diff(first, second))
		}
		// Whatever was read can be learned from and used.
		k := Key{Model: "m", User: "u"}
		learn(t, pool, k, Outcome{Restart: 1})
		p := again.Prior(k, Default())
		p.Check("t4", sampleOf(cifar, 1, 2, 64), nil)
		p.CheckNoise(0.5, 100)
		if got := p.Noise(0.5, 100, 1); !(got > 0) || math.IsInf(got, 1) {
			t.Fatalf("noise %v", got)
		}
		p.Profile("t4", nil)
	})
}
