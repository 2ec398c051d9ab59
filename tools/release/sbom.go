// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// component is a program or a module in a bill of materials of CycloneDX.
type component struct {
	Type       string      `json:"type"`
	Ref        string      `json:"bom-ref"`
	Name       string      `json:"name"`
	Version    string      `json:"version"`
	PURL       string      `json:"purl,omitempty"`
	Hashes     []hash      `json:"hashes,omitempty"`
	Licenses   []any       `json:"licenses,omitempty"`
	Properties []property  `json:"properties,omitempty"`
	Components []component `json:"components,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// writeSBOM lists the modules that are linked into the programs, as the programs
// themselves record them.
func writeSBOM(r release) (string, error) {
	modules := map[string]component{}
	var programs []component
	var depends []dependency
	for _, base := range programNames {
		name := filepath.Join(r.programs, base)
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(text)
		programs = append(programs, component{
			Type: "application", Ref: base, Name: base, Version: r.version,
			Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Licenses: licence("Apache-2.0"),
		})
		std := component{Type: "library", Ref: "pkg:golang/std@" + info.GoVersion, Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
		modules[std.Ref] = std
		links := dependency{Ref: base, DependsOn: []string{std.Ref}}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			purl := "pkg:golang/" + m.Path + "@" + m.Version
			modules[purl] = component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl, Properties: []property{{"go:sum", m.Sum}}}
			links.DependsOn = append(links.DependsOn, purl)
		}
		slices.Sort(links.DependsOn)
		depends = append(depends, links)
	}
	list := programs
	for _, m := range modules {
		list = append(list, m)
	}
	slices.SortFunc(list[len(programs):], func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	bom := map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata": map[string]any{
			"timestamp": r.time.Format(time.RFC3339),
			"component": component{Type: "application", Ref: "release", Name: "fairway", Version: r.version, Licenses: licence("Apache-2.0"), Properties: []property{{"revision", r.revision}, {"architecture", r.arch}}},
		},
		"components":   list,
		"dependencies": depends,
	}
	text, err := json.MarshalIndent(bom, "", " ")
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("fairway-%s-linux-%s.cdx.json", r.version, r.arch)
	return name, os.WriteFile(filepath.Join(r.out, name), append(text, '\n'), 0o644)
}

func licence(id string) []any {
	return []any{map[string]any{"license": map[string]string{"id": id}}}
}

// writeSums writes the checksums of all files of the release, for "sha256sum -c".
func writeSums(r release) (string, error) {
	const name = "SHA256SUMS"
	files, err := os.ReadDir(r.out)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	for _, f := range files {
		if f.IsDir() || f.Name() == name {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), f.Name())
	}
	return name, os.WriteFile(filepath.Join(r.out, name), b.Bytes(), 0o644)
}
