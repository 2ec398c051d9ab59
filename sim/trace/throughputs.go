// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/sim"
)

// maxThroughputs bounds the size of a file of throughputs; Gavel's has 1.2 MB.
const maxThroughputs = 64 << 20

// ReadThroughputs reads measured throughputs in the format of Gavel (OSDI'20;
// simulation_throughputs.json): steps per second by GPU type and kind of job, alone
// ("null") and beside another kind on the same GPUs (of both).
//
//	{"v100": {"('ResNet-50 (batch size 64)', 1)": {
//	    "null": 4.39,
//	    "('A3C', 1)": [2.2, 3.1]}}}
//
// A kind is a job_type of the traces and a number of GPUs. GPU types with the suffix
// _unconsolidated are for jobs on several nodes. 0 means that the job, or the pair,
// cannot run there.
func ReadThroughputs(r io.Reader) (*sim.Throughputs, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxThroughputs+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxThroughputs {
		return nil, fmt.Errorf("the file is larger than %d MiB", maxThroughputs>>20)
	}
	var file map[string]map[string]map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("want throughputs by GPU type, kind of job and other kind: %w", err)
	}
	out := &sim.Throughputs{}
	for _, gpuType := range slices.Sorted(maps.Keys(file)) {
		if err := addType(out, gpuType, file[gpuType]); err != nil {
			return nil, fmt.Errorf("%.40q: %w", gpuType, err)
		}
	}
	return out, nil
}

// addType adds the throughputs on a GPU type: of all kinds alone, and then of pairs.
func addType(out *sim.Throughputs, gpuType string, of map[string]map[string]json.RawMessage) error {
	names := slices.Sorted(maps.Keys(of))
	for _, name := range names {
		k, err := gavelKind(name)
		if err != nil {
			return err
		}
		steps, err := numbers(of[name]["null"], 1)
		if err != nil {
			return fmt.Errorf("%.80q alone: %w", name, err)
		}
		out.Add(gpuType, k, steps[0])
	}
	for _, name := range names {
		k, _ := gavelKind(name)
		for _, beside := range slices.Sorted(maps.Keys(of[name])) {
			if beside == "null" {
				continue
			}
			other, err := gavelKind(beside)
			if err != nil {
				return err
			}
			both, err := numbers(of[name][beside], 2)
			if err != nil {
				return fmt.Errorf("%.80q beside %.80q: %w", name, beside, err)
			}
			if alone, _ := out.Alone(gpuType, k); alone > 0 {
				out.AddPair(gpuType, k, other, both[0])
			}
		}
	}
	return nil
}

// numbers reads a number, or a list of them.
func numbers(text json.RawMessage, n int) ([]float64, error) {
	if n == 1 {
		text = bytes.Join([][]byte{[]byte("["), text, []byte("]")}, nil)
	}
	var out []float64
	if err := json.Unmarshal(text, &out); err != nil || len(out) != n {
		return nil, fmt.Errorf("%.40q; want %d of steps per second", text, n)
	}
	for _, x := range out {
		if !(x >= 0 && x <= 1e9) {
			return nil, fmt.Errorf("%g; want 0 to 1e9 steps per second", x)
		}
	}
	return out, nil
}

// gavelKind parses "('ResNet-50 (batch size 64)', 2)".
func gavelKind(text string) (sim.Kind, error) {
	bad := fmt.Errorf(`%.80q; want a kind of job such as "('ResNet-50 (batch size 64)', 2)"`, text)
	rest, ok1 := strings.CutPrefix(text, "('")
	rest, ok2 := strings.CutSuffix(rest, ")")
	i := strings.LastIndex(rest, "', ")
	if !ok1 || !ok2 || i < 0 {
		return sim.Kind{}, bad
	}
	gpus, err := strconv.Atoi(rest[i+len("', "):])
	name, batch := gavelType(rest[:i])
	model := zooName(name)
	if err != nil || gpus < 1 || gpus > maxCount || model == "" {
		return sim.Kind{}, bad
	}
	return sim.Kind{Model: model, Batch: min(batch, maxCount) * gpus, GPUs: gpus}, nil
}
