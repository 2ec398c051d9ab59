// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/fairway-gpu/fairway/predict/features"
	"github.com/fairway-gpu/fairway/predict/onnx"
)

// RecipeSample is one measured step of a recipe.
type RecipeSample struct {
	Sample
	Recipe features.Recipe
}

// recipeKey identifies a row in both tables of recipes.
type recipeKey struct {
	key
	recipe features.Recipe
}

// recipeFeatureColumns is the header of a table of features of recipes. The first
// column of each sum is not in it: it depends on the Model.
func recipeFeatureColumns() []string {
	return slices.Concat([]string{"recipe"}, featureColumns(), names(recipeBusyColumns())[1:], names(recipeHostColumns())[1:])
}

// ReadRecipes reads the measured steps of GPU-recipes.csv whose graphs are made from
// the column "decoder" or whose features are in GPU-recipe-features.csv, and counts the
// others; nil if there is no such file.
func ReadRecipes(dir fs.FS, gpu string) (samples []RecipeSample, without int, err error) {
	list, err := readFile(dir, gpu+"-recipes.csv", readRecipes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	vectors, err := readFile(dir, gpu+"-recipe-features.csv", readRecipeVectors)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	for _, s := range list {
		if s.x == nil {
			s.x = vectors[recipeKey{key{s.Model, s.Batch}, s.Recipe}]
		}
		if s.x == nil {
			without++
			continue
		}
		samples = append(samples, s)
	}
	return samples, without, nil
}

// ReadRecipeRows lists the rows of a table of measured recipes whose graphs have to be
// read.
func ReadRecipeRows(name string, r io.Reader) ([]Measured, error) {
	samples, err := readRecipes(name, r)
	var list []Measured
	for _, s := range samples {
		if s.x == nil {
			list = append(list, Measured{s.Model, s.Batch, s.Recipe})
		}
	}
	return list, err
}

// readRecipes reads the measured steps; only those of decoders have features.
func readRecipes(name string, r io.Reader) ([]RecipeSample, error) {
	t, err := readTable(name, r)
	if err != nil {
		return nil, err
	}
	if err := t.require("recipe", "decoder"); err != nil {
		return nil, err
	}
	samples, rows, err := soloSamples(t)
	if err != nil {
		return nil, err
	}
	var list []RecipeSample
	for i, s := range samples {
		out := RecipeSample{Sample: s}
		out.Recipe, err = features.ParseRecipe(t.text(rows[i], "recipe"))
		if shape := t.text(rows[i], "decoder"); err == nil && shape != "" {
			out.x, err = decoderVector(shape, s.Batch, out.Recipe)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, rows[i]+2, err)
		}
		list = append(list, out)
	}
	return list, nil
}

func decoderVector(shape string, batch int64, r features.Recipe) (*vector, error) {
	d, err := onnx.ParseDecoder(shape)
	if err != nil {
		return nil, err
	}
	shapes, err := onnx.Infer(d.Model(), onnx.Options{Batch: batch})
	if err != nil {
		return nil, err
	}
	return vectorOf(features.Extract(shapes, r)), nil
}

func readRecipeVectors(name string, r io.Reader) (map[recipeKey]*vector, error) {
	t, err := readTable(name, r)
	if err != nil {
		return nil, err
	}
	if err := t.require(recipeFeatureColumns()...); err != nil {
		return nil, err
	}
	out := map[recipeKey]*vector{}
	for i := range t.rows {
		v, err := t.vector(i)
		busy, err1 := t.numbers(i, names(recipeBusyColumns())[1:])
		host, err2 := t.numbers(i, names(recipeHostColumns())[1:])
		recipe, err3 := features.ParseRecipe(t.text(i, "recipe"))
		if err := errors.Join(err, err1, err2, err3); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, i+2, err)
		}
		v.RecipeBusy, v.RecipeHost = slices.Insert(busy, 0, 0), slices.Insert(host, 0, 0)
		v.recipe, v.compiled = recipe != features.Recipe{}, recipe.Compile
		out[recipeKey{key{t.text(i, "model"), int64(v.Batch)}, recipe}] = v
	}
	return out, nil
}
