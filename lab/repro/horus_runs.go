// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// HorusRuns are jobs that shared a real GPU, with the slowdowns predicted
// beforehand.
type HorusRuns struct {
	GPU    string
	Pairs  []pairRun
	Shared []sharedRun
}

// pairRun is a pair of lab/bench/gpu/pairs.py.
type pairRun struct {
	A         string  `json:"a"`
	BatchA    int     `json:"batch_a"`
	B         string  `json:"b"`
	BatchB    int     `json:"batch_b"`
	Safe      bool    `json:"safe"`
	UtilA     float64 `json:"util_a"`
	UtilB     float64 `json:"util_b"`
	SlowdownA float64 `json:"slowdown_a"`
	SlowdownB float64 `json:"slowdown_b"`
	HighA     float64 `json:"high_a"`
	HighB     float64 `json:"high_b"`

	MeasuredUtilA float64 `json:"measured_util_a"`
	MeasuredUtilB float64 `json:"measured_util_b"`
	MeasuredA     float64 `json:"measured_a"`
	MeasuredB     float64 `json:"measured_b"`
	WasSafe       bool    `json:"was_safe"`
}

// sharedRun is a mode of lab/bench/gpu/share.py.
type sharedRun struct {
	Mode     string  `json:"mode"`     // of MPS: off or on
	Alone    float64 `json:"alone"`    // examples each second of the first job
	Together float64 `json:"together"` // the same with the second job
	Measured float64 `json:"measured"` // slowdown, measured by the daemon
	Greedy   string  `json:"greedy"`   // state of the job that uses more memory than it requested
	Why      string  `json:"why"`
}

// ReadHorusRuns reads the results from a GPU.
func ReadHorusRuns(data fs.FS, gpu string) (*HorusRuns, error) {
	h := &HorusRuns{GPU: gpu}
	if err := readRuns(data, "pairs-"+gpu+".json", &h.Pairs); err != nil {
		return nil, err
	}
	return h, readRuns(data, "share-"+gpu+".json", &h.Shared)
}

// maxRuns bounds the size of such a file, in bytes.
const maxRuns = 1 << 20

func readRuns(data fs.FS, name string, into any) error {
	f, err := data.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRuns+1))
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", name, err)
	case len(text) > maxRuns:
		return fmt.Errorf("read %s: the file has more than %d bytes", name, maxRuns)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// Print writes this part of the page.
func (h *HorusRuns) Print(w io.Writer) {
	right := map[bool]int{}
	all := map[bool]int{}
	for _, p := range h.Pairs {
		all[p.Safe]++
		if p.Safe == p.WasSafe {
			right[p.Safe]++
		}
	}
	fmt.Fprintf(w, `## On the GPU: predicted and measured

Pairs of models not measured before, chosen at random by lab/bench/gpu/pairs.py until %d were
called safe and %d were expected to slow one job by more than 15 %%. The predictions come
from the graphs alone and were recorded first; then each job ran alone for 3 s and each pair
together for 5 s on one %s. Of the pairs called safe, %d of %d were safe; of the others,
%d of %d were unsafe.

| called | job | utilisation: predicted | measured | slowdown: predicted | up to | measured | outcome |
|---|---|---|---|---|---|---|---|
`, all[true], all[false], strings.ToUpper(h.GPU), right[true], all[true], right[false], all[false])
	for _, p := range h.Pairs {
		fmt.Fprintf(w, "| %s | %s, batch %d | %.0f %% | %.0f %% | %.2f | %.2f | %.2f | %s |\n",
			safety(p.Safe), p.A, p.BatchA, p.UtilA, p.MeasuredUtilA, p.SlowdownA, p.HighA, p.MeasuredA, safety(p.WasSafe))
		fmt.Fprintf(w, "| | %s, batch %d | %.0f %% | %.0f %% | %.2f | %.2f | %.2f | |\n",
			p.B, p.BatchB, p.UtilB, p.MeasuredUtilB, p.SlowdownB, p.HighB, p.MeasuredB)
	}
	fmt.Fprint(w, `
Two training jobs under the daemon on one GPU (lab/bench/gpu/share.py), time-sliced and under
MPS, and a third that requests 1 GiB and uses 4:

| MPS | first job alone, examples/s | with the second | slowdown | measured by the daemon | the third job |
|---|---|---|---|---|---|
`)
	for _, s := range h.Shared {
		third := "got the 4 GiB: there is no limit"
		if s.Greedy != "finished" {
			third = fmt.Sprintf("%s (%s)", s.Greedy, s.Why)
		}
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.2f | %.2f | %s |\n", s.Mode, s.Alone, s.Together, s.Alone/s.Together, s.Measured, third)
	}
	fmt.Fprintln(w)
}

func safety(ok bool) string {
	if ok {
		return "safe"
	}
	return "unsafe"
}
