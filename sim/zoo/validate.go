// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

var classes = []string{"vision", "nlp", "speech", "recommendation"}

// Validate reports the first field that is out of range.
func (m *Model) Validate() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("%s = %v; want %s", field, value, want)
	}
	switch {
	case m.Name == "" || m.Name != strings.TrimSpace(m.Name):
		return bad("name", fmt.Sprintf("%q", m.Name), "a name without leading or trailing space")
	case !slices.Contains(classes, m.Class):
		return bad("class", fmt.Sprintf("%q", m.Class), fmt.Sprintf("one of %v", classes))
	case !finite(m.Iterations):
		return bad("iterations", m.Iterations, "0 (not known) or more")
	case m.Restart < 0:
		return bad("restart", m.Restart, "0 or more")
	case !(m.Interference >= 0 && m.Interference < 1):
		return bad("interference", m.Interference, "0 to less than 1")
	case !(m.GPUUtil >= 0 && m.GPUUtil <= 1):
		return bad("gpu_util", m.GPUUtil, "0 (not known) to 1")
	case m.GPUMemory < 0:
		return bad("gpu_memory", m.GPUMemory, "0 (not known) or more bytes")
	case m.MaxGPUs < 0:
		return bad("max_gpus", m.MaxGPUs, "0 (no bound) or more")
	}
	return m.validateSpeed()
}

func (m *Model) validateSpeed() error {
	if (m.Batch != goodput.Limits{}) || len(m.Throughput) > 0 {
		if err := m.Batch.Validate(); err != nil {
			return fmt.Errorf("batch.%w", err)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(m.Throughput)) {
		if err := m.Throughput[t].Validate(); err != nil {
			return fmt.Errorf("throughput.%s.%w", t, err)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(m.StepTime)) {
		if s := m.StepTime[t]; !finite(s) || s == 0 {
			return fmt.Errorf("step_time.%s = %v; want a number of seconds above 0", t, s)
		}
	}
	before := -1.0
	for i, p := range m.Noise {
		switch {
		case !(p.At > before && p.At >= 0 && p.At <= 1):
			return fmt.Errorf("noise[%d].at = %v; want shares of training, 0 to 1, in ascending order", i, p.At)
		case !finite(p.Phi) || p.Phi == 0:
			return fmt.Errorf("noise[%d].phi = %v; want a number of examples above 0", i, p.Phi)
		}
		before = p.At
	}
	if err := m.validateLoss(); err != nil {
		return err
	}
	least := 1.0
	for i, f := range m.Slowdown.levels() {
		if f == 0 { // left out
			continue
		}
		if !finite(f) || f < least {
			return fmt.Errorf("slowdown.%s = %v; want at least %v: 1 or more, and no less than a closer level",
				[4]string{"slot", "machine", "rack", "cross_rack"}[i], f, least)
		}
		least = f
	}
	return nil
}

func (m *Model) validateLoss() error {
	if !(m.LossScatter >= 0 && m.LossScatter < 1) {
		return fmt.Errorf("loss_scatter = %v; want 0 to less than 1", m.LossScatter)
	}
	before := 0.0
	for i, p := range m.Loss {
		switch {
		case !(p.At > before && p.At <= 1):
			return fmt.Errorf("loss[%d].at = %v; want shares of training, above 0 to 1, in ascending order", i, p.At)
		case !finite(p.Loss) || p.Loss == 0:
			return fmt.Errorf("loss[%d].loss = %v; want a number above 0", i, p.Loss)
		}
		before = p.At
	}
	return nil
}

// finite reports whether x is a number, 0 or more.
func finite(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
