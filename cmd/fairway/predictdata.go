// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/predict"
	"github.com/fairway-gpu/fairway/predict/features"
	"github.com/fairway-gpu/fairway/predict/onnx"
)

// Limits of an archive of graphs.
const (
	maxIndexBytes = 16 << 20
	maxGraphs     = 100_000
	maxGraphBytes = 1 << 30
)

func newPredictFeatures() *cobra.Command {
	var graphs, solo, out string
	c := &cobra.Command{
		Use:   "features --graphs FILE --solo FILE --out FILE",
		Short: "Extract features from the graphs of measured models",
		Long: `Read an archive of ONNX graphs written by "lab/profiling/measure.py graphs", and write
a table with the features of every measured model at every measured batch size. This
table and the measurements are the input of "fairway predict train". If there is a
NAME-recipes.csv beside the table, NAME-recipe-features.csv is written too.`,
		Example: `  python3 lab/profiling/measure.py graphs --out graphs.tar.gz
  fairway predict features --graphs graphs.tar.gz --out lab/profiling/data/h200-features.csv`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if graphs == "" || out == "" {
				return usagef("--graphs and --out are required: the archive to read and the table to write")
			}
			base := strings.TrimSuffix(out, "-features.csv")
			if solo == "" {
				solo = base + "-solo.csv"
			}
			rows, err := writeFeatures(graphs, solo, out, predict.ReadSolo)
			if err != nil {
				return fmt.Errorf("predict features: %w", err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%d rows in %s\n", rows, out)
			recipes, out := base+"-recipes.csv", base+"-recipe-features.csv"
			if rows, err = writeFeatures(graphs, recipes, out, predict.ReadRecipeRows); errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("predict features: %w", err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%d rows in %s\n", rows, out)
			return nil
		},
	}
	c.Flags().StringVar(&graphs, "graphs", "", "archive of graphs (.tar.gz)")
	c.Flags().StringVar(&solo, "solo", "", "table of measurements (default: NAME-solo.csv beside --out NAME-features.csv)")
	c.Flags().StringVarP(&out, "out", "o", "", "table to write")
	return c
}

// writeFeatures writes the rows in the order of the measurements' models, by
// batch and recipe, and returns their number.
func writeFeatures(graphs, measurements, out string, read func(string, io.Reader) ([]predict.Measured, error)) (int, error) {
	f, err := os.Open(measurements)
	if err != nil {
		return 0, err
	}
	measured, err := read(filepath.Base(measurements), f)
	f.Close()
	if err != nil {
		return 0, err
	}
	files, err := graphIndex(graphs)
	if err != nil {
		return 0, err
	}
	wanted := map[string][]predict.Measured{} // by file
	table := &featureTable{}
	for _, m := range measured {
		if file, ok := files[m.Model]; ok && !slices.Contains(wanted[file], m) {
			wanted[file] = append(wanted[file], m)
			table.recipes = table.recipes || m.Recipe != features.Recipe{}
		}
	}
	err = eachGraph(graphs, func(file string, r io.Reader) error {
		if len(wanted[file]) == 0 {
			return nil
		}
		return table.add(wanted[file], r)
	})
	if err != nil {
		return 0, err
	}
	return len(table.rows), writeFile(out, table.write)
}

// featureTable holds rows until they are in order.
type featureTable struct {
	recipes bool
	rows    []featureRow
}

type featureRow struct {
	predict.Measured
	x *features.Features
}

func (t *featureTable) add(wanted []predict.Measured, r io.Reader) error {
	graph, err := onnx.Limits{Bytes: maxGraphBytes}.Read(r)
	if err != nil {
		return fmt.Errorf("%s: %w", wanted[0].Model, err)
	}
	for _, m := range wanted {
		x, err := extractFrom(graph, onnx.Options{Batch: m.Batch}, m.Recipe)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Model, err)
		}
		t.rows = append(t.rows, featureRow{m, x})
	}
	return nil
}

func (t *featureTable) write(w io.Writer) error {
	slices.SortFunc(t.rows, func(a, b featureRow) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Recipe.String(), b.Recipe.String()))
	})
	table, err := predict.NewFeatureWriter(w, t.recipes)
	if err != nil {
		return err
	}
	for _, r := range t.rows {
		if err := table.Add(r.Model, r.x); err != nil {
			return err
		}
	}
	return table.Close()
}

// graphIndex reads which file of an archive is which model.
func graphIndex(name string) (map[string]string, error) {
	files := map[string]string{}
	found := false
	err := eachGraph(name, func(file string, r io.Reader) error {
		if file != "index.json" {
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(r, maxIndexBytes))
		if err != nil {
			return err
		}
		var index struct {
			Files map[string]struct {
				File string `json:"file"`
			} `json:"files"`
		}
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&index); err != nil {
			return fmt.Errorf("index.json: %w", err)
		}
		for model, entry := range index.Files {
			files[model] = entry.File
		}
		found = true
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: no index.json in the archive", name)
	}
	return files, err
}

// eachGraph visits the files of an archive.
func eachGraph(name string, visit func(file string, r io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	archive := tar.NewReader(zipped)
	for range maxGraphs {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := visit(path.Base(header.Name), archive); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return fmt.Errorf("%s: more than %d files", name, maxGraphs)
}

func newPredictTrain() *cobra.Command {
	var data, gpu, out string
	c := &cobra.Command{
		Use:   "train --data DIR --gpu NAME --out FILE",
		Short: "Train the prediction model of a GPU type",
		Long: `Train the prediction model of a GPU type from NAME-solo.csv and NAME-features.csv,
and from NAME-recipes.csv and NAME-steps.csv if they exist. The same tables give the same bytes. Models
in predict/models are embedded in the binary
at build time.`,
		Example: `  fairway predict train --data lab/profiling/data --gpu h200 --out predict/models/h200.json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if data == "" || out == "" {
				return usagef("--data and --out are required: the folder of tables and the file to write")
			}
			samples, without, err := predict.ReadSamples(os.DirFS(data), gpu)
			if err != nil {
				return fmt.Errorf("predict train: %w", err)
			}
			m, err := predict.Train(samples, gpu)
			if err != nil {
				return fmt.Errorf("predict train: %w", err)
			}
			if err := errors.Join(addRecipes(m, data, gpu), addSteps(m, data, gpu)); err != nil {
				return fmt.Errorf("predict train: %w", err)
			}
			if err := writeFile(out, m.Write); err != nil {
				return fmt.Errorf("predict train: %w", err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: %d steps of %d models", out, m.Rows, m.Models)
			if without > 0 {
				fmt.Fprintf(c.OutOrStdout(), "; %d more have no features", without)
			}
			fmt.Fprintln(c.OutOrStdout())
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", "", "folder with NAME-solo.csv and NAME-features.csv")
	c.Flags().StringVar(&gpu, "gpu", "h200", "GPU type, the NAME of the tables")
	c.Flags().StringVarP(&out, "out", "o", "", "model file to write")
	return c
}

// addRecipes fits the recipes of a folder, if it has any.
func addRecipes(m *predict.Model, data, gpu string) error {
	recipes, _, err := predict.ReadRecipes(os.DirFS(data), gpu)
	if err != nil || len(recipes) == 0 {
		return err
	}
	return m.AddRecipes(recipes)
}

// addSteps fits what the spread of steps tells, if the folder has it.
func addSteps(m *predict.Model, data, gpu string) error {
	steps, err := predict.ReadSteps(os.DirFS(data), gpu)
	if err != nil || len(steps) == 0 {
		return err
	}
	return m.AddSteps(steps)
}
