// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairway-gpu/fairway/api"
)

// call is one request to a route, checked: who asks may ask, the parameters are
// those of the table, the body is what the table says.
type call struct {
	*Server
	at     Endpoint
	w      http.ResponseWriter
	r      *http.Request
	route  *route
	who    api.Identity
	query  query
	body   any    // pointer to a value of the type of route.in
	secret string // of an agent
	status int    // of the answer; 0: that of the route
}

// methods is the routes of one path.
type methods map[string]*route

// find returns the route of a method. HEAD is GET without a body, which makes
// no sense for a stream.
func (m methods) find(method string) *route {
	if rt := m[method]; rt != nil || method != http.MethodHead {
		return rt
	}
	if rt := m[http.MethodGet]; rt != nil && !rt.streams {
		return rt
	}
	return nil
}

// dispatch answers the requests to one path; with no methods there is no such
// path.
func (s *Server) dispatch(d Endpoint, m methods) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		w.Header().Set("Cache-Control", "no-store")
		name, err := "none", error(api.Errorf(api.Unknown, "there is no %.100q in this API", r.URL.Path).Try("see /openapi.json for all paths"))
		if m != nil {
			rt := m.find(r.Method)
			if rt == nil {
				allow := strings.Join(slices.Sorted(maps.Keys(m)), ", ")
				err = wrongMethod{api.Errorf(api.Invalid, "%.100s has no method %.20q", r.URL.Path, r.Method).Try("use " + allow), allow}
			} else {
				name = rt.path
				err = s.run(d, rt, w, r)
			}
		}
		if err != nil {
			s.refuse(w, r, err)
		}
		status := http.StatusOK
		if rec, ok := w.(*recorder); ok && rec.status != 0 {
			status = rec.status
		}
		s.Metrics.request(name, r.Method, status, time.Since(begin))
	})
}

// run checks a request against its route and answers it.
func (s *Server) run(d Endpoint, rt *route, w http.ResponseWriter, r *http.Request) error {
	c := &call{Server: s, at: d, w: w, r: r, route: rt}
	if rt.role > api.NoRole && !(rt.path == "/metrics" && s.PublicMetrics) {
		who, err := s.identify(d, r, func(secret string) (api.Identity, error) { return s.authenticate(r, secret) })
		if err != nil {
			return err
		}
		if who.Role < rt.role {
			return api.Errorf(api.Denied, "%s may not do that: it needs the role %s, and has %s", who.User, rt.role, who.Role)
		}
		c.who = who
	}
	if rt.agent {
		if err := c.admitAgent(); err != nil {
			return err
		}
	}
	var err error
	if c.query, err = rt.parseQuery(r.URL.RawQuery); err != nil {
		return err
	}
	for _, name := range rt.segments() {
		if err := checkName(name, r.PathValue(name)); err != nil {
			return err
		}
	}
	if err := c.readBody(); err != nil {
		return err
	}
	reply, err := rt.handle(c)
	if err != nil {
		return err
	}
	switch {
	case rt.writes: // by itself
	case reply == nil:
		w.WriteHeader(http.StatusNoContent)
	case c.status != 0:
		s.answer(w, c.status, reply)
	default:
		s.answer(w, rt.okStatus(), reply)
	}
	return nil
}

// checkName refuses names that nothing can have, before they reach anybody who
// might make a file name of them.
func checkName(field, v string) error {
	if v == "" || v == "." || v == ".." || len(v) > maxText || !utf8.ValidString(v) || strings.ContainsFunc(v, oddInName) {
		return api.Errorf(api.Invalid, "%.60q cannot be a name", v).On(field).Try("use 1 to 200 printable characters other than slashes")
	}
	return nil
}

func oddInName(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' }

// readBody decodes the body into a value of the route's type.
func (c *call) readBody() error {
	if c.route.in == nil {
		return nil
	}
	control := http.NewResponseController(c.w)
	_ = control.SetReadDeadline(time.Now().Add(readTime))
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.route.limit))
	_ = control.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return err
	case err != nil:
		return api.Errorf(api.Invalid, "the body cannot be read: %w", err)
	}
	c.body = reflect.New(reflect.TypeOf(c.route.in)).Interface()
	return decode(data, c.body)
}
