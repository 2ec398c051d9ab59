// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// example is the address and the body of a request that succeeds.
func example(rt *route) (path, body string) {
	path = strings.NewReplacer("{id}", "x1", "{name}", "n1").Replace(rt.path)
	bodies := map[string]string{
		"POST /v1/jobs":               `{"command":["true"],"gpus":1}`,
		"POST /v1/preview":            `{"command":["true"],"gpus":1}`,
		"POST /v1/jobfile":            `{"text":"gpus: 1"}`,
		"POST /v1/searches":           `{"id":"a1","parameters":{"lr":{"min":0.1,"max":1}},"trials":2,"trial":{"command":["true"]}}`,
		"POST /v1/jobs/{id}/handover": `{"to":"other/j1"}`,
		"POST /v1/apps":               `{"id":"a1","jobs":[{"command":["true"],"gpus":1}]}`,
		"PUT /v1/nodes/{name}":        `{"state":"cordoned"}`,
		"PUT /v1/tenants/{id}":        `{"weight":2}`,
		"PUT /v1/policy":              `{"policy":"las"}`,
		"PUT /v1/apps/{id}/agent":     `{"url":"http://127.0.0.1:9000"}`,
		"POST /v1/tokens":             `{"user":"ann","role":"user"}`,
		"POST /v1/agent/report":       `{"done":1}`,
	}
	return path, bodies[rt.method+" "+rt.path]
}

// TestRoles has the least role of every route in a list of its own, so that a
// slip in the table shows.
func TestRoles(t *testing.T) {
	least := map[string]api.Role{
		"GET /v1/overview": api.Viewer, "GET /v1/whoami": api.Viewer,
		"POST /v1/jobs": api.User, "GET /v1/jobs": api.Viewer, "GET /v1/jobs/{id}": api.Viewer,
		"POST /v1/preview":          api.User,
		"POST /v1/jobfile":          api.User,
		"POST /v1/jobs/{id}/cancel": api.User, "POST /v1/jobs/{id}/pause": api.User, "POST /v1/jobs/{id}/resume": api.User,
		"GET /v1/jobs/{id}/explain": api.Viewer, "GET /v1/jobs/{id}/points": api.Viewer, "GET /v1/jobs/{id}/logs": api.Viewer,
		"GET /v1/jobs/{id}/metrics": api.Viewer, "GET /v1/jobs/{id}/logs/files": api.Viewer, "GET /v1/usage": api.Viewer,
		"POST /v1/jobs/{id}/handover": api.User, "GET /v1/jobs/{id}/submission": api.User,
		"POST /v1/apps": api.User, "GET /v1/apps": api.Viewer,
		"POST /v1/searches": api.User, "GET /v1/searches": api.Viewer, "GET /v1/searches/{id}": api.Viewer,
		"POST /v1/apps/{id}/cancel": api.User, "POST /v1/apps/{id}/pause": api.User, "POST /v1/apps/{id}/resume": api.User,
		"GET /v1/apps/{id}/agent": api.Viewer, "PUT /v1/apps/{id}/agent": api.User, "DELETE /v1/apps/{id}/agent": api.User,
		"GET /v1/nodes": api.Viewer, "PUT /v1/nodes/{name}": api.Admin, "POST /v1/journal/acknowledge": api.Admin, "GET /v1/tenants": api.Viewer, "PUT /v1/tenants/{id}": api.Admin,
		"GET /v1/events": api.Viewer, "GET /v1/events/stream": api.Viewer, "GET /v1/history": api.Viewer,
		"GET /v1/policy": api.Viewer, "PUT /v1/policy": api.Admin, "GET /v1/policies": api.Viewer,
		"GET /v1/tokens": api.Admin, "POST /v1/tokens": api.Admin, "DELETE /v1/tokens/{id}": api.Admin, "POST /v1/login": api.Viewer,
		"GET /healthz": api.NoRole, "GET /readyz": api.NoRole, "GET /metrics": api.Viewer, "GET /openapi.json": api.NoRole,
	}
	f := newFake()
	r := start(t, config(f))
	for _, rt := range table() {
		name := rt.method + " " + rt.path
		want, known := least[name]
		if !known && !rt.agent {
			t.Errorf("%s: which role it needs is not in this test", name)
			continue
		}
		delete(least, name)
		path, body := example(rt)
		for _, role := range []api.Role{api.NoRole, api.Viewer, api.User, api.Admin} {
			header := []string{"X-Role", role.String()}
			if role != api.NoRole {
				header = append(header, "Authorization", "Bearer fw_"+role.String())
			}
			if rt.path == "/v1/events/stream" {
				header = append(header, "Last-Event-ID", "wrong") // or it would go on for ever
			}
			status := ask(t, rt.method, r.plain+path, body, header...).status
			switch {
			case rt.agent && status != 401: // a token is not the secret of an attempt
				t.Errorf("%s as %s: %d; want 401", name, role, status)
			case rt.agent:
			case role == api.NoRole && want > api.NoRole && status != 401:
				t.Errorf("%s as nobody: %d; want 401", name, status)
			case role > api.NoRole && role < want && status != 403:
				t.Errorf("%s as %s: %d; want 403", name, role, status)
			case role >= want && rt.path == "/v1/events/stream" && role > api.NoRole && status != 400:
				t.Errorf("%s as %s: %d; want 400 for the wrong header", name, role, status)
			case role >= want && rt.path != "/v1/events/stream" && status/100 != 2:
				t.Errorf("%s as %s: %d; want success", name, role, status)
			}
		}
	}
	for name := range least {
		t.Errorf("%s: there is no such route", name)
	}
}

