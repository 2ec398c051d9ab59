// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairway-gpu/fairway/sched/suggest"
)

// Fields returns the fields of a struct by their JSON names; those of embedded
// structs count as its own.
func Fields(v reflect.Value) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for f, field := range v.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(out, Fields(field))
		case f.IsExported() && name != "-" && name != "":
			out[name] = field
		}
	}
	return out
}

// EachKey calls f with each key of a mapping, and refuses keys that are not
// among the names, or there twice.
func EachKey[T any](n *yaml.Node, path string, names map[string]T, f func(string, *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return FaultAt(n, cmp.Or(path, "the document"), "is %s; want fields such as \"name: value\"", Describe(n))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		_, known := names[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			return FaultAt(key, "field", "is %s; want a name", Describe(key))
		case key.Value == "<<" || value.Kind == yaml.AliasNode:
			return FaultAt(key, Join(path, key.Value), "uses a YAML alias; write the value out")
		case !known:
			return FaultAt(key, "unknown field", "%s", suggest.Among(key.Value, slices.Collect(maps.Keys(names))))
		case seen[key.Value]:
			return FaultAt(key, Join(path, key.Value), "is set twice")
		}
		seen[key.Value] = true
		if err := f(key.Value, value); err != nil {
			return err
		}
	}
	return nil
}

// Fill reads a node into a variable. The type of the variable decides, not the
// look of the value. Empty values are errors.
func Fill(n *yaml.Node, into any, path string) error {
	return reader{}.fill(n, reflect.ValueOf(into).Elem(), path)
}

// reader fills variables. A lenient one leaves a field without a value as it is,
// and takes 1e+06, which templates make of a million, for a whole number.
type reader struct{ lenient bool }

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func (r reader) fill(n *yaml.Node, v reflect.Value, path string) error {
	if isNull(n) {
		if r.lenient {
			return nil
		}
		return FaultAt(n, path, "is empty; set a value or remove it")
	}
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if n.Kind != yaml.ScalarNode {
			return FaultAt(n, path, "is %s; want text", Describe(n))
		}
		if err := t.UnmarshalText([]byte(n.Value)); err != nil {
			return FaultAt(n, path, "%w", err)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		v.Set(fresh)
		return r.fill(n, fresh.Elem(), path)
	case reflect.Struct:
		fields := Fields(v)
		return EachKey(n, path, fields, func(key string, value *yaml.Node) error {
			return r.fill(value, fields[key], Join(path, key))
		})
	case reflect.Slice:
		return r.fillList(n, v, path)
	case reflect.Map:
		return r.fillMap(n, v, path)
	}
	return r.fillScalar(n, v, path)
}

func (r reader) fillList(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.SequenceNode {
		return FaultAt(n, path, "is %s; want a list such as [a, b]", Describe(n))
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if err := r.fill(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

func (r reader) fillMap(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.MappingNode {
		return FaultAt(n, path, "is %s; want names with values, such as {A: 1}", Describe(n))
	}
	m := reflect.MakeMap(v.Type())
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Value == "<<" {
			return FaultAt(key, path, "has %s as a name; want text without a YAML alias", Describe(key))
		}
		name := reflect.ValueOf(key.Value).Convert(v.Type().Key())
		if m.MapIndex(name).IsValid() {
			return FaultAt(key, Join(path, key.Value), "is set twice")
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if !isNull(value) || item.Kind() != reflect.String { // a variable may be set to nothing
			if err := r.fill(value, item, Join(path, key.Value)); err != nil {
				return err
			}
		}
		m.SetMapIndex(name, item)
	}
	v.Set(m)
	return nil
}

func (r reader) fillScalar(n *yaml.Node, v reflect.Value, path string) error {
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
		var f float64
		whole := n.ShortTag() == "!!int" || r.lenient && n.Decode(&f) == nil && f == math.Trunc(f)
		if plain && whole && n.Decode(&i) == nil && !v.OverflowInt(i) {
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
		return FaultAt(n, path, "has a type that files do not support")
	}
	return FaultAt(n, path, "is %s; want %s", Describe(n), want)
}
