// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/policy/interfere/learn"
)

// fitFlags say what to fit and what to write.
type fitFlags struct {
	pairsFlags
	out, pairs, name string
	hold             float64
}

func newInterfereFit() *cobra.Command {
	var f fitFlags
	c := &cobra.Command{
		Use:   "fit --data DIR",
		Short: "Fit the interference model of a GPU type",
		Long: `Fit the interference model of a GPU type to pairs measured by lab/profiling/measure.py.
The same pairs give the same file, byte for byte. The built-in model is
policy/interfere/models/h200.json; rebuild Fairway after replacing it. --pairs also writes
the pairs themselves, pooled and merged, by which the simulator slows jobs down. With
--hold-out the model is fitted to a part of the pairs, and --pairs writes the others, to
judge policies by what their model has not seen.`,
		Example: `  fairway interfere fit --data lab/profiling/data --out policy/interfere/models/h200.json \
      --pairs policy/interfere/learn/pairs/h200.csv
  fairway interfere fit --data lab/profiling/data --hold-out 0.5 --name h200-half \
      --out policy/interfere/models/h200-half.json --pairs policy/interfere/learn/pairs/h200-half.csv
  fairway interfere fit --data mine --gpu a100`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.OutOrStdout()) },
	}
	f.register(c)
	c.Flags().StringVarP(&f.out, "out", "o", "-", "file to write (\"-\": standard output)")
	c.Flags().StringVar(&f.pairs, "pairs", "", "file to write the pooled and merged pairs to")
	c.Flags().StringVar(&f.name, "name", "", "GPU type that the model is for (default: --gpu)")
	c.Flags().Float64Var(&f.hold, "hold-out", 0, "share of the pairs, 0 to 0.8, that the model is not fitted to")
	return c
}

func (f *fitFlags) run(stdout io.Writer) error {
	if !(f.hold >= 0 && f.hold <= 0.8) {
		return usagef("--hold-out %g: want 0 to 0.8", f.hold)
	}
	fitted, err := f.read()
	if err != nil {
		return err
	}
	written := fitted
	if f.hold > 0 {
		fitted, written = learn.HoldOut(fitted, f.hold)
	}
	if f.name == "" {
		f.name = f.gpu
	}
	m, err := learn.Model(fitted, f.name, fmt.Sprintf("%d pairs measured with lab/profiling/measure.py", len(fitted)))
	if err != nil {
		return err
	}
	if f.pairs != "" {
		if err := writeFile(f.pairs, func(w io.Writer) error { return learn.WritePairs(w, written) }); err != nil {
			return err
		}
	}
	write := func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(m)
	}
	if f.out == "" || f.out == "-" {
		return write(stdout)
	}
	return writeFile(f.out, write)
}