func TestPublicMetrics(t *testing.T) {
	c := config(newFake())
	c.PublicMetrics = true
	r := start(t, c)
	if a := ask(t, "GET", r.plain+"/metrics", ""); a.status != 200 || !strings.Contains(a.body, "fairway_gpus ") {
		t.Errorf("%d %.200s", a.status, a.body)
	}
}

// clock is a time that tests move.
type clock struct{ at time.Time }

func cookieOf(a answer) string {
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == cookieName {
			return c.Value
		}
	}
	return ""
}

func TestLogin(t *testing.T) {
	f := newFake()
	now := &clock{time.Now()}
	c := config(f)
	c.Now = func() time.Time { return now.at }
	c.SessionKey = []byte("0123456789abcdef0123456789abcdef")
	r := start(t, c)
	ann := api.Identity{User: "ann", Tenant: "nlp", Role: api.User, Owner: api.Owner{Name: "ann", UID: 7, GID: 8}}

	link := r.LoginLink(ann)
	a := ask(t, "GET", r.plain+link, "")
	cookie := cookieOf(a)
	if a.status != 303 || a.header.Get("Location") != "/" || cookie == "" {
		t.Fatalf("login by link: %d %v", a.status, a.header)
	}
	if set := a.header.Get("Set-Cookie"); !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Strict") || strings.Contains(set, "Secure") {
		t.Errorf("cookie: %s", set)
	}
	session := cookieName + "=" + cookie
	if a := ask(t, "GET", r.plain+"/v1/jobs/x1", "", "Cookie", session); a.status != 200 || f.last().who != ann {
		t.Errorf("with the session: %d as %+v; want 200 as %+v", a.status, f.last().who, ann)
	}
	if a := ask(t, "GET", r.plain+link, ""); a.status != 403 || cookieOf(a) != "" {
		t.Errorf("the link a second time: %d %v", a.status, a.header)
	}
	late := r.LoginLink(ann)
	now.at = now.at.Add(11 * time.Minute)
	if a := ask(t, "GET", r.plain+late, ""); a.status != 403 || cookieOf(a) != "" {
		t.Errorf("a link after eleven minutes: %d", a.status)
	}
	// A link that a token asks for logs in with the token, and ends with it.
	asked := ask(t, "POST", r.plain+"/v1/login", "", "Authorization", asUser)
	var made api.LoginLink
	if err := json.Unmarshal([]byte(asked.body), &made); err != nil || asked.status != 201 || !strings.HasPrefix(made.URL, c.URL+"/login?code=") {
		t.Fatalf("ask for a link: %d %s", asked.status, asked.body)
	}
	byToken := cookieName + "=" + cookieOf(ask(t, "GET", r.plain+strings.TrimPrefix(made.URL, c.URL), ""))
	if a := ask(t, "GET", r.plain+"/v1/whoami", "", "Cookie", byToken); a.status != 200 || !strings.Contains(a.body, "user-1") {
		t.Errorf("with the session of a token: %d %s", a.status, a.body)
	}
	f.set(func(f *fake) { f.keys["fw_user"] = api.Errorf(api.Denied, "revoked") })
	if a := ask(t, "GET", r.plain+"/v1/whoami", "", "Cookie", byToken); a.status != 401 {
		t.Errorf("after the token was revoked: %d; want 401", a.status)
	}
	f.set(func(f *fake) { delete(f.keys, "fw_user") })
	// Another server with the same key knows the session, one with its own does not.
	if a := ask(t, "GET", start(t, c).plain+"/v1/whoami", "", "Cookie", session); a.status != 200 {
		t.Errorf("after a restart: %d", a.status)
	}
	c.SessionKey, c.Metrics = nil, nil
	if a := ask(t, "GET", start(t, c).plain+"/v1/whoami", "", "Cookie", session); a.status != 401 {
		t.Errorf("with another key: %d", a.status)
	}
	if a := ask(t, "GET", r.plain+"/v1/whoami", "", "Cookie", session[:len(session)-2]+"xx"); a.status != 401 {
		t.Errorf("a session that was changed: %d", a.status)
	}
	now.at = now.at.Add(12 * time.Hour)
	if a := ask(t, "GET", r.plain+"/v1/whoami", "", "Cookie", session); a.status != 401 {
		t.Errorf("after twelve hours: %d", a.status)
	}
}

