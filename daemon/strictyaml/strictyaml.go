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
	"regexp"
	"strconv"
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

// fieldName begins an error that says which field it is about: "socket.mode = ...".
var fieldName = regexp.MustCompile(`^[a-z_]+(\.[a-z_]+|\[\d+\])*`)

// Locate adds the place of the field that an error begins with to the error, as far as
// the file has it: "guard: margin = 0.5" is at margin below guard. An error about a field
// that the file does not have stays as it is.
func Locate(text []byte, err error) error {
	docs, _ := Documents(text) // the file was read before
	if err == nil || len(docs) == 0 {
		return err
	}
	var place *yaml.Node
	at := docs[0]
	for part := range strings.SplitSeq(err.Error(), ": ") {
		for _, step := range strings.FieldsFunc(fieldName.FindString(part), func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
			name, value := child(at, step)
			if value == nil {
				break
			}
			place, at = name, value
		}
	}
	if place == nil {
		return err
	}
	return &fault{place.Line, place.Column, err}
}

// child returns the name and the value of a field of a mapping, or an element of a list
// by its index; nil: there is none.
func child(n *yaml.Node, step string) (name, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return nil, nil
}

// syntaxError is an error of the YAML parser, which knows the line.
var syntaxError = regexp.MustCompile(`^yaml: line (\d+): (.*)`)

// Read returns the text of a file, cut off just beyond the limit.
func Read(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, MaxBytes+1)) }

// ReadFile reads a file over what is in the struct already, and checks the whole:
// errors of check that begin with a field name its place.
func ReadFile(path string, into any, check func() error) error {
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
	if err := check(); err != nil {
		return In(path, Locate(text, err))
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
			if m := syntaxError.FindStringSubmatch(err.Error()); m != nil {
				line, _ := strconv.Atoi(m[1])
				return nil, &fault{line, 1, errors.New(m[2])}
			}
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
