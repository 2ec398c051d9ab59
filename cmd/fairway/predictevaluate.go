// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/predict"
)

func newPredictEvaluate() *cobra.Command {
	var data, gpu, since string
	var asJSON bool
	c := &cobra.Command{
		Use:   "evaluate --data DIR",
		Short: "Cross-validate the prediction model",
		Long: `Cross-validate: predict every model with a model trained without it, and again with
one trained without its whole family. Prints the RMSLE of utilisation by method, the
coverage of the intervals, and the errors of step time and memory. With --since,
models measured in that session or later are also predicted from earlier measurements.`,
		Example: `  fairway predict evaluate --data lab/profiling/data
  fairway predict evaluate --data lab/profiling/data --since 20261115T215718Z`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if data == "" {
				return usagef("--data is missing: name the folder of the tables")
			}
			samples, _, err := predict.ReadSamples(os.DirFS(data), gpu)
			if err != nil {
				return fmt.Errorf("predict evaluate: %w", err)
			}
			e, err := predict.Evaluate(samples, gpu)
			if err != nil {
				return fmt.Errorf("predict evaluate: %w", err)
			}
			if since != "" {
				if e.Later, err = predict.Later(samples, gpu, since); err != nil {
					return fmt.Errorf("predict evaluate: %w", err)
				}
			}
			if e.Recipes, err = evaluateRecipes(samples, data, gpu); err != nil {
				return fmt.Errorf("predict evaluate: %w", err)
			}
			if e.Parts, err = evaluateParts(samples, data, gpu); err != nil {
				return fmt.Errorf("predict evaluate: %w", err)
			}
			if e.Steps, err = evaluateSteps(samples, data, gpu); err != nil {
				return fmt.Errorf("predict evaluate: %w", err)
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(e)
			}
			return printEvaluation(c.OutOrStdout(), e)
		},
	}
	c.Flags().StringVar(&data, "data", "", "folder with NAME-solo.csv and NAME-features.csv")
	c.Flags().StringVar(&gpu, "gpu", "h200", "GPU type, the NAME of the tables")
	c.Flags().StringVar(&since, "since", "", "also predict measurements from this `session` on from earlier ones")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// evaluateRecipes predicts measured recipes; nil if the folder has none.
func evaluateRecipes(samples []predict.Sample, data, gpu string) (*predict.RecipeErrors, error) {
	recipes, _, err := predict.ReadRecipes(os.DirFS(data), gpu)
	if err != nil || len(recipes) == 0 {
		return nil, err
	}
	m, err := predict.Train(samples, gpu)
	if err != nil {
		return nil, err
	}
	e, err := predict.EvaluateRecipes(m, recipes)
	return &e, err
}

// evaluateParts predicts measured parts of a GPU; nil if the folder has none.
func evaluateParts(samples []predict.Sample, data, gpu string) (*predict.PartErrors, error) {
	parts, err := predict.ReadParts(os.DirFS(data), gpu)
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	return predict.EvaluateParts(parts, samples, gpu)
}

// evaluateSteps predicts steps whose spread was measured; nil if the folder has none.
func evaluateSteps(samples []predict.Sample, data, gpu string) (*predict.StepsErrors, error) {
	steps, err := predict.ReadSteps(os.DirFS(data), gpu)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	return predict.EvaluateSteps(steps, samples)
}

