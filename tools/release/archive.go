// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// writeChart packs the chart as "helm package" does, but the same each time.
func writeChart(r release) (string, error) {
	var files entries
	chart := os.DirFS(filepath.Join(r.root, "deploy", "chart"))
	err := fs.WalkDir(chart, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(chart, name)
		files = append(files, entry{name: "fairway/" + name, text: text, mode: 0o644})
		return err
	})
	if err != nil {
		return "", err
	}
	return r.pack("fairway-chart-"+r.version+".tgz", files)
}

// writePrograms packs the programs with their licence.
func writePrograms(r release) (string, error) {
	stem := "fairway-" + r.version + "-linux-" + r.arch
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return "", err
	}
	files := entries{{name: stem + "/LICENSE", text: licence, mode: 0o644}}
	for _, name := range programNames {
		text, err := os.ReadFile(filepath.Join(r.programs, name))
		if err != nil {
			return "", err
		}
		files = append(files, entry{name: stem + "/" + name, text: text, mode: 0o755})
	}
	return r.pack(stem+".tar.gz", files)
}

// pack writes a compressed archive.
func (r release) pack(name string, files entries) (string, error) {
	plain, err := files.archive(r.time)
	if err != nil {
		return "", err
	}
	packed, err := compress(plain)
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(filepath.Join(r.out, name), packed, 0o644)
}

// entry is a file of an archive, or a folder if its name ends in a slash.
type entry struct {
	name string
	text []byte
	mode int64
}

type entries []entry

// archive writes a tar file that depends on nothing but the entries and the time.
func (es entries) archive(at time.Time) ([]byte, error) {
	slices.SortFunc(es, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range es {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.text)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func compress(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}
