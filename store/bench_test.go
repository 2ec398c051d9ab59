// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkAppend measures durable appends of 512 bytes, one record each.
// FAIRWAY_STORE_BENCH_DIR says on which disk; the default is that of the
// temporary files, and a file system in memory tells nothing.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s, _ := open(b, Config{Dir: benchDir(b)})
			payload := bytes.Repeat([]byte("p"), 512)
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := s.Append(context.Background(), payload); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			b.ReportMetric(float64(b.N)/float64(s.Stats().Commits), "appends/commit")
		})
	}
}

// BenchmarkOpen measures the check of a journal of 100,000 records.
func BenchmarkOpen(b *testing.B) {
	dir := benchDir(b)
	s, _ := open(b, Config{Dir: dir})
	payload := bytes.Repeat([]byte("p"), 512)
	for range 100 {
		batch := make([][]byte, 1000)
		for i := range batch {
			batch[i] = payload
		}
		if _, err := s.Append(context.Background(), batch...); err != nil {
			b.Fatal(err)
		}
	}
	closeStore(b, s)
	for b.Loop() {
		s, _, err := Open(Config{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		closeStore(b, s)
	}
}

func benchDir(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp(os.Getenv("FAIRWAY_STORE_BENCH_DIR"), "journal")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
