// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// made makes every form of a release but the bill of materials from stand-ins for the
// programs.
func made(t *testing.T) release {
	t.Helper()
	r := release{version: "1.2.3", arch: "amd64", revision: "abc", programs: t.TempDir(), root: "../..", out: t.TempDir()}
	r.certs = filepath.Join(r.programs, "certificates")
	for _, name := range append(slices.Clone(programNames), "certificates") {
		if err := os.WriteFile(filepath.Join(r.programs, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	if err := run(r, []string{"wheel", "programs", "image", "chart", "sums"}); err != nil {
		t.Fatal(err)
	}
	return r
}

// read returns the only file of the release whose name ends so.
func (r release) read(t *testing.T, end string) []byte {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(r.out, "*"+end))
	if len(found) != 1 {
		t.Fatalf("%v end in %q; want one", found, end)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestReproducible: the same programs and sources give the same bytes, whenever and
// wherever a release is made.
func TestReproducible(t *testing.T) {
	a, b := made(t), made(t)
	first, second := a.read(t, "SHA256SUMS"), b.read(t, "SHA256SUMS")
	if !bytes.Equal(first, second) || bytes.Count(first, []byte("\n")) != 4 {
		t.Errorf("two releases of the same sources:\n%s\n%s", first, second)
	}
}

// TestWheel: RECORD lists every file with its hash, and programs can be executed.
func TestWheel(t *testing.T) {
	r := made(t)
	text := r.read(t, "-py3-none-manylinux2014_x86_64.whl")
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	files, modes := map[string]string{}, map[string]os.FileMode{}
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name], modes[f.Name] = string(body), f.Mode()
	}
	const record = "fairway-1.2.3.dist-info/RECORD"
	for line := range strings.Lines(files[record]) {
		words := strings.Split(strings.TrimSpace(line), ",")
		body, ok := files[words[0]]
		sum := sha256.Sum256([]byte(body))
		want := fmt.Sprintf("sha256=%s,%d", base64.RawURLEncoding.EncodeToString(sum[:]), len(body))
		if got := strings.Join(words[1:], ","); !ok || words[0] != record && got != want {
			t.Errorf("RECORD has %q; want %q", strings.TrimSpace(line), want)
		}
		delete(files, words[0])
	}
	for name := range files {
		t.Errorf("RECORD lacks %s", name)
	}
	for name, want := range map[string]os.FileMode{
		"fairway-1.2.3.data/scripts/fairway": 0o755, "fairway-1.2.3.data/scripts/fairway-cuda": 0o755,
		"fairway/__init__.py": 0o644, "fairway/torch/__init__.py": 0o644, "fairway/py.typed": 0o644,
	} {
		if modes[name] != want {
			t.Errorf("%s has mode %v; want %v", name, modes[name], want)
		}
	}
}

func TestMetadata(t *testing.T) {
	text, err := release{version: "1.2.3", root: "../.."}.metadata()
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "\n\n")
	for _, want := range []string{"Name: fairway", "Version: 1.2.3", "Requires-Python: >=3.9", `Requires-Dist: torch>=1.13; extra == "torch"`} {
		if !strings.Contains(head+"\n", want+"\n") {
			t.Errorf("the metadata lacks %q:\n%s", want, head)
		}
	}
}

// unpack returns the files of a tar archive.
func unpack(t *testing.T, in io.Reader) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func gunzip(t *testing.T, text []byte) io.Reader {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestImage follows the digests from the index to the files.
func TestImage(t *testing.T) {
	r := made(t)
	files := unpack(t, bytes.NewReader(r.read(t, "-image-linux-amd64.tar")))
	part := func(d descriptor, into any) []byte {
		text := files[blob(d)]
		if digest(text) != d.Digest || len(text) != d.Size {
			t.Fatalf("%s of %d bytes is not what its digest says", d.Digest, d.Size)
		}
		if into != nil {
			if err := json.Unmarshal(text, into); err != nil {
				t.Fatal(err)
			}
		}
		return text
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("index: %v, %+v", err, index)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	part(index.Manifests[0], &manifest)
	var config struct {
		Config struct{ Labels map[string]string }
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	part(manifest.Config, &config)
	if v := config.Config.Labels["org.opencontainers.image.version"]; v != r.version {
		t.Errorf("the label of the version is %q; want %q", v, r.version)
	}
	plain, err := io.ReadAll(gunzip(t, part(manifest.Layers[0], nil)))
	if err != nil || digest(plain) != config.Rootfs.DiffIDs[0] {
		t.Errorf("the layer is not what the configuration says: %v", err)
	}
	want := fmt.Sprintf(`[{"Config":%q,"Layers":[%q],"RepoTags":["docker.io/library/fairway:1.2.3"]}]`, blob(manifest.Config), blob(manifest.Layers[0]))
	if got := string(files["manifest.json"]); got != want {
		t.Errorf("Docker's index is %s; want %s", got, want)
	}
	layer := unpack(t, bytes.NewReader(plain))
	if len(layer["fairway-operator"]) == 0 || string(layer["etc/ssl/certs/ca-certificates.crt"]) != "certificates" {
		t.Error("the layer lacks the operator or the certificates")
	}
}

func TestChart(t *testing.T) {
	files := unpack(t, gunzip(t, made(t).read(t, "chart-1.2.3.tgz")))
	want, err := os.ReadFile("../../deploy/chart/Chart.yaml")
	if err != nil || !bytes.Equal(files["fairway/Chart.yaml"], want) {
		t.Errorf("the archive's Chart.yaml is %q (%v)", files["fairway/Chart.yaml"], err)
	}
}

// TestSBOM takes this test's own binary for a program: it records its modules as all do.
func TestSBOM(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := release{version: "1.2.3", arch: "amd64", programs: t.TempDir(), out: t.TempDir()}
	for _, name := range programNames {
		if err := os.Symlink(self, filepath.Join(r.programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := writeSBOM(r); err != nil {
		t.Fatal(err)
	}
	var bom struct {
		Components   []component
		Dependencies []dependency
	}
	if err := json.Unmarshal(r.read(t, ".cdx.json"), &bom); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range bom.Components {
		known[c.Ref] = true
	}
	if len(bom.Dependencies) != len(programNames) || !known["fairway"] || len(known) <= len(programNames) {
		t.Errorf("%d programs, %v; want %v, and what they link", len(bom.Dependencies), known, programNames)
	}
	for _, d := range bom.Dependencies {
		for _, on := range d.DependsOn {
			if !known[on] {
				t.Errorf("%s depends on %s, which is not listed", d.Ref, on)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		version, epoch, form, want string
	}{
		{"", "1", "wheel", "-version"},
		{"1.2.3", "yesterday", "wheel", "SOURCE_DATE_EPOCH"},
		{"1.2.3", "1", "zip", "unknown form"},
	} {
		t.Setenv("SOURCE_DATE_EPOCH", c.epoch)
		err := run(release{version: c.version, out: t.TempDir()}, []string{c.form})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want an error with %q", c, err, c.want)
		}
	}
}
