// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Part is the part of a GPU that a job may use: a slice of MIG, or a share of the
// threads under MPS.
type Part struct {
	Text string // as ParsePart reads it
	// Compute is the share of its multiprocessors, Bandwidth that of its memory's
	// bandwidth that they can use.
	Compute, Bandwidth float64
	// Memory is what a slice has, in MiB; 0: all of the GPU's.
	Memory float64
}

// The slices of a GPU under MIG: of its multiprocessors, and of its memory.
const (
	computeSlices = 7
	memorySlices  = 8
)

// bandwidthPower is how the usable bandwidth falls with the share of the
// multiprocessors: half of them can use more than half of it. Chosen on measured steps
// with half and a quarter of the threads of an H200; slices of MIG were not measured.
const bandwidthPower = 0.6

// ParsePart reads a share of the threads under MPS ("50%") or a profile of MIG
// ("3g.71gb") of a GPU type.
func ParsePart(text string, d Device) (Part, error) {
	bad := func() (Part, error) {
		return Part{}, fmt.Errorf(`part %q of a GPU; want a share of its threads under MPS, such as 50%%, or a profile of MIG, such as 3g.71gb`, text)
	}
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		n, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(n >= 1 && n <= 100) {
			return bad()
		}
		return Part{Text: text, Compute: n / 100, Bandwidth: math.Pow(n/100, bandwidthPower)}, nil
	}
	compute, memory, _ := strings.Cut(text, "g.")
	slices, err1 := strconv.Atoi(compute)
	size, err2 := strconv.Atoi(strings.TrimSuffix(memory, "gb"))
	if err1 != nil || err2 != nil || slices < 1 || slices > computeSlices || !strings.HasSuffix(memory, "gb") {
		return bad()
	}
	mib := 1024 * float64(size)
	if size < 1 || mib > 1.1*d.MemoryMiB {
		return Part{}, fmt.Errorf("part %q of a GPU: a %s has %.0f MiB of memory", text, d.Name, d.MemoryMiB)
	}
	eighths := min(max(math.Round(memorySlices*mib/d.MemoryMiB), 1), memorySlices)
	return Part{text, float64(slices) / computeSlices, eighths / memorySlices, d.MemoryMiB * eighths / memorySlices}, nil
}

// On returns the model for a part of its GPU: arithmetic takes as much longer as there
// are fewer multiprocessors, traffic as there is less bandwidth. Launches take as
// long as on the whole.
func (m *Model) On(p Part) *Model {
	twin := *m
	whole, part := m.device, m.device
	part.FP32, part.TF32, part.Bandwidth = whole.FP32*p.Compute, whole.TF32*p.Compute, whole.Bandwidth*p.Bandwidth
	if p.Memory > 0 {
		part.MemoryMiB = p.Memory
	}
	twin.device, twin.part = part, p
	twin.Busy = m.Busy.over(1)
	twin.Busy.scale(busyColumns(), whole, part)
	if m.Recipe != nil {
		r := *m.Recipe
		r.Busy = r.Busy.over(1)
		r.Busy.scale(recipeBusyColumns(), whole, part)
		twin.Recipe = &r
	}
	return &twin
}
