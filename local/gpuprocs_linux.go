// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"slices"

	"github.com/fairway-gpu/fairway/daemon/proc"
)

// processesOf returns the processes of an attempt without its supervisor.
func (m *Machine) processesOf(r *run) ([]proc.Process, error) {
	all, err := proc.All()
	if err != nil {
		return nil, err
	}
	var out []proc.Process
	for pid, p := range all {
		if pid != r.shim.PID && p.State != 'Z' && proc.Under(all, pid, r.shim.PID) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has no processes")
	}
	slices.SortFunc(out, func(a, b proc.Process) int { return a.PID - b.PID })
	return out, nil
}

// gpuMemory returns the bytes that processes have on GPUs; 0: not known.
func (m *Machine) gpuMemory(pids []int) (sum int64) {
	ctx, cancel := context.WithTimeout(context.Background(), smiTimeout)
	defer cancel()
	rows, err := m.gauge.tool.procs(ctx)
	if err != nil {
		return 0
	}
	for _, row := range rows {
		if slices.Contains(pids, row.pid) {
			sum += max(0, row.memory)
		}
	}
	return sum
}
