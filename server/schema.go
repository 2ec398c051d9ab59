// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding"
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

// generator makes JSON schemas of Go types, the way encoding/json writes them.
// Named structs become parts that others refer to.
type generator struct {
	parts map[string]any
}

type schema = map[string]any

var (
	timeType      = reflect.TypeFor[time.Time]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	bytesType     = reflect.TypeFor[[]byte]()
)

// of returns the schema of a type: of what is sent (in) or of what is answered.
// They differ in what has to be there.
func (g *generator) of(t reflect.Type, in bool) schema {
	switch {
	case t.Kind() == reflect.Pointer:
		return g.of(t.Elem(), in)
	case t == timeType:
		return schema{"type": "string", "format": "date-time"}
	case t == bytesType:
		return schema{"type": "string", "contentEncoding": "base64"}
	case t.Implements(textType) || reflect.PointerTo(t).Implements(textType):
		return schema{"type": "string"}
	case t.Implements(jsonMarshaler):
		return schema{}
	}
	switch t.Kind() {
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return schema{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return schema{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}
	case reflect.Slice, reflect.Array:
		return schema{"type": "array", "items": g.of(t.Elem(), in)}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": g.of(t.Elem(), in)}
	case reflect.Struct:
		return g.refer(t, in)
	}
	return schema{}
}

// refer returns a reference to the part of a struct, and makes the part.
func (g *generator) refer(t reflect.Type, in bool) schema {
	name := partName(t, in)
	if _, made := g.parts[name]; !made {
		g.parts[name] = nil // begun: a struct may refer to itself
		fields := map[string]any{}
		required := g.fields(t, in, fields)
		slices.Sort(required)
		part := schema{"type": "object", "properties": fields}
		if in {
			part["additionalProperties"] = false
		} else if len(required) > 0 {
			part["required"] = required
		}
		g.parts[name] = part
	}
	return schema{"$ref": "#/components/schemas/" + name}
}

// fields collects the fields of a struct, those of embedded ones last, because
// a field hides those of the same name below it. It returns which are always
// written.
func (g *generator) fields(t reflect.Type, in bool, into map[string]any) (required []string) {
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			embedded = append(embedded, f.Type)
			continue
		case !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		if _, hidden := into[name]; hidden {
			continue
		}
		s := g.of(f.Type, in)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
			if k := f.Type.Kind(); k == reflect.Slice || k == reflect.Map || k == reflect.Pointer {
				s = nullable(s)
			}
		}
		into[name] = s
	}
	for _, e := range embedded {
		required = append(required, g.fields(e, in, into)...)
	}
	return required
}

// nullable also allows null, which encoding/json writes for nil.
func nullable(s schema) schema {
	if kind, ok := s["type"].(string); ok {
		s = maps.Clone(s)
		s["type"] = []string{kind, "null"}
		return s
	}
	return schema{"anyOf": []any{s, schema{"type": "null"}}}
}

// partName names a struct. Those of package api are what users know; others
// carry the name of their package.
func partName(t reflect.Type, in bool) string {
	name := t.Name()
	if p := path.Base(t.PkgPath()); p != "api" {
		first := []rune(p)
		first[0] = unicode.ToUpper(first[0])
		name = string(first) + name
	}
	if in {
		name += "Input"
	}
	return name
}
