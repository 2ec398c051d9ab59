// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/google/go-cmp/cmp"
)

// object walks a JSON document.
type object map[string]any

func (o object) at(path ...string) object {
	for _, p := range path {
		next, ok := o[p].(map[string]any)
		if !ok {
			return nil
		}
		o = next
	}
	return o
}

func document(t *testing.T, s *Server) object {
	t.Helper()
	var doc object
	if err := json.Unmarshal(s.openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestOpenAPI checks the shape that OpenAPI 3.1 asks for, and that every route
// is in the document.
func TestOpenAPI(t *testing.T) {
	doc := document(t, newServer(t, config(newFake())))
	if !strings.HasPrefix(doc["openapi"].(string), "3.1.") || doc.at("info")["title"] == nil || doc.at("info")["version"] != "test" {
		t.Errorf("head: %v %v", doc["openapi"], doc["info"])
	}
	operations := 0
	ids := map[string]bool{}
	for path, item := range doc.at("paths") {
		for method, v := range item.(map[string]any) {
			operations++
			op := object(v.(map[string]any))
			if !slices.Contains([]string{"get", "put", "post", "delete"}, method) {
				t.Errorf("%s: method %s", path, method)
			}
			id, _ := op["operationId"].(string)
			if id == "" || ids[id] {
				t.Errorf("%s %s: operationId %q is empty or taken", method, path, id)
			}
			ids[id] = true
			var inPath []string
			params, _ := op["parameters"].([]any)
			for _, p := range params {
				p := object(p.(map[string]any))
				if p["name"] == "" || p.at("schema") == nil {
					t.Errorf("%s %s: parameter %v", method, path, p)
				}
				if p["in"] == "path" {
					inPath = append(inPath, "{"+p["name"].(string)+"}")
				}
			}
			if diff := cmp.Diff(regexp.MustCompile(`\{\w+\}`).FindAllString(path, -1), inPath); diff != "" {
				t.Errorf("%s: %s", path, diff)
			}
			for status, r := range op.at("responses") {
				if _, err := strconv.Atoi(status); err != nil && status != "default" || r.(map[string]any)["description"] == "" {
					t.Errorf("%s %s: response %s", method, path, status)
				}
			}
		}
	}
	for _, rt := range table() {
		if doc.at("paths", rt.path, strings.ToLower(rt.method), "responses") == nil {
			t.Errorf("%s %s is not in the document", rt.method, rt.path)
		}
	}
	if n := len(table()); operations != n {
		t.Errorf("%d operations for %d routes", operations, n)
	}
	refs := regexp.MustCompile(`"\$ref": "#/components/schemas/(\w+)"`)
	for _, m := range refs.FindAllStringSubmatch(string(newServer(t, config(newFake())).openAPI), -1) {
		if doc.at("components", "schemas", m[1]) == nil {
			t.Errorf("reference to %s, which is nowhere", m[1])
		}
	}
	if doc.at("components", "schemas", "SubmissionInput", "properties", "command") == nil || doc.at("components", "schemas", "Job", "properties", "gpus") == nil {
		t.Error("embedded fields are missing")
	}
}

// TestAnswersMatch compares real answers with their schemas.
func TestAnswersMatch(t *testing.T) {
	f := newFake()
	f.feed.add(filled[api.Record]())
	r := start(t, config(f))
	doc := document(t, r.Server)
	check := func(rt *route, a answer) {
		t.Helper()
		responses := doc.at("paths", rt.path, strings.ToLower(rt.method), "responses")
		response := responses.at(strconv.Itoa(a.status))
		if response == nil {
			response = responses.at("default")
		}
		s := response.at("content", "application/json", "schema")
		if s == nil {
			t.Errorf("%s %s: answer %d has no schema", rt.method, rt.path, a.status)
			return
		}
		var v any
		if err := json.Unmarshal([]byte(a.body), &v); err != nil {
			t.Errorf("%s %s: %v", rt.method, rt.path, err)
			return
		}
		for _, fault := range mismatch(doc, s, v, "answer") {
			t.Errorf("%s %s: %s", rt.method, rt.path, fault)
		}
	}
	for _, rt := range table() {
		if rt.out == nil {
			continue
		}
		path, body := example(rt)
		token := asAdmin
		if rt.agent {
			token = "Bearer attempt"
		}
		a := ask(t, rt.method, r.plain+path, body, "Authorization", token)
		if a.status/100 != 2 {
			t.Errorf("%s %s: %d %s", rt.method, rt.path, a.status, a.body)
		}
		check(rt, a)
		check(rt, ask(t, rt.method, r.plain+path, body))
	}
	// The check itself must see a wrong name, a wrong type and a missing field.
	job := doc.at("components", "schemas", "Job")
	for _, text := range []string{`{"surprise":1}`, `{"gpus":"one"}`, `{}`, `[]`} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if len(mismatch(doc, job, v, "answer")) == 0 {
			t.Errorf("%s passes for a job", text)
		}
	}
}

// mismatch says where a value does not follow a schema of the document. Fields
// that the schema does not name are faults here.
func mismatch(doc object, s object, v any, at string) []string {
	if ref, ok := s["$ref"].(string); ok {
		s = doc.at("components", "schemas", ref[strings.LastIndex(ref, "/")+1:])
	}
	if some, ok := s["anyOf"].([]any); ok {
		var faults []string
		for _, one := range some {
			if faults = mismatch(doc, one.(map[string]any), v, at); len(faults) == 0 {
				return nil
			}
		}
		return faults
	}
	var kinds []string
	switch k := s["type"].(type) {
	case string:
		kinds = []string{k}
	case []any:
		for _, one := range k {
			kinds = append(kinds, one.(string))
		}
	default:
		return []string{fmt.Sprintf("%s: the schema has no type", at)}
	}
	got := kindOf(v, kinds)
	if !slices.Contains(kinds, got) {
		return []string{fmt.Sprintf("%s is of type %s; want %v", at, got, kinds)}
	}
	var faults []string
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			faults = append(faults, mismatch(doc, s.at("items"), e, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				faults = append(faults, fmt.Sprintf("%s.%s is missing", at, name))
			}
		}
		for name, e := range v {
			sub := s.at("properties", name)
			if sub == nil {
				sub = s.at("additionalProperties")
			}
			if sub == nil {
				faults = append(faults, fmt.Sprintf("%s.%s is not in the schema", at, name))
				continue
			}
			faults = append(faults, mismatch(doc, sub, e, at+"."+name)...)
		}
	}
	return faults
}

