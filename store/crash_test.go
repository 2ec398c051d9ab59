// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// crashDir names, in the environment, the journal of a process that is going to
// be killed.
const crashDir = "FAIRWAY_STORE_CRASH_DIR"

// TestCrashWriter is no test but the process that TestKilled kills: it appends
// from several goroutines, compacts now and then, and says on stdout what was
// acknowledged.
func TestCrashWriter(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("run by TestKilled")
	}
	s, recovery, err := Open(Config{Dir: dir})
	if err != nil || recovery.Reason != "" {
		fmt.Printf("error %v %+v\n", err, recovery)
		os.Exit(1)
	}
	fmt.Printf("open %d\n", s.Last())
	var out sync.Mutex
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				a, b := fmt.Sprintf("%d/%d/%d/a", os.Getpid(), w, i), fmt.Sprintf("%d/%d/%d/b%s", os.Getpid(), w, i, strings.Repeat("z", i%3000))
				first, err := s.Append(context.Background(), []byte(a), []byte(b))
				out.Lock()
				if err != nil {
					fmt.Printf("error %v\n", err)
				}
				fmt.Printf("ack %d %s\nack %d %s\n", first, a, first+1, b)
				out.Unlock()
			}
		}()
	}
	for {
		time.Sleep(5 * time.Millisecond)
		if last := s.Last(); last > 20 {
			if err := s.Compact(fmt.Appendf(nil, "state %d", last-10), last-10); err != nil {
				fmt.Printf("error %v\n", err)
			}
		}
	}
}

// TestKilled kills a writing process at random moments: what it acknowledged is
// there, exactly once, in order.
func TestKilled(t *testing.T) {
	t.Parallel()
	kills := 20
	if testing.Short() {
		kills = 4
	}
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	acked := map[uint64]string{}
	for i := range kills {
		// On a slow disk little is acknowledged between two kills: every other one
		// waits for something.
		since := []string{"open", "ack"}[i%2]
		killOne(t, dir, since, time.Duration(random.IntN(60))*time.Millisecond, acked)
		s, recovery, err := Open(Config{Dir: dir})
		if err != nil || recovery.Reason != "" {
			t.Fatalf("Open after the kill: %+v, %v", recovery, err)
		}
		got := contentsOf(t, s, 1)
		seen := map[string]uint64{}
		for i, p := range got {
			seq := uint64(i + 1)
			if at, twice := seen[p]; twice {
				t.Fatalf("record %d is there again as %d", at, seq)
			}
			seen[p] = seq
			if strings.HasSuffix(p, "/a") != (i%2 == 0) {
				t.Fatalf("half of an Append at record %d", seq)
			}
			if want, ok := acked[seq]; ok && want != p {
				t.Fatalf("record %d is %.40q; %.40q was acknowledged", seq, p, want)
			}
		}
		for seq := range acked {
			if seq > uint64(len(got)) {
				t.Fatalf("record %d was acknowledged; the journal ends at %d", seq, len(got))
			}
		}
		if payload, upTo, ok := s.Snapshot(); ok && string(payload) != fmt.Sprintf("state %d", upTo) {
			t.Fatalf("snapshot of %d is %q", upTo, payload)
		}
		closeStore(t, s)
	}
	if len(acked) < kills {
		t.Errorf("only %d records were acknowledged before %d kills: the test shows nothing", len(acked), kills)
	}
}

// killOne runs the writer, kills it some time after it first said a word, and
// notes what it acknowledged.
func killOne(t *testing.T, dir, since string, after time.Duration, acked map[uint64]string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashWriter$")
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	killed := false
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // the last line may be half of one: not acknowledged
		}
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if word == since && !killed {
			killed = true
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
		switch word {
		case "ack":
			number, payload, _ := strings.Cut(rest, " ")
			seq, err := strconv.ParseUint(number, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			acked[seq] = payload
		case "error":
			t.Errorf("writer: %s", rest)
		}
	}
	if err := cmd.Wait(); !killed {
		t.Fatalf("writer ended by itself: %v", err)
	}
}
