// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package strictyaml reads every YAML file that a person writes for Fairway:
// configurations, job and search files, contexts and failure signatures.
//
// Values go straight from YAML nodes into the fields of a struct, by their JSON
// names. Nodes know their line, and text stays text where text is wanted ("3.10"
// is not 3.1, and an argument that looks like a number needs no quotes). Unknown
// and repeated fields are errors, because a typo must not silently mean the
// default. Aliases are refused, so a file cannot be larger than it looks.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxBytes bounds a file.
const MaxBytes = 1 << 20

// fault is a mistake at a place in a file.
type fault struct {
	line, column int
	err          error
}

func (f *fault) Error() string { return fmt.Sprintf("%d:%d: %v", f.line, f.column, f.err) }
func (f *fault) Unwrap() error { return f.err }

// FaultAt returns an error about a field that names its place in the file.
func FaultAt(n *yaml.Node, field, format string, args ...any) error {
	return &fault{n.Line, n.Column, fmt.Errorf("%s %w", field, fmt.Errorf(format, args...))}
}

// In adds the name of the file to an error: "job.yaml:3:1: gpus is ...".
func In(file string, err error) error {
	var f *fault
	if errors.As(err, &f) {
		return fmt.Errorf("%s:%w", file, err)
	}
	return fmt.Errorf("%s: %w", file, err)
}

// Read returns the text of a file, cut off just beyond the limit.
func Read(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, MaxBytes+1)) }

// ReadFile reads a file over what is in the struct already.
func ReadFile(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := Read(f)
	if err != nil {
		return err
	}
	if err := Unmarshal(text, into); err != nil {
		return In(path, err)
	}
	return nil
}

// Unmarshal reads one document over what is in the struct already. A field
// without a value, and a file without fields, leave it as it is.
func Unmarshal(text []byte, into any) error {
	docs, err := Documents(text)
	if err != nil || len(docs) == 0 {
		return err
	}
	if len(docs) > 1 {
		return FaultAt(docs[1], "the file", "has a second document; want one")
	}
	return reader{lenient: true}.fill(docs[0], reflect.ValueOf(into).Elem(), "")
}

// Documents splits a file. Documents that hold nothing are left out.
func Documents(text []byte) ([]*yaml.Node, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("larger than %d bytes; split it", MaxBytes)
	}
	var docs []*yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if n.Kind == yaml.DocumentNode && len(n.Content) == 1 && n.Content[0].ShortTag() != "!!null" {
			docs = append(docs, n.Content[0])
		}
	}
}

// HasKey reports whether a mapping has a key.
func HasKey(n *yaml.Node, key string) bool {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

// Describe says what a node holds, for an error.
func Describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.ShortTag() == "!!null" {
		return "empty"
	}
	return fmt.Sprintf("%.40q", n.Value)
}

// Join returns the path of a field inside another.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
