// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
)

// bounds are the limits for figures. Zero: no limit.
type bounds struct {
	Nodes int               `json:"nodes"` // of the runs that the bounds are for
	Jobs  int               `json:"jobs"`
	Kind  string            `json:"kind"`
	Modes map[string]limits `json:"modes"`
}

// limits are the bounds of one mode.
type limits struct {
	JobsBoundMin int     `json:"jobs_bound_min"`
	JobsPerSMin  float64 `json:"jobs_per_s_min"`
	WaitP50Max   float64 `json:"wait_p50_s_max"`
	WaitP99Max   float64 `json:"wait_p99_s_max"`
	DecideP99Max float64 `json:"decide_p99_ms_max"`
	PeakMiBMax   float64 `json:"peak_mib_max"`
	PerJobMax    float64 `json:"scheduler_requests_per_job_max"`
	WritesMax    float64 `json:"writes_per_job_max"`
}

//go:embed bounds.json
var standardBounds []byte

// readBounds reads a file of bounds; an empty path means the standard ones.
func readBounds(path string) (bounds, error) {
	text := standardBounds
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return bounds{}, fmt.Errorf("read bounds: %w", err)
		}
	}
	var b bounds
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return bounds{}, fmt.Errorf("read bounds %s: %w", path, err)
	}
	return b, nil
}

// faults returns the figures of a run that are out of bounds.
func (b bounds) faults(r *result) []string {
	l := b.Modes[r.Mode]
	var out []string
	for _, x := range []struct {
		name        string
		value       float64
		least, most float64
	}{
		{"jobs bound", float64(r.JobsBound), float64(l.JobsBoundMin), 0},
		{"jobs bound per second", r.JobsPerS, l.JobsPerSMin, 0},
		{"submit to bound p50 (s)", r.WaitP50S, 0, l.WaitP50Max},
		{"submit to bound p99 (s)", r.WaitP99S, 0, l.WaitP99Max},
		{"decision p99 (ms)", r.DecideP99, 0, l.DecideP99Max},
		{"peak memory (MiB)", r.PeakMiB, 0, l.PeakMiBMax},
		{"requests per job", r.PerJob, 0, l.PerJobMax},
		{"writes per job", r.WritesJobS, 0, l.WritesMax},
	} {
		switch {
		case x.least > 0 && x.value < x.least:
			out = append(out, fmt.Sprintf("%s %s: %s is %.4g; want at least %g", r.Scheduler, r.Mode, x.name, x.value, x.least))
		case x.most > 0 && x.value > x.most:
			out = append(out, fmt.Sprintf("%s %s: %s is %.4g; want at most %g", r.Scheduler, r.Mode, x.name, x.value, x.most))
		}
	}
	return out
}
