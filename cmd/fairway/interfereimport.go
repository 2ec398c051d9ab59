// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/interfere/learn"
)

func newInterfereImport() *cobra.Command {
	var data, gpu string
	var asJSON bool
	c := &cobra.Command{
		Use:   "import --data DIR",
		Short: "Judge the interference model by the pairs published with Lucid",
		Long: `Read the pairs that the authors of Lucid (ASPLOS'23) measured on an RTX 3090
(single_data.csv and colocate_info.csv), predict them with a model that was fitted
to other pairs on another GPU, and print how many of the pairs called safe are. A job is
safe at 85 % of its speed alone. "both" counts pairs of which both jobs are, "mean" those
whose mean speed is, "faster" those in which a job was faster together by as much as
would be unsafe if it were slower: sharing cannot cause that, so it shows the measurement
error. Then it lists the pairs that the loosest limit wrongly calls safe. Nothing is
fitted to these pairs.`,
		Example: `  fairway interfere import --data lucid`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if data == "" {
				return usagef("--data is missing: name the folder with single_data.csv and colocate_info.csv")
			}
			p, err := learn.ReadPublished(os.DirFS(data))
			if err != nil {
				return err
			}
			m, err := interfere.Default(strings.ToLower(gpu))
			if err != nil {
				return err
			}
			t := p.Judge(m)
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(t)
			}
			return printTransfer(c.OutOrStdout(), t, m)
		},
	}
	c.Flags().StringVar(&data, "data", "", "folder with the published files")
	c.Flags().StringVar(&gpu, "gpu", "h200", "GPU type whose model predicts")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printTransfer(w io.Writer, t *learn.Transfer, m *interfere.Model) error {
	fmt.Fprintf(w, "%d published pairs, predicted as measured on %s; both jobs keep %.0f %% of their speed in %d, their mean in %d\n\n",
		t.Pairs, m.GPU, 100*t.Speed, t.Safe, t.Mean)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "method\tlimit\tcalled safe\tprecision: both\trecall\tfaster\tprecision: mean\trecall\t")
	for _, c := range t.Cuts {
		limit := "-"
		if c.Limit > 0 {
			limit = fmt.Sprintf("%.3f", c.Limit)
		}
		fmt.Fprintf(out, "%s\t%s\t%d\t%s\t%s\t%d\t%s\t%s\t\n", c.Method, limit, c.Called,
			share(c.Right, c.Called), share(c.Right, t.Safe), c.Faster, share(c.Mean, c.Called), share(c.Mean, t.Mean))
	}
	if err := out.Flush(); err != nil || len(t.Wrong) == 0 {
		return err
	}
	fmt.Fprintf(w, "\nThe pairs that the first rule wrongly calls safe:\n")
	return printPairs(w, t.Wrong)
}

// printPairs lists pairs: how busy each job keeps the GPU alone, and how much longer its
// steps take together.
func printPairs(w io.Writer, pairs []learn.Pair) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "mode\tjob\tbusy\tslowdown\tbeside\tbusy\tslowdown\tbusy together\t")
	for _, p := range pairs {
		fmt.Fprintf(out, "%s\t", p.Mode)
		for _, s := range p.Sides {
			fmt.Fprintf(out, "%s/%d\t%.1f %%\t%.2f\t", s.Model, s.Batch, 100*s.Load.Util, s.Slowdown)
		}
		fmt.Fprintf(out, "%.1f %%\t\n", 100*(p.Sides[0].Load.Util+p.Sides[1].Load.Util))
	}
	return out.Flush()
}

// share prints a part of a number, or a dash where there is nothing to share.
func share(part, of int) string { return shareText(float64(part) / float64(of)) }

// shareText prints a share, or a dash where there is nothing to share.
func shareText(share float64) string {
	if math.IsNaN(share) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}
