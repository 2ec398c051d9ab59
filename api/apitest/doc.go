// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package apitest holds this version to what earlier ones wrote: journals, API
// messages and objects are compared as JSON, field by field.
package apitest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Lines reads a file of JSON Lines.
func Lines[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%s, line %d: %v", path, len(out)+1, err)
		}
		out = append(out, v)
	}
	if err := lines.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%s: %d lines, %v", path, len(out), err)
	}
	return out
}

// RoundTrip decodes what an earlier version wrote into a pointer, without fields
// that the type does not have, and returns what is lost when it is written again.
func RoundTrip(old []byte, into any) ([]string, error) {
	d := json.NewDecoder(bytes.NewReader(old))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return nil, err
	}
	now, err := json.Marshal(into)
	if err != nil {
		return nil, err
	}
	return Lost(old, now), nil
}

// Lost returns the fields of an old JSON text that a new one does not have, or has
// with another value. except names fields that may go or whose values may differ,
// such as "jobs.rho"; numbers of list elements are left out of the names. New fields
// are no loss.
func Lost(old, now []byte, except ...string) []string {
	var a, b any
	if err := json.Unmarshal(old, &a); err != nil {
		return []string{"old: " + err.Error()}
	}
	if err := json.Unmarshal(now, &b); err != nil {
		return []string{"now: " + err.Error()}
	}
	return lost("", a, b, except)
}

func lost(path string, old, now any, except []string) []string {
	if slices.Contains(except, name(path)) && reflect.TypeOf(old) == reflect.TypeOf(now) {
		return nil
	}
	var out []string
	switch old := old.(type) {
	case map[string]any:
		fields, ok := now.(map[string]any)
		if !ok {
			break
		}
		for k, v := range old {
			below := path + "." + k
			if got, ok := fields[k]; ok {
				out = append(out, lost(below, v, got, except)...)
			} else if !slices.Contains(except, name(below)) {
				out = append(out, fmt.Sprintf("%s is gone; it was %.80v", below[1:], v))
			}
		}
		slices.Sort(out)
		return out
	case []any:
		items, ok := now.([]any)
		if !ok || len(items) != len(old) {
			break
		}
		for i, v := range old {
			out = append(out, lost(path+"."+strconv.Itoa(i), v, items[i], except)...)
		}
		return out
	}
	if !reflect.DeepEqual(old, now) {
		return []string{fmt.Sprintf("%s was %.80v and is %.80v", strings.TrimPrefix(path, "."), old, now)}
	}
	return nil
}

// name is a path without the numbers of list elements.
func name(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "."), ".")
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { _, err := strconv.Atoi(p); return err == nil }), ".")
}
