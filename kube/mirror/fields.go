// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/sched"
)

// copyFields copies the fields of one struct to the fields of the same name in another,
// and converts between their forms: a number may be optional or text, and durations and
// levels have different types on the two sides. It skips fields without a counterpart,
// and the screening time, which a request gives as text.
func copyFields(to, from reflect.Value) error {
	for f := range to.Type().Fields() {
		source := from.FieldByName(f.Name)
		if !source.IsValid() || source.IsZero() || f.Name == "Screen" {
			continue
		}
		if err := copyValue(to.FieldByIndex(f.Index), source); err != nil {
			return fmt.Errorf("%s %w", jsonName(from.Type(), f.Name), err)
		}
	}
	return nil
}

// jsonName returns the JSON name of a field.
func jsonName(t reflect.Type, field string) string {
	f, _ := t.FieldByName(field)
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func copyValue(to, from reflect.Value) error {
	switch value := from.Interface().(type) {
	case *resource.Quantity:
		to.SetInt(value.Value())
		return nil
	case *metav1.Duration:
		to.SetInt(int64(value.Duration))
		return nil
	case sched.Duration: // the schema of objects has no unit below a millisecond
		to.Set(reflect.ValueOf(&metav1.Duration{Duration: value.D().Round(time.Millisecond)}))
		return nil
	}
	if from.Kind() == reflect.Pointer {
		return copyValue(to, from.Elem())
	}
	if read, ok := to.Addr().Interface().(encoding.TextUnmarshaler); ok && from.Kind() == reflect.String {
		return read.UnmarshalText([]byte(from.String()))
	}
	switch to.Kind() {
	case reflect.Pointer:
		return copyPointer(to, from)
	case reflect.Struct:
		return copyFields(to, from)
	case reflect.Slice:
		list := reflect.MakeSlice(to.Type(), from.Len(), from.Len())
		for i := range from.Len() {
			if err := copyValue(list.Index(i), from.Index(i)); err != nil {
				return err
			}
		}
		to.Set(list)
	case reflect.Int32: // the API server rejects a number that is too large
		to.SetInt(max(math.MinInt32, min(from.Int(), math.MaxInt32)))
	case reflect.Float64:
		number, err := strconv.ParseFloat(from.String(), 64)
		if err != nil || !(number >= 0) || math.IsInf(number, 0) {
			return fmt.Errorf("is %.40q; use a number of at least 0", from.String())
		}
		to.SetFloat(number)
	case reflect.String:
		if name, ok := from.Interface().(encoding.TextMarshaler); ok {
			text, err := name.MarshalText()
			to.SetString(string(text))
			return err
		}
		if from.Kind() == reflect.Float64 {
			to.SetString(strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(from.Float(), 'f', 9, 64), "0"), "."))
			break
		}
		to.SetString(from.String())
	default:
		to.Set(from.Convert(to.Type()))
	}
	return nil
}

func copyPointer(to, from reflect.Value) error {
	if to.Type() == reflect.TypeFor[*resource.Quantity]() {
		to.Set(reflect.ValueOf(resource.NewQuantity(from.Int(), resource.BinarySI)))
		return nil
	}
	value := reflect.New(to.Type().Elem())
	if err := copyValue(value.Elem(), from); err != nil {
		return err
	}
	to.Set(value)
	return nil
}
