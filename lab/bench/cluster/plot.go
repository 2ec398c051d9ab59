// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/fairway-gpu/fairway/lab/repro"
)

// plot writes the charts of all runs.
func plot(folder string, all []*result) error {
	bound := repro.Chart{Title: "Jobs bound", X: "seconds since the first submission", Y: "jobs"}
	decide := repro.Chart{Title: "Decision time (p99) by nodes", X: "nodes", Y: "milliseconds", LogX: true}
	speed := repro.Chart{Title: "Throughput by nodes", X: "nodes", Y: "jobs bound per second", LogX: true}
	lines := map[string]int{}
	for _, r := range all {
		bound.Lines = append(bound.Lines, repro.Line{Name: fmt.Sprintf("%s %s, %s, %d nodes", r.Scheduler, r.Mode, r.Kind, r.Nodes), Points: thin(r.curve)})
		name := fmt.Sprintf("%s %s, %s", r.Scheduler, r.Mode, r.Kind)
		i, known := lines[name]
		if !known {
			i = len(lines)
			lines[name] = i
			decide.Lines, speed.Lines = append(decide.Lines, repro.Line{Name: name}), append(speed.Lines, repro.Line{Name: name})
		}
		decide.Lines[i].Points = append(decide.Lines[i].Points, [2]float64{float64(r.Nodes), r.DecideP99})
		speed.Lines[i].Points = append(speed.Lines[i].Points, [2]float64{float64(r.Nodes), r.JobsPerS})
	}
	charts := map[string]repro.Chart{"bound.svg": bound}
	if len(all) > len(lines) {
		charts["growth-decision.svg"], charts["growth-throughput.svg"] = decide, speed
	}
	for name, c := range charts {
		if err := writeChart(filepath.Join(folder, name), c); err != nil {
			return err
		}
	}
	return nil
}

func writeChart(path string, c repro.Chart) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write chart: %w", err)
	}
	defer f.Close()
	if err := c.Write(f); err != nil {
		return fmt.Errorf("write chart %s: %w", path, err)
	}
	return f.Close()
}

// thin keeps as many points of a curve as a chart can show.
func thin(points [][2]float64) [][2]float64 {
	const most = 400
	if len(points) <= most {
		return points
	}
	var out [][2]float64
	for i := range most {
		out = append(out, points[i*(len(points)-1)/(most-1)])
	}
	return out
}
