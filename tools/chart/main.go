// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command chart renders the chart of Fairway with Helm's own engine, for those who
// install with kubectl: the custom resources first, then the rest, by kind and name.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

func main() {
	folder := flag.String("chart", "deploy/chart", "`folder` of the chart")
	out := flag.String("out", "-", "`file` to write; -: standard output")
	namespace := flag.String("namespace", "fairway-system", "of the release")
	values := flag.String("values", "", "`file` of values over the chart's own")
	flag.Parse()
	if err := run(*folder, *values, *namespace, *out); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(folder, values, namespace, out string) error {
	text, err := render(folder, values, namespace)
	if err != nil {
		return err
	}
	if out == "-" {
		_, err = os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(out, text, 0o644)
}

// render returns all documents of the chart as one file.
func render(folder, valuesFile, namespace string) ([]byte, error) {
	chart, err := loader.Load(folder)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", folder, err)
	}
	own := map[string]any{}
	if valuesFile != "" {
		if own, err = chartutil.ReadValuesFile(valuesFile); err != nil {
			return nil, fmt.Errorf("read values %s: %w", valuesFile, err)
		}
	}
	release := chartutil.ReleaseOptions{Name: "fairway", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, own, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("put the values together: %w", err)
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	maps.DeleteFunc(files, func(name, text string) bool {
		return path.Ext(name) == ".txt" || strings.HasPrefix(path.Base(name), "_") || strings.TrimSpace(text) == ""
	})
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, fmt.Errorf("sort: %w", err)
	}
	sum, err := checksum(folder)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Made from deploy/chart by \"make manifests\"; change the chart, not this file.\n# Checksum of the chart: %s\n", sum)
	fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n", namespace)
	crds := chart.CRDObjects()
	slices.SortFunc(crds, func(a, b helmchart.CRD) int { return strings.Compare(a.Filename, b.Filename) })
	for _, c := range crds {
		fmt.Fprintf(&b, "---\n%s\n", strings.Trim(string(c.File.Data), "-\n"))
	}
	for _, m := range manifests {
		text := strings.ReplaceAll(strings.Trim(m.Content, "-\n"), "    app.kubernetes.io/managed-by: Helm\n", "")
		fmt.Fprintf(&b, "---\n%s\n", strings.TrimSuffix(text, "\n    app.kubernetes.io/managed-by: Helm"))
	}
	return b.Bytes(), nil
}

// checksum is that of all files of the chart, by which a test sees, without Helm,
// whether the manifests are up to date.
func checksum(folder string) (string, error) {
	h := sha256.New()
	files := os.DirFS(folder)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
