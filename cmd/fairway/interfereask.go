// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// asked is a job and what sharing a GPU with the others does to it.
type asked struct {
	Util     float64 `json:"gpu_util"`          // percent
	Step     float64 `json:"step_ms,omitempty"` // 0: unknown
	Slowdown float64 `json:"slowdown"`
	High     float64 `json:"slowdown_high"`
}

// answer is what "fairway interfere ask" prints.
type answer struct {
	GPU   string  `json:"gpu"` // whose measurements these are
	Mode  string  `json:"mode"`
	Limit float64 `json:"limit"`
	Safe  bool    `json:"safe"`
	Jobs  []asked `json:"jobs"`
}

func newInterfereAsk() *cobra.Command {
	var gpu, mode string
	limit := interfere.DefaultLimit
	var asJSON bool
	c := &cobra.Command{
		Use:   "ask UTIL[@STEP_MS] UTIL[@STEP_MS]...",
		Short: "Predict the slowdown of jobs on one GPU",
		Long: `Predict how much jobs would slow each other down on one GPU. Give each job's GPU
utilisation when alone, in percent and, after an @, its step time in milliseconds if known.`,
		Example: `  fairway interfere ask 35@2.7 100@50
  fairway interfere ask --mode mps --json 25@3 30@20`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			how, err := interfere.ParseMode(mode)
			if err != nil {
				return usagef("--mode: %w", err)
			}
			jobs := make([]interfere.Load, len(args))
			for i, a := range args {
				if jobs[i], err = parseLoad(a); err != nil {
					return usageError{err}
				}
			}
			m, err := interfere.Default(strings.ToLower(gpu))
			if err != nil {
				return err
			}
			out := ask(m, how, limit, jobs)
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(out)
			}
			return out.print(c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&gpu, "gpu", "h200", "GPU type")
	c.Flags().StringVar(&mode, "mode", interfere.TimeSlice.String(), "how the GPU is shared: time-slice or mps")
	c.Flags().Float64Var(&limit, "limit", limit, "slowdown below which sharing is safe")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func parseLoad(text string) (interfere.Load, error) {
	percent, step, timed := strings.Cut(text, "@")
	util, err := strconv.ParseFloat(percent, 64)
	if err != nil || !(util > 0 && util <= 100) {
		return interfere.Load{}, fmt.Errorf("job %q: utilisation %q; want percent above 0 and up to 100, such as 35 or 35@2.7", text, percent)
	}
	l := interfere.Load{Util: util / 100}
	if timed {
		ms, err := strconv.ParseFloat(step, 64)
		if err != nil || !(ms > 0 && ms <= 1e6) {
			return l, fmt.Errorf("job %q: step %q; want milliseconds, such as 35@2.7", text, step)
		}
		l.Step = ms / 1000
	}
	return l, nil
}

func ask(m *interfere.Model, mode interfere.Mode, limit float64, jobs []interfere.Load) answer {
	out := answer{GPU: m.GPU, Mode: mode.String(), Limit: limit, Safe: m.Safe(mode, limit, jobs)}
	for i, own := range jobs {
		others := append(append([]interfere.Load{}, jobs[:i]...), jobs[i+1:]...)
		e := m.Slowdown(mode, own, others)
		out.Jobs = append(out.Jobs, asked{Util: 100 * own.Util, Step: 1000 * own.Step, Slowdown: e.Mean, High: e.High})
	}
	return out
}

func (a answer) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "job\tutilisation\tstep\tslowdown\t95 % below\t")
	for i, j := range a.Jobs {
		step := "unknown"
		if j.Step > 0 {
			step = fmt.Sprintf("%.4g ms", j.Step)
		}
		fmt.Fprintf(t, "%d\t%.4g %%\t%s\t%.2f\t%.2f\t\n", i+1, j.Util, step, j.Slowdown, j.High)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := "safe"
	if !a.Safe {
		verdict = "not safe"
	}
	_, err := fmt.Fprintf(w, "\n%s together (limit %.2f, %s, as measured on %s)\n", verdict, a.Limit, a.Mode, a.GPU)
	return err
}
