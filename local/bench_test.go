// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// BenchmarkAttempt measures the time from an order to ranks that run, the time
// from the end of a rank to the report of it, and the memory of a supervisor.
func BenchmarkAttempt(b *testing.B) {
	for _, ranks := range []int{1, 4} {
		b.Run(fmt.Sprintf("ranks=%d", ranks), func(b *testing.B) {
			r := newRig(b, nil)
			var start, end time.Duration
			var own, shared float64
			n := 0
			for b.Loop() {
				n++
				a := attempt(fmt.Sprint("bench-", n), 1, sched.FirstGPUs(ranks), `while [ ! -e go ]; do sleep 0.05; done`)
				begin := time.Now()
				r.orders.set(a)
				await(func() bool { return r.orders.isStarted(a.AttemptID) })
				start += time.Since(begin)
				time.Sleep(20 * time.Millisecond)
				r.m.mu.Lock()
				pid := r.m.runs[a.AttemptID].shim.PID
				r.m.mu.Unlock()
				own, shared = memoryOf(pid)
				if err := os.WriteFile(r.m.jobDir(a.Job)+"/work/go", nil, 0o600); err != nil {
					b.Fatal(err)
				}
				await(func() bool { return alive(b, "FAIRWAY_JOB="+string(a.Job)+"\x00") == 0 })
				begin = time.Now()
				await(func() bool { return len(r.orders.exitsOf(a.AttemptID)) > 0 })
				end += time.Since(begin)
			}
			b.ReportMetric(float64(start.Microseconds())/1000/float64(n), "start-ms")
			b.ReportMetric(float64(end.Microseconds())/1000/float64(n), "report-ms")
			b.ReportMetric(own, "shim-own-MiB")
			b.ReportMetric(shared, "shim-file-MiB")
		})
	}
}

// await waits for a condition, more precisely than eventually does.
func await(ok func() bool) {
	for !ok() {
		time.Sleep(100 * time.Microsecond)
	}
}

// memoryOf returns the memory of a process in MiB: what is its own, and what it
// shares with all that run the same program.
func memoryOf(pid int) (own, shared float64) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range strings.SplitSeq(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "RssAnon:":
			own = kib / 1024
		case "RssFile:":
			shared = kib / 1024
		}
	}
	return own, shared
}
