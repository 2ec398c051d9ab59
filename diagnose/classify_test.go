// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func classifyText(t *testing.T, text string) Finding {
	t.Helper()
	return builtinTable(t).Classify(Input{Logs: []Log{{Name: "job.log", Rank: -1, Text: text}}})
}

func TestEvidenceLine(t *testing.T) {
	long := strings.Repeat("step 1 loss 2.0 of a long log\n", 5000)
	got := classifyText(t, long+"KeyError: 'x'\n")
	if got.Reason != "program-bug" || got.Evidence.Line != 5001 || got.Evidence.Log != "job.log" {
		t.Errorf("got %s at %+v; want program-bug at line 5001", got.Reason, got.Evidence)
	}
	got = builtinTable(t).Classify(Input{Logs: []Log{{Rank: 4, Line: 900, Text: "a\nKeyError: 'x'\n"}}})
	if got.Evidence.Line != 901 || got.Evidence.Rank != 4 {
		t.Errorf("evidence %+v; want line 901 of rank 4", got.Evidence)
	}
}

func TestTailOnly(t *testing.T) {
	early := "OSError: [Errno 28] No space left on device\n" + strings.Repeat("quiet line without news\n", 4000)
	if got := classifyText(t, early); got.Reason != ReasonUnknown {
		t.Errorf("error before the tail: %s; want unknown", got.Reason)
	}
}

func TestEvidenceIsPrintable(t *testing.T) {
	got := classifyText(t, "KeyError: '\x1b[31m\x07\x00\xff\xfe bad \u202e'\n")
	if got.Reason != "program-bug" || strings.ContainsAny(got.Evidence.Text, "\x1b\x07\x00\u202e") {
		t.Errorf("evidence %q of %s; want program-bug and nothing that moves a cursor", got.Evidence.Text, got.Reason)
	}
}

func TestStamps(t *testing.T) {
	for _, c := range []struct {
		earlier, later string
		ok             bool
	}{
		{"2026-03-04 01:02:03,100 a", "2026-03-04 01:02:03,101 b", true},
		{"[2026-03-04T01:02:03Z] a", "2026-03-05 00:00:00 b", true},
		{"[rank0]:[E304 01:02:03.000001 x] a", "W0304 01:02:03.000002 b", true},
		{"E1231 23:59:59.9 a", "2026-01-01 00:00:00 b", false},
		{"no time", "2026-01-01 00:00:00 b", false},
		{"2026-01-01 00:00:00 a", "2026-01-01 00:00:00 b", false},
	} {
		earlier, ok := stampOf(c.earlier).before(stampOf(c.later))
		back, _ := stampOf(c.later).before(stampOf(c.earlier))
		if ok != c.ok || earlier != c.ok || back {
			t.Errorf("%q before %q: %v, known %v; want %v", c.earlier, c.later, earlier, ok, c.ok)
		}
	}
}

func TestHash(t *testing.T) {
	hash := func(text string) uint64 { return classifyText(t, text).Hash() }
	a := hash("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 at 0x7f01ab")
	b := hash("RuntimeError: CUDA out of memory. Tried to allocate 512.00 GiB. GPU 3 at 0x7fffff")
	c := hash("KeyError: 'a'")
	d := hash("KeyError: 'b'")
	if a != b {
		t.Error("the same error with other numbers has another hash")
	}
	if c == d || a == c {
		t.Error("different errors have the same hash")
	}
}

func TestAlsoAndConfidence(t *testing.T) {
	got := classifyText(t, "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\nRuntimeError: NCCL communicator was aborted on rank 0.\nAborted (core dumped)\n")
	if got.Reason != "gpu-out-of-memory" || len(got.Also) != 2 || got.Also[0].Reason != "nccl-peer-lost" || got.Also[1].Reason != "core-dump" {
		t.Errorf("got %s, also %+v; want gpu-out-of-memory, nccl-peer-lost, core-dump", got.Reason, got.Also)
	}
	strong := got.Confidence
	weak := classifyText(t, "WARNING: Permission denied: /x\n: Permission denied, skipping\n")
	if weak.Reason != "access-denied" || !(weak.Confidence < 0.6 && strong >= 0.85) {
		t.Errorf("%s at %v and out of memory at %v; want a warning to count less", weak.Reason, weak.Confidence, strong)
	}
	if u := classifyText(t, "bye"); u.Confidence != 0 || u.Evidence != nil {
		t.Errorf("nothing known: %+v; want confidence 0 and no evidence", u)
	}
}

