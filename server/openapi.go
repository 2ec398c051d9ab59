// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/api"
)

// describe makes the OpenAPI document of the table.
func describe(routes []*route, version string) ([]byte, error) {
	g := &generator{parts: map[string]any{}}
	paths := map[string]map[string]any{}
	for _, rt := range routes {
		if paths[rt.path] == nil {
			paths[rt.path] = map[string]any{}
		}
		paths[rt.path][strings.ToLower(rt.method)] = g.operation(rt)
	}
	doc := schema{
		"openapi": "3.1.0",
		"info": schema{
			"title": "Fairway", "version": version,
			"description": "The API of the Fairway daemon. Over its Unix socket the operating system says who asks; over the network a token does.",
			"license":     schema{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"paths": paths,
		"components": schema{
			"schemas": g.parts,
			"securitySchemes": schema{
				"token":   schema{"type": "http", "scheme": "bearer", "description": "A token made with POST /v1/tokens."},
				"session": schema{"type": "apiKey", "in": "cookie", "name": cookieName, "description": "A session of the dashboard; changes need the header X-Fairway: 1."},
				"attempt": schema{"type": "http", "scheme": "bearer", "description": "The secret of a running attempt, FAIRWAY_TOKEN in its environment."},
			},
		},
	}
	b, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	return b, nil
}

func (g *generator) operation(rt *route) schema {
	op := schema{"summary": rt.summary, "operationId": operationID(rt)}
	var params []any
	for _, name := range rt.segments() {
		params = append(params, schema{"name": name, "in": "path", "required": true, "schema": schema{"type": "string", "maxLength": maxText}})
	}
	for _, p := range rt.params {
		params = append(params, p.describe())
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if rt.in != nil {
		body := g.of(reflect.TypeOf(rt.in), true)
		if len(rt.required) > 0 {
			body = schema{"allOf": []any{body}, "required": rt.required}
		}
		op["requestBody"] = schema{"required": true, "description": fmt.Sprintf("At most %d bytes.", rt.limit),
			"content": schema{"application/json": schema{"schema": body}}}
	}
	switch {
	case rt.agent:
		op["security"] = []any{schema{"attempt": []string{}}}
	case rt.role > api.NoRole:
		op["security"] = []any{schema{"token": []string{}}, schema{"session": []string{}}}
		op["description"] = "Needs the role " + rt.role.String() + "."
	}
	op["responses"] = g.responses(rt)
	return op
}

func (g *generator) responses(rt *route) schema {
	ok := schema{"description": "Done."}
	switch {
	case rt.out != nil:
		ok["content"] = schema{"application/json": schema{"schema": g.of(reflect.TypeOf(rt.out), false)}}
	case rt.kind != "":
		ok["content"] = schema{rt.kind: schema{"schema": schema{"type": "string"}}}
	}
	failed := schema{"description": "Refused.", "content": schema{"application/json": schema{"schema": g.of(reflect.TypeFor[api.ErrorBody](), false)}}}
	out := schema{strconv.Itoa(rt.okStatus()): ok, "default": failed}
	if rt.okStatus() == 201 && len(rt.segments()) == 0 && rt.role == api.User {
		out["200"] = schema{"description": "The key was known: nothing new was made.", "content": ok["content"]}
	}
	return out
}

func (p param) describe() schema {
	s := schema{}
	switch p.kind {
	case countParam:
		s["type"], s["minimum"] = "integer", 0
		if p.most < 1<<53 {
			s["maximum"] = p.most
		}
	case flagParam:
		s["type"] = "boolean"
	case textParam:
		s["type"], s["maxLength"] = "string", maxText
		if len(p.choice) > 0 {
			s["enum"] = p.choice
		}
	}
	if p.repeat {
		s = schema{"type": "array", "items": s}
	}
	return schema{"name": p.name, "in": "query", "description": p.help, "schema": s}
}

// operationID names an operation for generators of clients: method and path.
func operationID(rt *route) string {
	words := strings.FieldsFunc(rt.method+" "+strings.TrimPrefix(rt.path, "/v1"), func(r rune) bool { return strings.ContainsRune(" /{}.", r) })
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	return strings.ToLower(strings.Join(words, "_"))
}
