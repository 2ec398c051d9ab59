// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"strings"

	"github.com/fairway-gpu/fairway/api"
)

// route is one line of the table: all that is known about a request.
type route struct {
	method, path string
	summary      string   // for people, in the OpenAPI document
	role         api.Role // the least; NoRole: anybody, or checked by the handler
	agent        bool     // takes the secret of an attempt instead of a token
	params       []param
	in           any      // a zero value of the body's type; nil: no body
	required     []string // fields of the body that have to be there
	limit        int64    // bytes of the body
	out          any      // a zero value of the answer's type; nil: none, or kind
	status       int      // of success; 0: 200, or 204 if there is no answer
	kind         string   // of an answer that is not JSON
	writes       bool     // the handler writes the answer itself
	streams      bool     // and does so for long
	handle       func(*call) (any, error)
}

func (rt *route) okStatus() int {
	switch {
	case rt.status != 0:
		return rt.status
	case rt.out == nil && rt.kind == "":
		return http.StatusNoContent
	}
	return http.StatusOK
}

// segments returns the names of the variable parts of the path.
func (rt *route) segments() []string {
	var names []string
	for part := range strings.SplitSeq(rt.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}
