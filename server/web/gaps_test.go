// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"os/exec"
	"strings"
	"testing"
)

// TestGaps: a line of the job page has a gap from where the job stopped to its next
// step, also where a move took no GPUs away in between.
func TestGaps(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED: no node to run the dashboard's code")
	}
	const script = `
import { withGaps } from './scale.js';
const at = (s) => new Date(1000 * s).toISOString();
const ledger = [
  { at: at(0), verb: 'start', from_gpus: 0, to_gpus: 1 },
  { at: at(10), verb: 'move', from_gpus: 1, to_gpus: 2, away_s: 55 },
  { at: at(80), verb: 'preempt', from_gpus: 2, to_gpus: 0, away_s: 20 },
  { at: at(85), verb: 'start', from_gpus: 0, to_gpus: 2 },
  { at: at(120), verb: 'move', from_gpus: 2, to_gpus: 1, ongoing: true, away_s: 3 },
];
const points = [5, 11, 40, 65, 70, 81, 90, 100, 110, 121].map((s) => [1000 * s, s]);
console.log(withGaps(points, ledger).map(([t, v]) => t / 1000 + (v === null ? ' gap' : '')).join(', '));`
	run := exec.Command(node, "--input-type=module", "--eval", script)
	out, err := run.CombinedOutput()
	if got, want := strings.TrimSpace(string(out)), "5, 10 gap, 65, 70, 80 gap, 100, 110, 120 gap"; err != nil || got != want {
		t.Errorf("got  %s\nwant %s\n%v", got, want, err)
	}
}
