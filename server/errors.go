// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/fairway-gpu/fairway/api"
)

// statuses maps every code to one HTTP status. Two cases have a status of their
// own: 401 when nobody said who asks, and 405 for a method a path does not have.
var statuses = map[api.Code]int{
	api.Invalid:     http.StatusBadRequest,
	api.Denied:      http.StatusForbidden,
	api.Unknown:     http.StatusNotFound,
	api.Conflict:    http.StatusConflict,
	api.TooLarge:    http.StatusRequestEntityTooLarge,
	api.TooMany:     http.StatusTooManyRequests,
	api.Unavailable: http.StatusServiceUnavailable,
	api.Internal:    http.StatusInternalServerError,
}

// unauthenticated is the refusal of a request that does not say who asks.
type unauthenticated struct{ refused *api.Error }

func (u unauthenticated) Error() string { return u.refused.Error() }
func (u unauthenticated) Unwrap() error { return u.refused }

// wrongMethod is the refusal of a method that a path does not have.
type wrongMethod struct {
	refused *api.Error
	allow   string
}

func (m wrongMethod) Error() string { return m.refused.Error() }
func (m wrongMethod) Unwrap() error { return m.refused }

func needsToken(message string) error {
	return unauthenticated{api.Errorf(api.Denied, "%s", message).
		Try("send a token: \"Authorization: Bearer fw_...\", or log in at /login; an admin creates tokens with `fairway token create`")}
}

// refusal turns any error into one that can be shown. What is not an Error of
// ours is a surprise: it is logged, and its text stays here.
func (s *Server) refusal(r *http.Request, err error) (*api.Error, int) {
	var large *http.MaxBytesError
	var refused *api.Error
	switch {
	case errors.As(err, &refused):
	case errors.As(err, &large):
		refused = api.Errorf(api.TooLarge, "the body has more than %d bytes", large.Limit).Try("send less at a time")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		refused = api.Errorf(api.Unavailable, "the request was cancelled before it completed").Try("try again")
	default:
		s.Log.ErrorContext(r.Context(), "unexpected error in a request", "method", r.Method, "path", r.URL.Path, "err", err)
		refused = api.Errorf(api.Internal, "unexpected error in the daemon").Try("see the daemon's log")
	}
	status, known := statuses[refused.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	var nobody unauthenticated
	if errors.As(err, &nobody) {
		status = http.StatusUnauthorized
	}
	return refused, status
}

// refuse answers with an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refused, status := s.refusal(r, err)
	var method wrongMethod
	if errors.As(err, &method) {
		status = http.StatusMethodNotAllowed
		w.Header().Set("Allow", method.allow)
	}
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="fairway"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "2")
	}
	s.answer(w, status, api.ErrorBody{Error: refused})
}

// answer writes a JSON body. A body that cannot be encoded, which is a bug of a
// service, becomes an error.
func (s *Server) answer(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		s.Log.Error("cannot encode the response", "err", err)
		status = http.StatusInternalServerError
		b, _ = json.Marshal(api.ErrorBody{Error: api.Errorf(api.Internal, "cannot encode the response as JSON").Try("see the daemon's log")})
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	if _, err := w.Write(append(b, '\n')); err != nil {
		s.Log.Log(context.Background(), slog.LevelDebug, "client disconnected", "err", err)
	}
}
