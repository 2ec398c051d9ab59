// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PodTemplate is the template of a job's pods. The CRD schema has only its outline, so
// a bad template can get past the API server. Decoding therefore never fails: one bad
// object must not prevent a list of all objects from being read.
type PodTemplate struct {
	corev1.PodTemplateSpec `json:",inline"`
	// Problem says what is wrong with the template, which is then empty.
	Problem string `json:"-"`
}

// TemplateOf returns a template with a pod and nothing else.
func TemplateOf(pod corev1.PodSpec) PodTemplate {
	return PodTemplate{PodTemplateSpec: corev1.PodTemplateSpec{Spec: pod}}
}

// Templates returns the templates of the pods of each role, in order; without roles, the one
// of the job.
func (s *TrainingJobSpec) Templates() []*PodTemplate {
	if len(s.Roles) == 0 {
		return []*PodTemplate{&s.Template}
	}
	out := make([]*PodTemplate, len(s.Roles))
	for i := range s.Roles {
		if out[i] = &s.Roles[i].Template; reflect.ValueOf(out[i]).Elem().IsZero() {
			out[i] = &s.Template
		}
	}
	return out
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *PodTemplate) UnmarshalJSON(text []byte) error {
	*t = PodTemplate{}
	var value any
	err := json.Unmarshal(text, &value)
	if err == nil {
		err = checkValue(value, reflect.TypeFor[corev1.PodTemplateSpec](), "template")
	}
	if err == nil {
		err = json.Unmarshal(text, &t.PodTemplateSpec)
	}
	if err != nil {
		*t = PodTemplate{Problem: err.Error()}
	}
	return nil
}

// Quantity matches the quantities that are cheap to parse. Kubernetes allows any
// exponent, and parsing 1e999999999 takes hours.
var Quantity = regexp.MustCompile(`^[+-]?[0-9]{1,15}(\.[0-9]{0,9})?([KMGTP]i|[numkMGTP]|[eE][+-]?[0-9])?$`)

// checkValue returns an error that names the part of a JSON value that does not fit a
// type.
func checkValue(v any, t reflect.Type, at string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	fits, want := true, "a number"
	switch {
	case v == nil:
	case t == reflect.TypeFor[resource.Quantity]():
		text, isText := v.(string)
		if number, ok := v.(float64); ok {
			text, isText = strconv.FormatFloat(number, 'f', -1, 64), true
		}
		if !isText || !Quantity.MatchString(text) {
			return fmt.Errorf("%s is %.40q; use at most 15 digits and a unit", at, fmt.Sprint(v))
		}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()): // its own decoder checks it
	case t.Kind() == reflect.String || t == reflect.TypeFor[[]byte]():
		_, fits = v.(string)
		want = "a text"
	case t.Kind() == reflect.Bool:
		_, fits = v.(bool)
		want = "true or false"
	case t.Kind() == reflect.Slice:
		list, ok := v.([]any)
		for i, item := range list {
			if err := checkValue(item, t.Elem(), fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		fits, want = ok, "a list"
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct:
		return checkFields(v, t, at)
	default:
		_, fits = v.(float64)
	}
	if !fits {
		return fmt.Errorf("%s is %.40q; want %s", at, fmt.Sprint(v), want)
	}
	return nil
}

// checkFields checks the fields of an object or a map.
func checkFields(v any, t reflect.Type, at string) error {
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is %.40q; want an object", at, fmt.Sprint(v))
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		of, ok := t, true
		if t.Kind() == reflect.Map {
			of = t.Elem()
		} else if of, ok = fieldType(t, name); !ok {
			return fmt.Errorf("%s has no field %.40q", at, name)
		}
		if err := checkValue(object[name], of, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

// fieldType returns the type of the field with a JSON name.
func fieldType(t reflect.Type, name string) (reflect.Type, bool) {
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			if inner, ok := fieldType(f.Type, name); ok {
				return inner, true
			}
		case tag == name:
			return f.Type, true
		}
	}
	return nil, false
}
