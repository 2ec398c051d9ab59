// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package knob turns the typed Config of a policy into words and back: a knob
// is one exported field, known by its JSON name.
//
//	type Config struct {
//		Lease sched.Duration `json:"lease" help:"how long a job keeps what it got"`
//	}
//
//	knob.Set(&config, "lease", "20m")
//	knob.Text("las", config, Default()) // "las:lease=20m"
//
// A value is decoded through JSON into the field, so a knob accepts what the
// field's type accepts and nothing else. The elements of a list are separated
// by "/": "thresholds=1h/16h".
package knob

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/suggest"
)

// listSeparator separates the elements of a list. Commas separate policies on a
// command line, colons the words of one, and "+" occurs in numbers.
const listSeparator = "/"

// Knob is one setting of a policy.
type Knob struct {
	Name    string `json:"name"`
	Default string `json:"default"` // as Set reads it; a long list is shortened
	Help    string `json:"help"`
}

// List returns the knobs of a config, a struct, in the order of its fields, with
// its current values as defaults.
func List(config any) []Knob {
	v := reflect.ValueOf(config)
	knobs := make([]Knob, 0, v.NumField())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		knobs = append(knobs, Knob{Name: jsonName(f), Default: shorten(text(v.Field(i))), Help: help(f)})
	}
	return knobs
}

// help returns the help of a field: its own, or that of its type.
func help(f reflect.StructField) string {
	if h, ok := reflect.Zero(f.Type).Interface().(interface{ Help() string }); ok && f.Tag.Get("help") == "" {
		return h.Help()
	}
	return f.Tag.Get("help")
}

// Find returns the first knob of a config with the type T.
func Find[T any](config any) (value T, ok bool) {
	v := reflect.ValueOf(config)
	for i := range v.NumField() {
		if value, ok = v.Field(i).Interface().(T); ok {
			return value, true
		}
	}
	return value, false
}

// Set gives one field of the config, a pointer to a struct, a new value.
func Set(config any, name, value string) error {
	v := reflect.ValueOf(config).Elem()
	names := make([]string, 0, v.NumField())
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if jsonName(field) != name {
			names = append(names, jsonName(field))
			continue
		}
		fresh := reflect.New(field.Type)
		if err := json.Unmarshal(encode(field.Type, value), fresh.Interface()); err != nil {
			return fmt.Errorf("knob %s = %q; want %s", name, value, want(field.Type))
		}
		v.Field(i).Set(fresh.Elem())
		return nil
	}
	return fmt.Errorf("unknown knob %s", suggest.Among(name, names))
}

// Text returns the name of a policy followed by the knobs in which its config
// differs from the default, in the form that the policy table reads.
func Text(policy string, config, standard any) string {
	var b strings.Builder
	b.WriteString(policy)
	v, d := reflect.ValueOf(config), reflect.ValueOf(standard)
	for i := range v.NumField() {
		if reflect.DeepEqual(v.Field(i).Interface(), d.Field(i).Interface()) {
			continue
		}
		fmt.Fprintf(&b, ":%s=%s", jsonName(v.Type().Field(i)), text(v.Field(i)))
	}
	return b.String()
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

var (
	duration   = reflect.TypeFor[sched.Duration]()
	unmarshals = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// isText reports whether a value of the type is a JSON string.
func isText(t reflect.Type) bool {
	return t.Kind() == reflect.String || reflect.PointerTo(t).Implements(unmarshals)
}

// encode writes a value as the JSON of its type.
func encode(t reflect.Type, value string) []byte {
	switch {
	case isText(t):
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil // not JSON: the caller's decoding reports it
		}
		return quoted
	case t.Kind() == reflect.Slice:
		if value == "" {
			return []byte("[]")
		}
		out := []byte{'['}
		for i, word := range strings.Split(value, listSeparator) {
			if strings.Contains(word, ",") && !isText(t.Elem()) {
				return nil // it would become two elements
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, encode(t.Elem(), word)...)
		}
		return append(out, ']')
	}
	if value == "null" { // JSON would leave the field as it is
		return nil
	}
	return []byte(value)
}

func text(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Slice:
		words := make([]string, v.Len())
		for i := range words {
			words[i] = text(v.Index(i))
		}
		return strings.Join(words, listSeparator)
	case v.Kind() == reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// shorten keeps the first elements of a long list, for a help page.
func shorten(s string) string {
	const most = 4
	words := strings.Split(s, listSeparator)
	if len(words) <= 2*most {
		return s
	}
	return fmt.Sprintf("%s/... (%d values)", strings.Join(words[:most], listSeparator), len(words))
}

// want says what values a knob of the type accepts.
func want(t reflect.Type) string {
	switch {
	case t == duration:
		return "a duration with a unit, such as 90s, 10m, 16h or 7d"
	case isText(t) && t.Kind() != reflect.String:
		return "a word that it knows"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "a list, separated by " + strconv.Quote(listSeparator) + ", of which each element is " + want(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	}
	return "a number"
}
