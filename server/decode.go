// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fairway-gpu/fairway/api"
)

// decode reads one JSON object and nothing else. A field that v does not have is
// an error: it is more likely a slip than a wish to be ignored.
func decode(data []byte, v any) error {
	trimmed := bytes.Trim(data, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return api.Errorf(api.Invalid, "the body is %.20q", trimmed).Try("send one JSON object")
	}
	if !utf8.Valid(data) {
		return api.Errorf(api.Invalid, "the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(trimmed))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return decodeError(err, trimmed)
	}
	if _, err := d.Token(); err != io.EOF {
		return api.Errorf(api.Invalid, "data after the JSON object, at byte %d", d.InputOffset()).Try("send one JSON object and nothing after it")
	}
	if key, found := repeatedKey(json.NewDecoder(bytes.NewReader(trimmed)), reflect.TypeOf(v)); found {
		return api.Errorf(api.Invalid, "is there twice").On(key).Try("send each field once")
	}
	return nil
}

// repeatedKey reads the JSON of a value of a type and returns the path of a key that an
// object in it has twice: one of the values would be ignored. The names of fields are the
// same in any case, as for encoding/json; those of a map are not. The value was decoded
// before, so it is right and not nested without bound.
func repeatedKey(d *json.Decoder, t reflect.Type) (path string, found bool) {
	open, _ := d.Token()
	object := open == json.Delim('{')
	if !object && open != json.Delim('[') {
		return "", false
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	seen := map[string]bool{}
	for i := 0; d.More(); i++ {
		var name string
		if object {
			token, _ := d.Token()
			name, _ = token.(string)
			key := name
			if t != nil && t.Kind() == reflect.Struct {
				key = strings.ToLower(name)
			}
			if seen[key] {
				return name, true
			}
			seen[key] = true
		}
		if inner, found := repeatedKey(d, typeBelow(t, name)); found && object {
			return name + strings.Replace("."+inner, ".[", "[", 1), true
		} else if found {
			return fmt.Sprintf("[%d].%s", i, inner), true
		}
	}
	_, _ = d.Token() // the end of it
	return "", false
}

// typeBelow returns the type of a field or an element; nil: it may be anything.
func typeBelow(t reflect.Type, name string) reflect.Type {
	switch {
	case t == nil:
		return nil
	case t.Kind() == reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); strings.EqualFold(tag, name) {
				return f.Type
			}
		}
		return nil
	case slices.Contains([]reflect.Kind{reflect.Map, reflect.Slice, reflect.Array}, t.Kind()):
		return t.Elem()
	}
	return nil
}

func decodeError(err error, data []byte) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		return api.Errorf(api.Invalid, "is %s", written(kind, data)).On(jsonField(kind.Field)).Try("send a value of type " + jsonType(kind.Type))
	case errors.As(err, &syntax):
		return api.Errorf(api.Invalid, "the body is not JSON: %w, at byte %d", err, syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return api.Errorf(api.Invalid, "the body ends in the middle of the JSON object")
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		field = strings.Trim(field, `"`)
		return api.Errorf(api.Invalid, "there is no such field").On(field).Try("check its spelling; /openapi.json has all fields")
	}
	return api.Errorf(api.Invalid, "%w", err)
}

// written says what was sent where a value of another type was wanted.
func written(kind *json.UnmarshalTypeError, data []byte) string {
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		token, err := d.Token()
		if err == nil && d.InputOffset() < kind.Offset {
			continue
		}
		switch value := token.(type) {
		case string:
			return fmt.Sprintf("the text %.60q", value)
		case bool:
			return fmt.Sprint(value)
		}
		return kind.Value // a number is in it; objects and lists may be long
	}
}

// jsonField leaves the names of embedded structs, which only Go knows, out of the
// path of a field. Names in JSON begin with a small letter here.
func jsonField(path string) string {
	parts := strings.Split(path, ".")
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p != "" && p[0] >= 'A' && p[0] <= 'Z' }), ".")
}

// jsonType names a type the way someone who writes JSON knows it.
func jsonType(t reflect.Type) string {
	kind, ok := (&generator{parts: map[string]any{}}).of(t, true)["type"].(string)
	if !ok {
		return "object"
	}
	return kind
}
