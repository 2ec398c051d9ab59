// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/fairway-gpu/fairway/api"
)

//go:embed wandb.py
var wandbScript string

// logWandb logs a job as a run of W&B, by the package of the active Python: it knows the
// server and the key, or writes files for later (WANDB_MODE=offline). Logged again, the run
// is replaced.
func logWandb(ctx context.Context, j api.Job, params map[string]string, list api.MetricList, project string, out, said io.Writer) error {
	code := 0
	if j.State == api.Failed || j.State == api.Cancelled {
		code = 1
	}
	run, err := json.Marshal(map[string]any{
		"project": project, "id": runID(j), "name": runName(j), "app": j.App, "params": params, "metrics": list.Metrics, "code": code,
		"notes": fmt.Sprintf("job %s of Fairway, by %s: %s", j.ID, j.User, strings.Join(j.Command, " ")),
	})
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "python3", "-c", wandbScript)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(run), out, said
	if err := c.Run(); err != nil {
		return fmt.Errorf("log %s to W&B: %w", j.ID, err)
	}
	return nil
}
