// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/fairway-gpu/fairway/api"
)

const maxForm = 16 << 10

// loginPage needs neither script nor style of its own: the content policy
// forbids both in a page.
var loginPage = template.Must(template.New("login").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Fairway: log in</title>
<link rel="stylesheet" href="/style.css">
</head>
<body class="login">
<main>
<h1>Fairway</h1>
{{with .}}<p role="alert">{{.}}</p>{{end}}
<form method="post" action="/login">
<p><label for="token">Token</label><br>
<input id="token" name="token" type="password" autocomplete="current-password" size="50" required autofocus></p>
<p><button type="submit">Log in</button></p>
</form>
<p><code>fairway dashboard</code> prints a link that logs you in. An admin makes tokens with <code>fairway token create</code>.</p>
</main>
</body>
</html>
`))

// LoginLink returns a path with a one-time code that logs a browser in as
// somebody, within ten minutes: append it to the URL of a listener.
func (s *Server) LoginLink(who api.Identity) string { return s.loginPath(session{Who: who}) }

func (s *Server) loginPath(v session) string {
	return "/login?code=" + url.QueryEscape(s.codes.issue(v))
}

// createLogin makes a link that logs a browser in as the caller. The session of a token
// ends with the token.
func createLogin(c *call) (any, error) {
	if c.URL == "" {
		return nil, api.Errorf(api.Unavailable, "the daemon has no address for browsers").Try("open the dashboard at its own address and log in with a token")
	}
	v := session{Who: c.who}
	if c.r.Header.Get("Authorization") != "" {
		v.Secret, _ = bearer(c.r) // it was read before
	}
	if len(v.Secret) > maxSessionSecret {
		return nil, api.Errorf(api.Invalid, "the token has more than %d bytes", maxSessionSecret)
	}
	return api.LoginLink{URL: c.URL + c.loginPath(v)}, nil
}

// login turns a one-time code or a token into a session.
func (s *Server) login(d Endpoint, w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		code := r.URL.Query().Get("code")
		if code == "" || r.Method == http.MethodHead {
			showLogin(w, http.StatusOK, "")
			return
		}
		s.loginByCode(d, w, r, code)
	case http.MethodPost:
		s.loginByToken(d, w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "want GET or POST", http.StatusMethodNotAllowed)
	}
}

func (s *Server) loginByCode(d Endpoint, w http.ResponseWriter, r *http.Request, code string) {
	v, ok := s.codes.use(code)
	if !ok {
		if s.slow(r) != nil {
			showLogin(w, http.StatusTooManyRequests, "Too many tries came from your address. Wait a minute.")
			return
		}
		showLogin(w, http.StatusForbidden, "This link was used before, or is older than ten minutes. The command fairway dashboard prints a fresh one; or log in with a token.")
		return
	}
	s.begin(d, w, r, v)
}

// loginByToken takes the form of the login page, or of the dashboard's script,
// which wants its errors as JSON.
func (s *Server) loginByToken(d Endpoint, w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.Header.Get("Origin") != "" && !sameOrigin(r) {
		showLogin(w, http.StatusForbidden, "The form was sent by another site.")
		return
	}
	if err := r.ParseForm(); err != nil {
		showLogin(w, http.StatusBadRequest, "The form cannot be read.")
		return
	}
	secret := strings.TrimSpace(r.PostForm.Get("token"))
	if secret == "" || len(secret) > maxSessionSecret {
		showLogin(w, http.StatusBadRequest, fmt.Sprintf("Give a token of at most %d bytes.", maxSessionSecret))
		return
	}
	who, err := s.authenticate(r, secret)
	switch {
	case err != nil && r.Header.Get("X-Fairway") == "1":
		s.refuse(w, r, err)
		return
	case err != nil:
		refused, status := s.refusal(r, err)
		showLogin(w, status, "That did not work: "+refused.Message+".")
		return
	}
	s.begin(d, w, r, session{Who: who, Secret: secret})
}

// begin sets the cookie of a session and shows the dashboard.
func (s *Server) begin(d Endpoint, w http.ResponseWriter, r *http.Request, v session) {
	cookie, err := s.sessions.begin(v.Who, v.Secret)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	http.SetCookie(w, sessionCookie(d, cookie, int(sessionLife.Seconds())))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// logout ends the session of the cookie that was sent.
func (s *Server) logout(d Endpoint, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		s.refuse(w, r, wrongMethod{api.Errorf(api.Invalid, "%s has no method %s", r.URL.Path, r.Method), "POST"})
		return
	}
	if err := sameSite(r); err != nil {
		s.refuse(w, r, err)
		return
	}
	if c, err := r.Cookie(cookieName); err == nil {
		if v, ok := s.sessions.open(c.Value); ok {
			s.sessions.end(v)
		}
	}
	http.SetCookie(w, sessionCookie(d, "", -1))
	w.WriteHeader(http.StatusNoContent)
}

func sessionCookie(d Endpoint, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: d.Kind == Secure,
	}
}

func showLogin(w http.ResponseWriter, status int, problem string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The page is small and its writer is the connection: what fails here is the
	// client's, who is gone.
	_ = loginPage.Execute(w, problem)
}