func TestLoginByToken(t *testing.T) {
	f := newFake()
	r := start(t, config(f))
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	if a := ask(t, "GET", r.plain+"/login", ""); a.status != 200 || !strings.Contains(a.body, `name="token"`) {
		t.Errorf("the page: %d", a.status)
	}
	a := ask(t, "POST", r.plain+"/login", "token=fw_user", append(form, "Origin", r.plain)...)
	session := cookieName + "=" + cookieOf(a)
	if a.status != 303 || cookieOf(a) == "" || strings.Contains(a.header.Get("Set-Cookie"), "fw_user") {
		t.Fatalf("login: %d %v", a.status, a.header)
	}
	for _, k := range []struct {
		name, body string
		header     []string
		want       int
	}{
		{"wrong", "token=fw_none", form, 401},
		{"wrong, from the script", "token=fw_none", append(form, "X-Fairway", "1"), 401},
		{"empty", "token=", form, 400},
		{"none", "", form, 400},
		{"other site", "token=fw_user", append(form, "Origin", "http://evil.example"), 403},
		{"large", "token=" + strings.Repeat("x", maxForm), form, 400},
	} {
		if a := ask(t, "POST", r.plain+"/login", k.body, k.header...); a.status != k.want || cookieOf(a) != "" {
			t.Errorf("%s: %d; want %d", k.name, a.status, k.want)
		}
	}
	cancel := r.plain + "/v1/jobs/x1/cancel"
	for _, k := range []struct {
		name   string
		header []string
		want   int
	}{
		{"from the page", []string{"X-Fairway", "1", "Origin", r.plain}, 200},
		{"without the header", []string{"Origin", r.plain}, 403},
		{"without origin", []string{"X-Fairway", "1"}, 403},
		{"from another site", []string{"X-Fairway", "1", "Origin", "http://evil.example"}, 403},
		{"from another port", []string{"X-Fairway", "1", "Origin", "http://127.0.0.1:1"}, 403},
	} {
		if a := ask(t, "POST", cancel, "", append(k.header, "Cookie", session)...); a.status != k.want {
			t.Errorf("change %s: %d %s; want %d", k.name, a.status, a.body, k.want)
		}
	}
	// A token that is revoked takes its sessions with it.
	f.set(func(f *fake) { f.keys["fw_user"] = api.Errorf(api.Denied, "revoked") })
	if a := ask(t, "GET", r.plain+"/v1/whoami", "", "Cookie", session); a.status != 401 {
		t.Errorf("after the token was revoked: %d", a.status)
	}
	f.set(func(f *fake) { delete(f.keys, "fw_user") })
	if a := ask(t, "POST", r.plain+"/logout", "", "Cookie", session, "X-Fairway", "1", "Origin", r.plain); a.status != 204 {
		t.Errorf("logout: %d", a.status)
	}
	if a := ask(t, "GET", r.plain+"/v1/whoami", "", "Cookie", session); a.status != 401 {
		t.Errorf("after logout: %d", a.status)
	}
}

