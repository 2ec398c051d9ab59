// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// BenchmarkImport measures the time from an order to the first line behind "import
// torch" of the slowest rank, with and without warm starts, and the memory of an
// interpreter that waits. FAIRWAY_PYTHON names an interpreter that has torch.
//
//	go test ./local -run '^$' -bench Import -benchtime 10x
func BenchmarkImport(b *testing.B) {
	python := os.Getenv("FAIRWAY_PYTHON")
	if python == "" {
		python = "/usr/bin/python3"
	}
	if err := exec.Command(python, "-c", "import torch").Run(); err != nil {
		b.Skipf("%s has no torch: %v", python, err)
	}
	script := filepath.Join(b.TempDir(), "import.py")
	if err := os.WriteFile(script, []byte("import torch, time\nprint(time.time(), flush=True)\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	for _, ranks := range []int{1, 4} {
		for _, warm := range []int{0, 1} {
			b.Run(fmt.Sprintf("ranks=%d/warm=%d", ranks, warm), func(b *testing.B) {
				r := newRig(b, func(c *Config) { c.Warm = warm })
				r.m.warm.mu.Lock()
				r.m.warm.refill = 0
				r.m.warm.mu.Unlock()
				var took []float64
				n := 0
				run := func() float64 {
					n++
					a := attempt(fmt.Sprint("import-", n), 1, sched.FirstGPUs(ranks), "")
					a.Task.Command = []string{python, script}
					begin := time.Now()
					r.orders.set(a)
					r.exit(a.AttemptID)
					last := 0.0
					for i := range ranks {
						at, err := strconv.ParseFloat(strings.TrimSpace(read(b, r.m.attemptDir(a.AttemptID), rankLog(i))), 64)
						if err != nil {
							b.Fatal(err)
						}
						last = max(last, at)
					}
					return last - float64(begin.UnixNano())/1e9
				}
				run()
				for b.Loop() {
					if warm > 0 {
						eventually(b, "a standby", func() bool { return r.m.Warm().Ready > 0 })
						b.ReportMetric(float64(r.m.Warm().Memory>>20), "MiB")
					}
					took = append(took, run())
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2], "median-s")
				b.ReportMetric(took[len(took)-1], "worst-s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