func printEvaluation(w io.Writer, e *predict.Evaluation) error {
	fmt.Fprintf(w, "%s: %d steps of %d models in %d families, held out\n\n", e.GPU, e.Rows, e.Models, e.Families)
	model, family := e.Splits[0], e.Splits[1]
	if err := printSplits(w, []string{"by model", "by family"}, e.Splits); err != nil {
		return err
	}
	if len(e.Later) > 0 {
		fmt.Fprintf(w, "\n%d later steps, predicted from earlier ones\n\n", len(e.Later[0].Tests))
		var heads []string
		for _, s := range e.Later {
			heads = append(heads, s.By)
		}
		if err := printSplits(w, heads, e.Later); err != nil {
			return err
		}
	}
	if r := e.Recipes; r != nil {
		fmt.Fprintf(w, "\n%d steps of %d models with mixed precision, Adam or recomputed layers, each model held out\n", r.Rows, r.Models)
		kinds := r.Kinds
		if r.Compiled != nil {
			kinds = append(slices.Clone(kinds), *r.Compiled)
		}
		for _, k := range kinds {
			fmt.Fprintf(w, "%s, %d steps of %d: utilisation RMSLE %.3f, after the first steps %.3f; step time median error %.1f %%, RMSLE %.3f; memory median error %.1f %%, within 15 %% %.1f %%, more than 10 %% under %.1f %% of steps\n",
				k.Kind, k.Rows, k.Models, k.RMSLE, k.After, 100*k.Step.Median, k.Step.RMSLE, 100*k.Memory.Median, 100*k.Memory.RowsWithin15, 100*k.Memory.RowsUnder10)
		}
	}
	if p := e.Parts; p != nil {
		fmt.Fprintf(w, "\n%d steps of %d models with a part of the GPU's threads, each model held out: utilisation RMSLE %.3f; step time median error %.1f %%, RMSLE %.3f; how much longer it takes than with all threads, median error %.1f %%, RMSLE %.3f (%.3f if that were ignored)\n",
			p.Rows, p.Models, p.RMSLE, 100*p.Step.Median, p.Step.RMSLE, 100*p.Longer.Median, p.Longer.RMSLE, p.Ignored)
	}
	if s := e.Steps; s != nil {
		percent := func(spread float64) float64 { return 100 * math.Expm1(spread) }
		fmt.Fprintf(w, "\n%d steps of %d models on a host of unknown speed, each model held out: utilisation RMSLE %.3f before the job runs, %.3f by the mean of its first steps, %.3f by their mean and spread\n",
			s.Rows, s.Models, s.Before, s.ByMean, s.BySteps)
		fmt.Fprintf(w, "the 90th percentile of steps is above the 10th by %.1f %% (median) where the GPU limits them, by %.1f %% where the host does; %d steps are called even, below %.1f %%, and the GPU is busy at least %.1f %% of the time in them\n",
			percent(s.Busy), percent(s.Waits), s.Even, percent(s.Below), s.Least)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w)
	fmt.Fprintln(t, "family\tsteps\tRMSLE by model\tby family")
	for _, f := range model.Families {
		i := slices.IndexFunc(family.Families, func(o predict.FamilyError) bool { return o.Family == f.Family })
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\n", f.Family, f.Rows, f.RMSLE, family.Families[i].RMSLE)
	}
	return t.Flush()
}

// printSplits writes a column for every split, and the paper's beside them.
func printSplits(w io.Writer, heads []string, splits []predict.Split) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\t%s\tHorus\n", strings.Join(heads, "\t"))
	row := func(label, format, paper string, figure func(predict.Split) float64) {
		fmt.Fprint(t, label)
		for _, s := range splits {
			fmt.Fprintf(t, "\t"+format, figure(s))
		}
		fmt.Fprintf(t, "\t%s\n", paper)
	}
	for _, method := range predict.Methods() {
		paper := ""
		switch method {
		case predict.Linear:
			paper = fmt.Sprintf("%.3f (linear)", predict.PaperLinear)
		case predict.PhysicsTrees:
			paper = fmt.Sprintf("%.3f (its best)", predict.PaperBest)
		}
		row("utilisation, RMSLE: "+method, "%.3f", paper, func(s predict.Split) float64 { return s.RMSLE[method] })
	}
	for _, f := range predict.Figures() {
		row(f.What, f.Format, "", f.Of)
	}
	return t.Flush()
}

func newPredictHostSpeed() *cobra.Command {
	var data, gpu, solo string
	c := &cobra.Command{
		Use:   "host-speed --data DIR --solo FILE",
		Short: "Compute --host-speed from a minute of measurements",
		Long: `Compare step times measured on your machine with those predicted for the average
measured host, and print the value for --host-speed. Small batches of a few models are
enough: steps that keep the GPU busy say nothing about the host.`,
		Example: `  python3 lab/profiling/measure.py solo --gpu mine --data . --max-batches 2 --window 2 \
    --only 'cifar-resnet20|gpt-mini|unet-16|speech-transformer-tiny|translator-small'
  fairway predict host-speed --data lab/profiling/data --solo mine-solo.csv
  fairway predict model.onnx --batch 16 --host-speed 1.2`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if data == "" || solo == "" {
				return usagef("--data and --solo are required: the folder with NAME-features.csv and your measurements")
			}
			pace, err := hostPace(data, gpu, solo)
			if err != nil {
				return fmt.Errorf("predict host-speed: %w", err)
			}
			if pace.Steps == 0 {
				return fmt.Errorf("predict host-speed: no step in %s is host-bound; measure small batches of small models", solo)
			}
			fmt.Fprintf(c.OutOrStdout(), "--host-speed %.2f\n", 1/pace.Factor)
			fmt.Fprintf(c.ErrOrStderr(), "from %d host-bound steps, which vary by %.0f %%\n", pace.Steps, 100*pace.Spread)
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", "", "folder with NAME-features.csv")
	c.Flags().StringVar(&gpu, "gpu", "h200", "GPU type, the NAME of the tables")
	c.Flags().StringVar(&solo, "solo", "", "measurements made on the host")
	return c
}

func hostPace(data, gpu, solo string) (predict.HostPace, error) {
	f, err := os.Open(solo)
	if err != nil {
		return predict.HostPace{}, err
	}
	defer f.Close()
	samples, _, err := predict.ReadSamplesOf(os.DirFS(data), gpu, filepath.Base(solo), f)
	if err != nil {
		return predict.HostPace{}, err
	}
	m, err := predict.For(gpu)
	if err != nil {
		return predict.HostPace{}, err
	}
	return m.HostOf(samples), nil
}
