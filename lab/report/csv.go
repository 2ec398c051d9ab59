// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/fairway-gpu/fairway/sim"
)

// column is one column of the CSV of jobs.
type column struct {
	name  string
	value func(j *sim.JobResult) string
}

// jobColumns are the columns after "policy": the fields of sim.JobResult under
// their JSON names, in their order, without the segments.
var jobColumns = []column{
	{"id", func(j *sim.JobResult) string { return string(j.ID) }},
	{"app", func(j *sim.JobResult) string { return string(j.App) }},
	{"tenant", func(j *sim.JobResult) string { return string(j.Tenant) }},
	{"model", func(j *sim.JobResult) string { return j.Model }},
	{"gpus", func(j *sim.JobResult) string { return strconv.Itoa(j.GPUs) }},
	{"submit_s", func(j *sim.JobResult) string { return decimal(j.Submit) }},
	{"start_s", func(j *sim.JobResult) string { return decimal(j.Start) }},
	{"end_s", func(j *sim.JobResult) string { return decimal(j.End) }},
	{"outcome", func(j *sim.JobResult) string { return j.Outcome.String() }},
	{"jct_s", func(j *sim.JobResult) string { return decimal(j.JCT) }},
	{"wait_s", func(j *sim.JobResult) string { return decimal(j.Wait) }},
	{"queued_s", func(j *sim.JobResult) string { return decimal(j.Queued) }},
	{"ran_s", func(j *sim.JobResult) string { return decimal(j.Ran) }},
	{"gpu_seconds", func(j *sim.JobResult) string { return decimal(j.GPUSeconds) }},
	{"restarts", func(j *sim.JobResult) string { return strconv.Itoa(j.Restarts) }},
	{"preemptions", func(j *sim.JobResult) string { return strconv.Itoa(j.Preemptions) }},
	{"moves", func(j *sim.JobResult) string { return strconv.Itoa(j.Moves) }},
	{"failures", func(j *sim.JobResult) string { return strconv.Itoa(j.Failures) }},
	{"rho", func(j *sim.JobResult) string { return decimal(j.Rho) }},
	{"rho_paper", func(j *sim.JobResult) string { return decimal(j.PaperRho) }},
	{"wait_for", func(j *sim.JobResult) string { return j.WaitFor.String() }},
	{"plain", func(j *sim.JobResult) string { return strconv.FormatBool(j.Plain) }},
	{"ettr", func(j *sim.JobResult) string { return decimal(j.ETTR) }},
}

// WriteCSV writes one line for each job of each run, in the order of the
// results, below a line of column names: policy, then the fields of
// sim.JobResult under their JSON names, except runs. Times are seconds; -1 means
// never, as in the result; NaN is an empty cell. The last column, ettr, is there only if
// hardware failed in a run.
func WriteCSV(w io.Writer, runs ...*sim.Result) error {
	out := csv.NewWriter(w)
	columns := jobColumns
	if !slices.ContainsFunc(runs, func(r *sim.Result) bool { return r.Hardware != nil }) {
		columns = columns[:len(columns)-1]
	}
	line := []string{"policy"}
	for _, c := range columns {
		line = append(line, c.name)
	}
	if err := out.Write(line); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	for _, r := range runs {
		for i := range r.Jobs {
			line = append(line[:0], r.Policy)
			for _, c := range columns {
				line = append(line, c.value(&r.Jobs[i]))
			}
			if err := out.Write(line); err != nil {
				return fmt.Errorf("write csv of %s: %w", r.Policy, err)
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	return nil
}

func decimal(v float64) string {
	if !finite(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