func TestSignals(t *testing.T) {
	table := builtinTable(t)
	exit := func(n int) *int { return &n }
	for _, c := range []struct {
		in   Input
		want string
	}{
		{Input{Signal: "kill"}, "killed"},
		{Input{Signal: "9"}, "killed"},
		{Input{Exit: exit(137)}, "killed"},
		{Input{Exit: exit(-11)}, "segfault"},
		{Input{Exit: exit(135)}, "shared-memory"},
		{Input{Exit: exit(124)}, "time-limit"},
		{Input{Exit: exit(1)}, "unknown"},
		{Input{Exit: exit(0)}, "none"},
		{Input{Exit: exit(0), Signal: "SIGSEGV"}, "segfault"},
		{Input{Exit: exit(0), Events: []Event{{Kind: "node-lost"}}}, "node-lost"},
		{Input{Signal: "SIGWHAT"}, "unknown"},
		{Input{}, "unknown"},
		{Input{Exit: exit(139), Logs: []Log{{Text: "OSError: [Errno 28] No space left on device"}}}, "disk-full"},
	} {
		if got := table.Classify(c.in); got.Reason != c.want {
			t.Errorf("%+v: %s; want %s", c.in, got.Reason, c.want)
		}
	}
}

// hostile are logs made to be slow.
func hostile(t testing.TB) map[string]string {
	table := builtinTable(t)
	var all strings.Builder
	for _, s := range table.signatures {
		for _, h := range s.Has {
			all.WriteString(h + " ")
		}
	}
	every := all.String()
	r := rand.New(rand.NewPCG(1, 2))
	junk := make([]byte, TailBytes)
	for i := range junk {
		junk[i] = byte(r.Uint32())
	}
	return map[string]string{
		"every literal":  strings.Repeat(every, 1+TailBytes/len(every)),
		"literals in 2k": strings.Repeat(strings.ReplaceAll(every[:MaxLineBytes-1], "\n", " ")+"\n", TailBytes/MaxLineBytes),
		"literals/lines": strings.Repeat(strings.ReplaceAll(every, " ", "\n"), 1+TailBytes/len(every)),
		"one line":       strings.Repeat("a", TailBytes),
		"newlines":       strings.Repeat("\n", TailBytes),
		"returns":        strings.Repeat("loss 1\r", TailBytes/7),
		"junk":           string(junk),
		"tracebacks":     strings.Repeat(tracebackMark+":\n", TailBytes/35),
		"loss":           strings.Repeat("loss loss loss nan inf checkpoint does not exist ", TailBytes/50),
		"near misses":    strings.Repeat("Error: data data data checkpoint is corrup not found in checkpoin\n", TailBytes/67),
		"escapes":        strings.Repeat("\x1b[", TailBytes/2),
		"ranks":          manyRanks(),
	}
}

func manyRanks() string {
	var b strings.Builder
	for i := 0; b.Len() < TailBytes; i++ {
		fmt.Fprintf(&b, "[rank%d]: %s:\n", i, tracebackMark)
	}
	return b.String()
}

