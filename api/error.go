// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
)

// Code classifies an error for a program. The API maps each to one HTTP status.
type Code string

// The codes.
const (
	Invalid     Code = "invalid"     // the request is wrong: see Field
	Denied      Code = "denied"      // who asks may not do that
	Unknown     Code = "unknown"     // there is no such thing, or not for who asks
	Conflict    Code = "conflict"    // the thing is not in a state in which that can be done
	TooLarge    Code = "too-large"   // the request is over a limit
	TooMany     Code = "too-many"    // too many requests, or the queue is full
	Unavailable Code = "unavailable" // not now: starting, stopping, disk full
	Internal    Code = "internal"    // a bug, or a failure of the machine
)

// Error is a refusal that a person or a program can act on.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`  // the field at fault, by its JSON name
	Remedy  string `json:"remedy,omitempty"` // what would help
	Err     error  `json:"-"`
}

func (e *Error) Error() string {
	s := e.Message
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrorTrailer is the HTTP trailer with the error of a log that broke off after it had begun.
const ErrorTrailer = "Fairway-Error"

// Errorf makes an error with a code.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// On says which field is at fault.
func (e *Error) On(field string) *Error { e.Field = field; return e }

// Try says what would help.
func (e *Error) Try(remedy string) *Error { e.Remedy = remedy; return e }

// CodeOf returns the code of an error; Internal if it has none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}