func TestTooManyFailures(t *testing.T) {
	f := newFake()
	now := &clock{time.Now()}
	c := config(f)
	c.Now = func() time.Time { return now.at }
	r := start(t, c)
	who := r.plain + "/v1/whoami"
	guess := func(secret string) (status int, took time.Duration) {
		begin := time.Now()
		a := ask(t, "GET", who, "", "Authorization", "Bearer "+secret)
		if a.status == 429 && a.header.Get("Retry-After") == "" {
			t.Errorf("%s: 429 without Retry-After", secret)
		}
		return a.status, time.Since(begin)
	}
	for i := range 20 {
		if status, _ := guess("guess"); status != 401 {
			t.Fatalf("guess %d: %d", i, status)
		}
	}
	if status, _ := guess("guess"); status != 429 {
		t.Errorf("the same wrong token once more: %d; want 429", status)
	}
	// Others behind the address are not locked out; wrong ones wait for their answer.
	if status, took := guess("another"); status != 401 || took < r.penalty {
		t.Errorf("another wrong token: %d after %s; want 401 after %s", status, took, r.penalty)
	}
	link := r.LoginLink(api.Identity{User: "ann", Role: api.User})
	for range cap(r.held) {
		r.held <- struct{}{}
	}
	if status, _ := guess("third"); status != 429 {
		t.Errorf("a wrong token while many wait: %d; want 429", status)
	}
	if a := ask(t, "GET", r.plain+"/login?code=guess", ""); a.status != 429 {
		t.Errorf("a wrong code while many wait: %d; want 429", a.status)
	}
	if status, _ := guess("fw_admin"); status != 200 {
		t.Errorf("a right token: %d; want 200", status)
	}
	if a := ask(t, "GET", r.plain+link, ""); a.status != 303 {
		t.Errorf("a right code: %d; want 303", a.status)
	}
	now.at = now.at.Add(3 * time.Second)
	if status, _ := guess("guess"); status != 401 {
		t.Errorf("the wrong token after a while: %d; want 401", status)
	}
}

func TestReportLimit(t *testing.T) {
	now := &clock{time.Now()}
	c := config(newFake())
	c.Now = func() time.Time { return now.at }
	r := start(t, c)
	report := func(secret string) int {
		return ask(t, "POST", r.plain+"/v1/agent/report", `{"done":1}`, "Authorization", "Bearer "+secret).status
	}
	for i := range 100 {
		if status := report("attempt"); status != 200 {
			t.Fatalf("report %d: %d", i, status)
		}
	}
	if status := report("attempt"); status != 429 {
		t.Errorf("report 101: %d; want 429", status)
	}
	if status := report("other"); status != 401 {
		t.Errorf("another attempt: %d; want 401", status)
	}
	now.at = now.at.Add(time.Second)
	if status := report("attempt"); status != 200 {
		t.Errorf("a second later: %d", status)
	}
}

func TestLimiterForgets(t *testing.T) {
	now := &clock{time.Now()}
	l := newLimiter(limit{every: time.Second, burst: 2}, func() time.Time { return now.at })
	for i := range 3 * maxBuckets {
		l.take(strings.Repeat("k", i%50) + time.Duration(i).String())
	}
	if len(l.fresh) > maxBuckets {
		t.Errorf("%d buckets; want at most %d", len(l.fresh), maxBuckets)
	}
	got := []bool{l.take("a"), l.take("a"), l.take("a")}
	now.at = now.at.Add(time.Second)
	got = append(got, l.take("a"), l.take("a"))
	for i, want := range []bool{true, true, false, true, false} {
		if got[i] != want {
			t.Errorf("take %d: %v; want %v", i, got[i], want)
		}
	}
}

func TestHosts(t *testing.T) {
	r := start(t, config(newFake()))
	for host, want := range map[string]int{"127.0.0.1": 200, "localhost:7777": 200, "[::1]:80": 200, "evil.example": 403, "evil.example:80": 403, "127.0.0.1.evil.example": 403} {
		if a := ask(t, "GET", r.plain+"/healthz", "", "Host", host); a.status != want {
			t.Errorf("host %s: %d; want %d", host, a.status, want)
		}
	}
}

func TestHeaders(t *testing.T) {
	r := start(t, config(newFake()))
	for _, path := range []string{"/", "/v1/whoami", "/v1/none", "/login", "/none"} {
		a := ask(t, "GET", r.plain+path, "", "Authorization", asViewer)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
		} {
			if !strings.Contains(a.header.Get(name), want) {
				t.Errorf("%s: %s = %q; want %q", path, name, a.header.Get(name), want)
			}
		}
		if strings.HasPrefix(path, "/v1/") && a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be stored: %v", path, a.header)
		}
	}
}
