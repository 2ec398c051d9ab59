// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/repro"
	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/interfere/learn"
)

func newInterfere() *cobra.Command {
	c := &cobra.Command{
		Use:   "interfere",
		Short: "Predict how much jobs that share a GPU slow each other down",
		Long: `Predict how much jobs that share a GPU slow each other down, from each job's GPU
utilisation and step time when alone. See docs/interference.md.`,
		Example: `  fairway interfere ask 35@2.7 100@50
  fairway interfere evaluate --data lab/profiling/data
  fairway interfere fit --data lab/profiling/data --gpu h200 --out policy/interfere/models/h200.json
  fairway interfere import --data lucid`,
	}
	c.AddCommand(newInterfereAsk(), newInterfereFit(), newInterfereEvaluate(), newInterfereImport())
	return c
}

// pairsFlags say which measurements to read.
type pairsFlags struct{ data, gpu string }

func (f *pairsFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.data, "data", "", "folder with NAME-pairs.csv and NAME-solo.csv (see lab/profiling/README.md)")
	c.Flags().StringVar(&f.gpu, "gpu", "h200", "GPU type, the NAME of the files")
}

func (f *pairsFlags) read() ([]learn.Pair, error) {
	if f.data == "" {
		return nil, usagef("--data is missing: name the folder with the measurements, such as lab/profiling/data")
	}
	return learn.Read(os.DirFS(f.data), f.gpu)
}

// predicted returns what is predicted of the measured jobs from their graphs, by
// predictors that have not seen them; nil without the figures of the graphs.
func (f *pairsFlags) predicted() (map[learn.Key]interfere.Load, error) {
	folder := os.DirFS(f.data)
	if _, err := fs.Stat(folder, f.gpu+"-features.csv"); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	p, err := repro.RunHorusPrediction(folder, f.gpu)
	if err != nil {
		return nil, err
	}
	return p.Loads(), nil
}

func newInterfereEvaluate() *cobra.Command {
	var in pairsFlags
	var of string
	var asJSON bool
	c := &cobra.Command{
		Use:   "evaluate --data DIR",
		Short: "Cross-validate the interference model on measured pairs",
		Long: `Predict the slowdown of measured pairs with models fitted to other pairs, and print the
error: with utilisation and step time as measured alone, with noise added as if they had
been predicted, and predicted from graphs where the folder has their features
(NAME-features.csv). "safe" means that both jobs slow down by less than 15 %. Split by
models, neither model of a pair is in the training set; split by pairs, they may be.
"faster" counts pairs called safe in which a job sped up by as much as would be unsafe as
a slowdown: sharing cannot cause that, so it shows the measurement error. With --of, only
list the measured pairs of a model.`,
		Example: `  fairway interfere evaluate --data lab/profiling/data
  fairway interfere evaluate --data lab/profiling/data --of efficientnet
  fairway interfere evaluate --data lab/profiling/data --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			pairs, err := in.read()
			if err != nil {
				return err
			}
			if of != "" {
				return printPairs(c.OutOrStdout(), slices.DeleteFunc(pairs, func(p learn.Pair) bool {
					return !strings.Contains(p.Sides[0].Model, of) && !strings.Contains(p.Sides[1].Model, of)
				}))
			}
			predicted, err := in.predicted()
			if err != nil {
				return err
			}
			report, err := learn.Compare(pairs, predicted)
			if err != nil {
				return err
			}
			sets, err := learn.ReadSets(os.DirFS(in.data), in.gpu)
			if err != nil {
				return err
			}
			if len(sets) > 0 {
				m, err := learn.Model(pairs, in.gpu, "")
				if err != nil {
					return err
				}
				report.Triples = learn.Triples(sets, m)
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(report)
			}
			return printInterference(c.OutOrStdout(), report)
		},
	}
	in.register(c)
	c.Flags().StringVar(&of, "of", "", "list the pairs of models whose name contains this")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printInterference(w io.Writer, r *learn.Report) error {
	fmt.Fprintf(w, "Cross-validation on measured pairs; safe: both jobs slow down by less than %.0f %%\n\n", 100*(r.Limit-1))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "mode\tinputs\tsplit by\tmethod\tpairs\tmean abs error\tln\tbelow bound\tsafe\tcalled safe\tprecision\tfaster\trecall\tby mean\tprecision\t")
	for _, s := range r.Scores {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%.3f\t%.3f\t%.1f %%\t%d\t%d\t%s\t%d\t%s\t%d\t%s\t\n",
			s.Mode, s.Inputs, s.Split, s.Method, s.Pairs, s.AbsError, s.AbsLog, 100*s.Covered,
			s.Safe, s.Called, shareText(s.Precision()), s.Faster, shareText(s.Recall()), s.Hopeful, shareText(float64(s.Kept)/float64(s.Hopeful)))
	}
	if err := t.Flush(); err != nil || len(r.Ways) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nTime-sliced pairs, measured, split by models, called safe by a bound below:")
	c := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(c, "limit\tcalled safe\tprecision\trecall\t")
	for _, cut := range r.Cuts {
		fmt.Fprintf(c, "%.3f\t%d\t%s\t%s\t\n", cut.Limit, cut.Called, share(cut.Right, cut.Called), share(cut.Right, r.Scores[0].Safe))
	}
	if err := c.Flush(); err != nil {
		return err
	}
	if err := printTriples(w, r.Triples); err != nil {
		return err
	}
	low, high, all, faster := r.AllWays()
	_, err := fmt.Fprintf(w, "\n%d other splits by model: precision %s to %s, %s overall; in %s of the pairs called safe a job sped up by as much\n",
		len(r.Ways), shareText(low), shareText(high), shareText(all), shareText(faster))
	return err
}

func printTriples(w io.Writer, scores []learn.TripleScore) error {
	if len(scores) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nThree jobs on a GPU, time-sliced: %d triples\n", scores[0].Triples)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "method\tmean abs error\tln\tbias\tsafe\tcalled safe\tprecision\trecall\t")
	for _, s := range scores {
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%+.3f\t%d\t%d\t%s\t%s\t\n", s.Method, s.AbsError, s.AbsLog, s.Bias, s.Safe, s.Called, share(s.Right, s.Called), share(s.Right, s.Safe))
	}
	return t.Flush()
}
