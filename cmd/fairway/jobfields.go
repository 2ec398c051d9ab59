// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairway-gpu/fairway/policy/knob"
)

// A job file is read straight from YAML nodes into the fields of a struct, by
// their JSON names: nodes know their line, and text stays text where text is
// wanted ("3.10" is not 3.1, and an argument that looks like a number needs no
// quotes). Aliases are refused, so a file cannot be larger than it looks.

// faultAt is a mistake at a place of a file. It prints after the file's name
// and a colon.
func faultAt(n *yaml.Node, field, format string, args ...any) error {
	return fmt.Errorf("%d:%d: %s %w", n.Line, n.Column, field, fmt.Errorf(format, args...))
}

// fieldsOf returns the fields of a struct by their JSON names; those of
// embedded structs count as its own.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for f, field := range v.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			for k, inner := range fieldsOf(field) {
				out[k] = inner
			}
		case f.IsExported() && name != "-" && name != "":
			out[name] = field
		}
	}
	return out
}

// eachKey calls f with each key of a mapping, and refuses keys that are not
// among the names, or there twice.
func eachKey(n *yaml.Node, path string, names []string, f func(string, *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return faultAt(n, strings.TrimSuffix("job "+path, " "), "is %s; want fields such as \"gpus: 2\"", describe(n))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			return faultAt(key, "field", "is %s; want a name", describe(key))
		case key.Value == "<<" || value.Kind == yaml.AliasNode:
			return faultAt(key, join(path, key.Value), "uses a YAML alias; write the value out")
		case !slices.Contains(names, key.Value):
			return faultAt(key, "unknown field", "%s", knob.Among(key.Value, names))
		case seen[key.Value]:
			return faultAt(key, join(path, key.Value), "is set twice")
		}
		seen[key.Value] = true
		if err := f(key.Value, value); err != nil {
			return err
		}
	}
	return nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func describe(n *yaml.Node) string {
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

// fill reads a node into a field. The type of the field decides, not the look
// of the value.
func fill(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return faultAt(n, path, "is empty; set a value or remove it")
	}
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if n.Kind != yaml.ScalarNode {
			return faultAt(n, path, "is %s; want text", describe(n))
		}
		if err := t.UnmarshalText([]byte(n.Value)); err != nil {
			return faultAt(n, path, "%w", err)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Struct:
		fields := fieldsOf(v)
		names := make([]string, 0, len(fields))
		for name := range fields {
			names = append(names, name)
		}
		return eachKey(n, path, names, func(key string, value *yaml.Node) error {
			return fill(value, fields[key], join(path, key))
		})
	case reflect.Slice:
		return fillList(n, v, path)
	case reflect.Map:
		return fillMap(n, v, path)
	}
	return fillScalar(n, v, path)
}

func fillList(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.SequenceNode {
		return faultAt(n, path, "is %s; want a list such as [a, b]", describe(n))
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if err := fill(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

// fillMap reads names to text.
func fillMap(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.MappingNode {
		return faultAt(n, path, "is %s; want names with values, such as {A: 1}", describe(n))
	}
	m := reflect.MakeMap(v.Type())
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Value == "<<" {
			return faultAt(key, path, "has %s as a name; want text without a YAML alias", describe(key))
		}
		name := reflect.ValueOf(key.Value)
		if m.MapIndex(name).IsValid() {
			return faultAt(key, join(path, key.Value), "is set twice")
		}
		text := reflect.New(v.Type().Elem()).Elem()
		if value.Kind == yaml.ScalarNode && value.ShortTag() == "!!null" {
			text.SetString("") // a variable may be set to nothing
		} else if err := fill(value, text, join(path, key.Value)); err != nil {
			return err
		}
		m.SetMapIndex(name, text)
	}
	v.Set(m)
	return nil
}

func fillScalar(n *yaml.Node, v reflect.Value, path string) error {
	plain := n.Kind == yaml.ScalarNode
	var want string
	switch v.Kind() {
	case reflect.String:
		if plain {
			v.SetString(n.Value)
			return nil
		}
		want = "text"
	case reflect.Bool:
		var b bool
		if plain && n.ShortTag() == "!!bool" && n.Decode(&b) == nil {
			v.SetBool(b)
			return nil
		}
		want = "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		var i int64
		if plain && n.ShortTag() == "!!int" && n.Decode(&i) == nil && !v.OverflowInt(i) {
			v.SetInt(i)
			return nil
		}
		want = "a whole number"
	case reflect.Float64:
		var f float64
		if plain && n.Decode(&f) == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			v.SetFloat(f)
			return nil
		}
		want = "a number"
	default:
		return faultAt(n, path, "has a type that job files do not support")
	}
	return faultAt(n, path, "is %s; want %s", describe(n), want)
}
