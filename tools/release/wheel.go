// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// wheelArch names an architecture as wheels do. "fairway" is static; "fairway-cuda"
// loads the CUDA driver and so needs a C library, of which an old one does.
var wheelArch = map[string]string{"amd64": "manylinux2014_x86_64", "arm64": "manylinux2014_aarch64"}

// writeWheel makes one wheel of the agent and the programs. pip copies what is in
// data/scripts to the folder of commands as it is, so "fairway" starts without Python.
func writeWheel(r release) (string, error) {
	platform, ok := wheelArch[r.arch]
	if !ok {
		return "", fmt.Errorf("architecture %q; want amd64 or arm64", r.arch)
	}
	tag := "py3-none-" + platform
	stem := "fairway-" + r.version
	w := wheel{time: r.time}
	if err := w.addAgent(os.DirFS(filepath.Join(r.root, "python", "src"))); err != nil {
		return "", err
	}
	for _, name := range []string{"fairway", "fairway-cuda"} {
		text, err := os.ReadFile(filepath.Join(r.programs, name))
		if err != nil {
			return "", err
		}
		w.add(stem+".data/scripts/"+name, text, 0o755)
	}
	metadata, err := r.metadata()
	if err != nil {
		return "", err
	}
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return "", err
	}
	info := stem + ".dist-info/"
	w.add(info+"LICENSE", licence, 0o644)
	w.add(info+"METADATA", metadata, 0o644)
	w.add(info+"WHEEL", []byte("Wheel-Version: 1.0\nGenerator: fairway\nRoot-Is-Purelib: false\nTag: "+tag+"\n"), 0o644)
	name := stem + "-" + tag + ".whl"
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	if err := w.write(f, info+"RECORD"); err != nil {
		f.Close()
		return "", err
	}
	return name, f.Close()
}

// wheel collects the files of a wheel.
type wheel struct {
	time  time.Time
	files []wheelFile
}

type wheelFile struct {
	name string
	text []byte
	mode fs.FileMode
}

func (w *wheel) add(name string, text []byte, mode fs.FileMode) {
	w.files = append(w.files, wheelFile{name, text, mode})
}

// addAgent adds the Python package, without what Python has left beside it.
func (w *wheel) addAgent(src fs.FS) error {
	return fs.WalkDir(src, "fairway", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "__pycache__" {
			return fs.SkipDir
		}
		if ext := path.Ext(name); d.IsDir() || ext != ".py" && ext != ".typed" {
			return nil
		}
		text, err := fs.ReadFile(src, name)
		w.add(name, text, 0o644)
		return err
	})
}

// write writes the archive; record is the file that lists all others, with their hashes.
func (w *wheel) write(out io.Writer, record string) error {
	slices.SortFunc(w.files, func(a, b wheelFile) int { return strings.Compare(a.name, b.name) })
	var list bytes.Buffer
	for _, f := range w.files {
		sum := sha256.Sum256(f.text)
		fmt.Fprintf(&list, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.text))
	}
	fmt.Fprintf(&list, "%s,,\n", record)
	z := zip.NewWriter(out)
	for _, f := range append(w.files, wheelFile{record, list.Bytes(), 0o644}) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: w.time}
		h.SetMode(f.mode)
		body, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := body.Write(f.text); err != nil {
			return err
		}
	}
	return z.Close()
}

// metadata is the description of the wheel, from what python/pyproject.toml says of the
// agent.
func (r release) metadata() ([]byte, error) {
	project, err := os.ReadFile(filepath.Join(r.root, "python", "pyproject.toml"))
	if err != nil {
		return nil, err
	}
	readme, err := os.ReadFile(filepath.Join(r.root, "python", "README.md"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Metadata-Version: 2.1\nName: fairway\nVersion: %s\n", r.version)
	for _, field := range []struct{ name, key string }{{"Summary", "description"}, {"Requires-Python", "requires-python"}} {
		value, err := setting(project, field.key)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s: %s\n", field.name, value)
	}
	torch, err := setting(project, "torch")
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "License: Apache-2.0\nProject-URL: Source, https://github.com/fairway-gpu/fairway\n")
	fmt.Fprintf(&b, "Provides-Extra: torch\nRequires-Dist: %s; extra == \"torch\"\n", torch)
	fmt.Fprintf(&b, "Description-Content-Type: text/markdown\n\n%s", readme)
	return b.Bytes(), nil
}

// setting returns the text of a key of a TOML file that is a string or a list of one.
func setting(toml []byte, key string) (string, error) {
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + ` = \[?"([^"\n]*)"\]?$`).FindSubmatch(toml)
	if m == nil {
		return "", fmt.Errorf("python/pyproject.toml has no %s", key)
	}
	return string(m[1]), nil
}
