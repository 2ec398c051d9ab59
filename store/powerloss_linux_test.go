// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"
)

// The environment of a process that runs one scenario under the eyes of
// TestPowerLoss.
const (
	powerScenario = "FAIRWAY_STORE_POWER_SCENARIO"
	powerDir      = "FAIRWAY_STORE_POWER_DIR"
)

// powerScenarios are what a journal does between two power cuts. Each calls ack
// with the number of records that must survive from then on.
var powerScenarios = map[string]func(t *testing.T, dir string, ack func(records uint64)){
	"append": func(t *testing.T, dir string, ack func(uint64)) {
		s, _ := open(t, Config{Dir: dir})
		for n := range uint64(6) {
			appendTo(t, s, n+1)
			ack(n + 1)
		}
		closeStore(t, s)
		s, _ = open(t, Config{Dir: dir})
		appendTo(t, s, 7)
		ack(7)
	},
	"compact": func(t *testing.T, dir string, ack func(uint64)) {
		s, _ := open(t, Config{Dir: dir})
		for n := uint64(4); n <= 12; n += 4 {
			appendTo(t, s, n)
			compact(t, s, "state", n-1)
			ack(n)
		}
	},
	"shrink": func(t *testing.T, dir string, ack func(uint64)) {
		s, _ := open(t, Config{Dir: dir})
		appendTo(t, s, 5)
		large := make([]byte, 4<<20)
		if _, err := s.Append(context.Background(), large, large, large, large, large); err != nil {
			t.Fatal(err)
		}
		ack(10)
		before := s.Stats().FileBytes
		compact(t, s, "state", 10)
		if after := s.Stats().FileBytes; after >= before {
			t.Fatalf("file has %d bytes before and %d after; want it to shrink", before, after)
		}
		ack(10)
		appendTo(t, s, 12)
		ack(12)
	},
	"salvage": func(t *testing.T, dir string, ack func(uint64)) {
		s, _ := open(t, Config{Dir: dir})
		appendTo(t, s, 12)
		closeStore(t, s)
		ack(4)
		raw := damage(t, dir, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(payloadOf(5)), []byte(payloadOf(6))) })
		rewriteDurably(t, filepath.Join(dir, hotName), raw)
		s, recovery := open(t, Config{Dir: dir})
		if recovery.Unused == "" || recovery.SavedTo == "" {
			t.Fatalf("recovery %+v; want a damaged file and unused frames", recovery)
		}
		ack(4)
		appendTo(t, s, 6)
		ack(6)
	},
	"migrate": func(t *testing.T, dir string, ack func(uint64)) {
		if err := makeDir(dir); err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(filepath.Join(dir, hotName), 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket(bucketUnframed)
			for seq := uint64(1); seq <= 3 && err == nil; seq++ {
				err = b.Put(key(seq), []byte(payloadOf(seq)))
			}
			return err
		})
		if err := errors.Join(err, db.Close(), syncDir(dir)); err != nil {
			t.Fatal(err)
		}
		ack(3)
		s, _ := open(t, Config{Dir: dir})
		ack(3)
		appendTo(t, s, 4)
		ack(4)
	},
}

// rewriteDurably is damage that a disk would have done: it survives a power cut.
func rewriteDurably(t *testing.T, path string, raw []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(raw)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestPowerLossWriter is no test but the process that TestPowerLoss watches.
func TestPowerLossWriter(t *testing.T) {
	scenario := powerScenarios[os.Getenv(powerScenario)]
	if scenario == nil {
		t.Skip("run by TestPowerLoss")
	}
	scenario(t, os.Getenv(powerDir), func(records uint64) {
		_ = syscall.Fsync(ackFd + int(records)) // no such file: it only tells the watcher
	})
}

// TestPowerLoss cuts the power before every sync of a process that uses a
// journal: what was acknowledged must be in what had been synced. A process that
// is merely killed (TestKilled) loses nothing that it wrote, synced or not.
func TestPowerLoss(t *testing.T) {
	for name := range powerScenarios {
		t.Run(name, func(t *testing.T) {
			root := memoryDir(t)
			dir := filepath.Join("state", "fairway", "journal") // below it, none of it there yet
			d, err := newPowerDisk(root)
			if err != nil {
				t.Fatal(err)
			}
			var acked uint64
			acks, cuts := 0, 0
			cut := func(lost string) {
				cuts++
				defer os.RemoveAll(lost)
				survives(t, filepath.Join(lost, dir), acked, name == "salvage" || name == "migrate")
			}
			watchSyncs(t, []string{powerScenario + "=" + name, powerDir + "=" + filepath.Join(root, dir)}, syncWatcher{
				before: func() {
					if t.Failed() {
						return
					}
					cut(d.afterCut(t, d.durableNames))
					cut(d.afterCut(t, d.currentNames))
				},
				after: func(path string) {
					if err := d.synced(path); err != nil {
						t.Error(err)
					}
				},
				ack: func(records uint64) {
					acks++
					acked = records
					d.wantAllDurable(t)
				},
			})
			if acks < 2 || cuts < 10 {
				t.Errorf("%d acknowledgements and %d power cuts: the test shows nothing", acks, cuts)
			}
		})
	}
}

// survives opens what a power cut left and looks for what was acknowledged.
func survives(t *testing.T, dir string, acked uint64, damaged bool) {
	t.Helper()
	if acked == 0 {
		return
	}
	s, recovery, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatalf("Open after a power cut, %d records acknowledged: %v", acked, err)
	}
	defer closeStore(t, s)
	if recovery.Reason != "" && !damaged {
		t.Errorf("Open after a power cut, %d records acknowledged: recovery %+v; want a sound journal", acked, recovery)
	}
	got := contentsOf(t, s, 1)
	if uint64(len(got)) < acked {
		t.Fatalf("%d records after a power cut; %d were acknowledged", len(got), acked)
	}
	for i, p := range got[:acked] {
		if want := payloadOf(uint64(i + 1)); p != want && len(p) < 4<<20 {
			t.Fatalf("record %d is %.40q after a power cut; want %.40q", i+1, p, want)
		}
	}
}