func kindOf(v any, wanted []string) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == float64(int64(v)) && slices.Contains(wanted, "integer") {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// TestDocs compares the table of routes in the manual with the code.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ Role, Body, Answer string }
	got := map[string]row{}
	for _, m := range regexp.MustCompile("(?m)^\\| (GET|PUT|POST|DELETE) \\| `([^`]+)` \\| (\\w+) \\| ([^|]*) \\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1) {
		got[m[1]+" "+m[2]] = row{m[3], strings.Trim(m[4], "` "), strings.Trim(m[5], "` ")}
	}
	want := map[string]row{}
	for _, rt := range table() {
		r := row{Role: rt.role.String(), Answer: rt.kind}
		if rt.agent {
			r.Role = "attempt"
		}
		if rt.in != nil {
			r.Body = fmt.Sprintf("%T", rt.in)
		}
		if rt.out != nil {
			r.Answer = fmt.Sprintf("%T", rt.out)
		}
		want[rt.method+" "+rt.path] = r
	}
	for name, w := range want {
		if got[name] != w {
			t.Errorf("docs/api.md: %s: %+v; want a line | %s | `%s` | %s | %s | %s |", name, got[name], strings.Fields(name)[0], strings.Fields(name)[1], w.Role, w.Body, w.Answer)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("docs/api.md: there is no %s", name)
		}
	}
	for _, rt := range table() {
		for _, p := range rt.params {
			if !strings.Contains(string(text), "`"+p.name+"`") {
				t.Errorf("docs/api.md does not mention the parameter %s of %s", p.name, rt.path)
			}
		}
	}
	for code, status := range statuses {
		if !strings.Contains(string(text), fmt.Sprintf("| `%s` | %d |", code, status)) {
			t.Errorf("docs/api.md has no line for %s, %d", code, status)
		}
	}
}
