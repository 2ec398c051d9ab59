// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairway-gpu/fairway/api"
)

// maxText bounds a text parameter and a name in a path, in bytes.
const maxText = 200

// paramKind is the type of a query parameter.
type paramKind uint8

const (
	textParam paramKind = iota
	countParam
	flagParam
)

// param is a query parameter of a route.
type param struct {
	name   string
	kind   paramKind
	help   string
	choice []string // of a text: all that it may be; none: anything
	most   uint64   // of a count
	repeat bool     // may be given more than once: any of them
}

// query is the parameters of a request, checked.
type query map[string][]string

func (q query) text(name string) string {
	if v := q[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (q query) count(name string) uint64 {
	n, _ := strconv.ParseUint(q.text(name), 10, 64) // was checked
	return n
}

func (q query) flag(name string) bool {
	v, given := q[name]
	return given && (v[0] == "" || v[0] == "true" || v[0] == "1")
}

// time returns a parameter that is a time; zero: it was left out.
func (q query) time(name string) (time.Time, error) {
	text := q.text(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, api.Errorf(api.Invalid, "is %.60q", text).On(name).Try("use a time such as 2026-03-01T12:00:00Z")
	}
	return t, nil
}

// parseQuery checks the parameters of a request against the table.
func (rt *route) parseQuery(raw string) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, api.Errorf(api.Invalid, "the query cannot be read: %w", err)
	}
	out := query{}
	for name, given := range values {
		i := slices.IndexFunc(rt.params, func(p param) bool { return p.name == name })
		if i < 0 {
			return nil, api.Errorf(api.Invalid, "there is no such parameter").On(fmt.Sprintf("%.60s", strings.ToValidUTF8(name, "?"))).Try("use " + rt.paramNames())
		}
		p := rt.params[i]
		if len(given) > 1 && !p.repeat || len(given) > 20 {
			return nil, api.Errorf(api.Invalid, "was given %d times", len(given)).On(name)
		}
		for _, v := range given {
			if v == "" && p.kind != flagParam {
				continue // the same as leaving it out
			}
			if err := p.check(v); err != nil {
				return nil, err
			}
			out[name] = append(out[name], v)
		}
	}
	return out, nil
}

func (rt *route) paramNames() string {
	if len(rt.params) == 0 {
		return "none: this path has no parameters"
	}
	names := make([]string, 0, len(rt.params))
	for _, p := range rt.params {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func (p param) check(v string) error {
	bad := func(try string) error { return api.Errorf(api.Invalid, "is %.60q", v).On(p.name).Try(try) }
	switch p.kind {
	case countParam:
		if n, err := strconv.ParseUint(v, 10, 64); err != nil || n > p.most {
			return bad(fmt.Sprintf("use a whole number from 0 to %d", p.most))
		}
	case flagParam:
		if !slices.Contains([]string{"", "true", "false", "1", "0"}, v) {
			return bad("use true or false")
		}
	case textParam:
		if len(p.choice) > 0 && !slices.Contains(p.choice, v) {
			return bad("use " + strings.Join(p.choice, ", "))
		}
		if len(v) > maxText || !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return bad(fmt.Sprintf("use at most %d printable bytes", maxText))
		}
	}
	return nil
}
