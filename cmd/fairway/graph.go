// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/predict"
	"github.com/fairway-gpu/fairway/predict/features"
	"github.com/fairway-gpu/fairway/predict/onnx"
	"github.com/fairway-gpu/fairway/sched"
)

// foresee fills in what the graphs of jobs say about their use of a GPU. What the
// user wrote stands. A graph that cannot be read is an error; a type of GPU that
// nobody can predict for is only said.
func foresee(c *cobra.Command, jobs []api.Submission, daemon *client.Client) error {
	for i := range jobs {
		j := &jobs[i]
		if j.Graph == "" || j.GPUUtil > 0 && j.GPUMemory > 0 {
			continue
		}
		gpu := ""
		if len(j.GPUTypes) > 0 {
			gpu = string(j.GPUTypes[0])
		} else if daemon != nil {
			gpu = gpuTypeOf(c.Context(), daemon)
		}
		model, err := predict.For(gpu)
		if err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "no prediction from %s: %v\n", clean(j.Graph), err)
			continue
		}
		if err := predictJob(c.ErrOrStderr(), j, model); err != nil {
			return fmt.Errorf("submit %s: graph %s: %w", nameOf(*j, i, len(jobs)), clean(j.Graph), err)
		}
	}
	return nil
}

// gpuTypeOf asks the daemon for the type of its GPUs; empty: unknown.
func gpuTypeOf(ctx context.Context, daemon *client.Client) string {
	nodes, err := daemon.Nodes(ctx)
	if err != nil || len(nodes) == 0 {
		return ""
	}
	return string(nodes[0].Type)
}

func predictJob(w io.Writer, j *api.Submission, model *predict.Model) error {
	path, err := filepath.Abs(j.Graph)
	if err != nil {
		return err
	}
	j.Graph = path
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	recipe, err := features.ParseRecipe(j.Recipe)
	if err != nil {
		return err
	}
	batch := int64(j.Batch.Initial) // of all GPUs together
	if n := int64(max(1, j.GPUs)); batch > 0 {
		batch = (batch + n - 1) / n
	}
	x, err := extract(file, onnx.Options{Batch: batch}, recipe)
	if err != nil {
		return err
	}
	p := model.Predict(x)
	seconds := func(s float64) sched.Duration {
		return sched.Duration(time.Duration(s * float64(time.Second)).Round(time.Microsecond))
	}
	j.Predicted = &api.PredictedUse{
		UtilLow: min(1, p.UtilLow/100), UtilHigh: min(1, p.UtilHigh/100), Memory: int64(p.Memory.Total) << 20,
		StepLow: seconds(p.StepLow), StepHigh: seconds(p.StepHigh),
	}
	if j.GPUUtil == 0 {
		j.GPUUtil = min(1, p.Util/100)
	}
	if j.GPUMemory == 0 {
		j.GPUMemory = int64(p.Memory.High) << 20
	}
	fmt.Fprintf(w, "predicted from %s for %s, batch %d on each GPU: utilisation %.0f %% (%.0f to %.0f), memory %s, %s booked (confidence %.0f %%)\n",
		filepath.Base(path), model.Device().Name, x.Batch, p.Util, p.UtilLow, p.UtilHigh, gibibytes(j.Predicted.Memory), gibibytes(j.GPUMemory), 100*p.Confidence)
	return nil
}

// sizeFlag is a flag of bytes with a unit.
type sizeFlag struct{ bytes *int64 }

func newSizeFlag(bytes *int64) sizeFlag { return sizeFlag{bytes} }

func (f sizeFlag) String() string {
	if f.bytes == nil {
		return "0"
	}
	return daemon.Size(*f.bytes).String()
}

func (f sizeFlag) Set(text string) error {
	var s daemon.Size
	if err := s.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	*f.bytes = int64(s)
	return nil
}

func (sizeFlag) Type() string { return "size" }
