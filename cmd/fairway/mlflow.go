// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
)

// mlflowStatus is how MLflow's files name the state of a run.
var mlflowStatus = map[string]int{api.Waiting: 2, api.Finished: 3, api.Failed: 4, api.Cancelled: 5}

const mlflowRunning = 1

// writeMLflow writes a job as a run into a folder that MLflow reads without a server
// (its file store): the app is the experiment. Written again, the run is replaced.
func writeMLflow(j api.Job, params map[string]string, list api.MetricList, folder string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(j.App))
	experiment := filepath.Join(folder, fmt.Sprintf("%x", sum[:9]))
	id := runID(j)
	run := filepath.Join(experiment, id)
	if err := os.RemoveAll(run); err != nil {
		return "", err
	}
	w := mlflowFiles{}
	for _, name := range []string{"metrics", "params", "tags", "artifacts"} {
		w.err = cmp.Or(w.err, os.MkdirAll(filepath.Join(run, name), 0o755))
	}
	// A line of JSON is YAML too.
	w.yaml(experiment, "artifact_location", "file://"+experiment, "experiment_id", filepath.Base(experiment), "lifecycle_stage", "active",
		"name", string(j.App), "creation_time", j.Submitted.UnixMilli(), "last_update_time", j.Submitted.UnixMilli())
	var ended any
	if !j.Ended.IsZero() {
		ended = j.Ended.UnixMilli()
	}
	began := j.Status.FirstStart
	if began.IsZero() {
		began = j.Submitted
	}
	w.yaml(run, "artifact_uri", "file://"+filepath.Join(run, "artifacts"), "experiment_id", filepath.Base(experiment), "lifecycle_stage", "active",
		"run_id", id, "run_uuid", id, "run_name", runName(j), "user_id", j.User, "start_time", began.UnixMilli(), "end_time", ended,
		"status", cmp.Or(mlflowStatus[j.State], mlflowRunning), "entry_point_name", "", "source_name", "", "source_type", 4, "source_version", "", "tags", []string{})
	for name, value := range map[string]string{
		"fairway.job": string(j.ID), "fairway.tenant": string(j.Tenant), "mlflow.user": j.User, "mlflow.runName": runName(j), "fairway.command": strings.Join(j.Command, " "),
	} {
		w.text(filepath.Join(run, "tags", name), value)
	}
	for name, value := range params {
		w.text(filepath.Join(run, "params", mlflowName(name)), value)
	}
	for i := range list.Metrics {
		s := &list.Metrics[i]
		var b strings.Builder
		for k := range s.Len() {
			p := s.Point(k)
			fmt.Fprintf(&b, "%d %s %d\n", fromUnix(p.At).UnixMilli(), strconv.FormatFloat(p.Value, 'g', -1, 64), int64(math.Round(p.Step)))
		}
		w.text(filepath.Join(run, "metrics", mlflowName(s.Name)), b.String())
	}
	return run, w.err
}

// runID names a job for trackers of experiments, the same whenever it is exported.
func runID(j api.Job) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", j.ID, j.Submitted.UnixNano()))
	return fmt.Sprintf("%x", sum[:16])
}

func runName(j api.Job) string { return cmp.Or(j.Name, string(j.ID)) }

// runParams returns what was chosen for a job, for trackers of experiments.
func runParams(ctx context.Context, daemon *client.Client, j api.Job) (map[string]string, error) {
	params := map[string]string{"gpus": strconv.Itoa(j.GPUs)}
	search, err := daemon.Search(ctx, j.App)
	if err != nil && api.CodeOf(err) != api.Unknown { // an app that is not a search
		return nil, err
	}
	for _, t := range search.Trials {
		if t.Job == j.ID {
			maps.Copy(params, t.Params)
		}
	}
	return params, nil
}

// mlflowFiles writes files until the first error.
type mlflowFiles struct{ err error }

func (w *mlflowFiles) text(path, text string) {
	if w.err == nil {
		w.err = os.WriteFile(path, []byte(text), 0o644)
	}
}

// yaml writes the description of a folder, from names and values.
func (w *mlflowFiles) yaml(folder string, pairs ...any) {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		value, err := json.Marshal(pairs[i+1])
		w.err = cmp.Or(w.err, err)
		fmt.Fprintf(&b, "%s: %s\n", pairs[i], value)
	}
	w.text(filepath.Join(folder, "meta.yaml"), b.String())
}

// mlflowName makes a name that MLflow takes, and that is a file of its folder.
func mlflowName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-. ", r) {
			return r
		}
		return '_'
	}, name)
	if strings.Trim(name, ".") == "" {
		return "_" + name
	}
	return name
}