// TestHostileTime bounds the time for logs made to be slow. The bound is far
// above what an idle machine needs (see BenchmarkHostile), for the race
// detector's sake.
func TestHostileTime(t *testing.T) {
	table := builtinTable(t)
	for name, text := range hostile(t) {
		start := time.Now()
		table.Classify(Input{Logs: []Log{{Rank: -1, Text: text}}})
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: %v for 64 KiB; want less than 5 s", name, took)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, s := range corpus(f) {
		for _, l := range s.in.Logs {
			f.Add([]byte(l.Text), 1)
		}
	}
	for _, text := range hostile(f) {
		f.Add([]byte(text[:1000]), 0)
	}
	table := builtinTable(f)
	f.Fuzz(func(t *testing.T, text []byte, exit int) {
		in := Input{Exit: &exit, Logs: []Log{{Rank: -1, Text: string(text)}, {Rank: 1, Text: string(text)}}}
		got := table.Classify(in)
		if _, ok := table.Reason(got.Reason); !ok || !(got.Confidence >= 0 && got.Confidence <= 1) {
			t.Fatalf("finding %+v", got)
		}
		if got.Evidence != nil && (len(got.Evidence.Text) > 320 || strings.ContainsAny(got.Evidence.Text, "\n\x1b\x00")) {
			t.Fatalf("evidence %q", got.Evidence.Text)
		}
		if again := table.Classify(in); again.Hash() != got.Hash() || again.Confidence != got.Confidence {
			t.Fatalf("%+v, then %+v", got, again)
		}
	})
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte(`{"reasons": [{"id": "x", "text": "t", "category": "user", "retry": {"budget": 1, "after": "1m"}, "signatures": [{"has": ["abcd"], "match": "a+"}]}]}`))
	f.Add([]byte(`{"benign": ["x"], "reasons": null}`))
	f.Add([]byte(`[`))
	table := builtinTable(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := ParseFile(text)
		if err != nil {
			return
		}
		if merged, err := table.With(file); err == nil {
			merged.Classify(Input{Logs: []Log{{Text: "abcd aaaa KeyError: x"}}})
		}
	})
}

// typicalLog is 64 KiB of training that ends in an error.
func typicalLog() string {
	var b strings.Builder
	for i := 0; b.Len() < TailBytes-400; i++ {
		fmt.Fprintf(&b, "2026-03-04 01:02:%02d,%03d train: epoch %d step %d loss %.4f lr 1.0e-4 grad_norm 0.91 tokens/s 18422\n", i%60, i%1000, i/100, i, 9.0/float64(i+1))
	}
	return b.String() + "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\nRuntimeError: CUDA error: unspecified launch failure\nAborted (core dumped)\n"
}

func BenchmarkClassify(b *testing.B) {
	table := builtinTable(b)
	in := Input{Logs: []Log{{Rank: -1, Text: typicalLog()}}}
	b.SetBytes(TailBytes)
	for b.Loop() {
		if f := table.Classify(in); f.Reason != "cuda-failure" {
			b.Fatal(f)
		}
	}
}

func BenchmarkHostile(b *testing.B) {
	table := builtinTable(b)
	for name, text := range hostile(b) {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			for b.Loop() {
				table.Classify(Input{Logs: []Log{{Rank: -1, Text: text}}})
			}
		})
	}
}

func BenchmarkBuiltin(b *testing.B) {
	for b.Loop() {
		if _, err := Builtin(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestHungGang: of ranks that wait for each other, the one that does not wait is the
// cause, whatever their stacks look like.
func TestHungGang(t *testing.T) {
	stack := func(frames ...string) string {
		return "Thread 0x00007f2a (most recent call first):\n  File \"/usr/lib/python3/threading.py\", line 324 in wait\n\n" +
			"Current thread 0x00007f2b (most recent call first):\n  File \"" + strings.Join(frames, "\n  File \"") + "\n"
	}
	waits := stack(`/usr/lib/python3/dist-packages/torch/autograd/__init__.py", line 197 in backward`, `/home/ann/train.py", line 41 in main`) +
		"fairway: rank 0 waits for other ranks: no rank has moved for 61 s at backward (__init__.py:197), called from train.py:41; its bound is 60 s (longest pause between two steps before: 0.4 s). The stacks of its threads are above\n"
	hangs := stack(`/home/ann/nccl_timeout.py", line 17 in fake_collective`) +
		"fairway: rank 1 hangs: no rank has moved for 61 s at fake_collective (nccl_timeout.py:17); its bound is 60 s (longest pause between two steps before: 0.4 s). The stacks of its threads are above\n"
	one := 1
	f := builtinTable(t).Classify(Input{Exit: &one, Logs: []Log{{Name: "rank0.log", Rank: 0, Text: waits}, {Name: "rank1.log", Rank: 1, Text: hangs}}})
	if f.Reason != "hung" || f.Evidence == nil || f.Evidence.Log != "rank1.log" {
		t.Errorf("%+v; want hung because of rank 1", f)
	}
	a := Decide(nil, Attempt{Finding: f, Nodes: []string{"n1"}})
	if !a.Retry || a.After.D() != 30*time.Second || !slices.Equal(a.AvoidNodes, []string{"n1"}) {
		t.Errorf("advice %+v; want a retry after 30 s, elsewhere", a)
	}
}
