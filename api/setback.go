// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"reflect"
	"time"
)

// SetBack moves all times in a value back that lie after a time: they were recorded with
// a clock that was ahead. v is a pointer to data that nobody else reads.
func SetBack(v any, after time.Time, by time.Duration) { setBack(reflect.ValueOf(v), after, by) }

func setBack(v reflect.Value, after time.Time, by time.Duration) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			setBack(v.Elem(), after, by)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			setBack(v.Index(i), after, by)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			setBack(value, after, by)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		if at, ok := reflect.TypeAssert[time.Time](v); ok {
			if at.After(after) && v.CanSet() {
				v.Set(reflect.ValueOf(at.Add(-by)))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				setBack(v.Field(i), after, by)
			}
		}
	}
}
