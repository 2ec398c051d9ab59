// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Config says whom the daemon may notify. Jobs can name only these targets: a user must
// not make the daemon call what the user could not reach.
type Config struct {
	Targets  []Target `json:"targets"`
	Sendmail string   `json:"sendmail"` // program that sends mail
}

// Default is what applies without a configuration.
func Default() Config { return Config{Sendmail: "/usr/sbin/sendmail"} }

// The kinds of target.
const (
	Webhook = "webhook" // a signed JSON object
	Slack   = "slack"   // a text, as Slack and others like it read it
	Mail    = "mail"
)

// Target is where notices go.
type Target struct {
	Name string `json:"name"` // that jobs use
	Kind string `json:"kind"`
	// URL is of a webhook. Those of Slack are secret: URLFile is a file with it.
	URL     string `json:"url"`
	URLFile string `json:"url_file"`
	// SecretFile holds the key that a webhook is signed with; empty: it is not signed.
	SecretFile string `json:"secret_file"`
	// To is the address of a mail; {user} in it is the user of the job.
	To string `json:"to"`
	// Tenants are those whose jobs it is told of without their asking, "*": all, and Events
	// of what; none: of their ends.
	Tenants []sched.TenantID `json:"tenants"`
	Events  []string         `json:"events"`
}

// Validate says which field is wrong, if any. It reads the files that are named.
func (c Config) Validate() error {
	for i, t := range c.Targets {
		at := fmt.Sprintf("notify.targets[%d]", i)
		if err := t.validate(); err != nil {
			return fmt.Errorf("%s.%w", at, err)
		}
		if slices.ContainsFunc(c.Targets[:i], func(o Target) bool { return o.Name == t.Name }) {
			return fmt.Errorf("%s.name = %q; want one that no other target has", at, t.Name)
		}
		if t.Kind == Mail && !filepath.IsAbs(c.Sendmail) {
			return fmt.Errorf("notify.sendmail = %q; want an absolute path", c.Sendmail)
		}
	}
	return nil
}

func (t Target) validate() error {
	if _, _, err := api.ParseNotify(t.Name); err != nil || strings.ContainsAny(t.Name, ":, ") {
		return fmt.Errorf("name = %q; want a word that jobs can use", t.Name)
	}
	for _, e := range t.Events {
		if !slices.Contains(api.NoticeEvents(), e) {
			return fmt.Errorf("events = %q; want some of %s", t.Events, strings.Join(api.NoticeEvents(), ", "))
		}
	}
	switch t.Kind {
	case Webhook, Slack:
		if _, err := t.address(); err != nil {
			return err
		}
		_, err := t.secret()
		return err
	case Mail:
		if t.To == "" || strings.ContainsAny(t.To, "\r\n, ") || strings.HasPrefix(t.To, "-") {
			return fmt.Errorf("to = %q; want one mail address, such as {user}@lab.example", t.To)
		}
		return nil
	}
	return fmt.Errorf("kind = %q; want %s, %s or %s", t.Kind, Webhook, Slack, Mail)
}

// address returns where a webhook is.
func (t Target) address() (string, error) {
	text, field := t.URL, "url"
	if t.URLFile != "" {
		if text != "" {
			return "", errors.New("url, url_file = both are set; want one of them")
		}
		b, err := os.ReadFile(t.URLFile)
		if err != nil {
			return "", fmt.Errorf("url_file = %s; want a file with a URL: %w", t.URLFile, err)
		}
		text, field = strings.TrimSpace(string(b)), "url_file"
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%s: want a URL that begins with http:// or https://", field) // it may be a secret
	}
	return text, nil
}

// secret returns the key that a webhook is signed with; nil: it is not.
func (t Target) secret() ([]byte, error) {
	if t.SecretFile == "" {
		return nil, nil
	}
	const least = 16
	b, err := os.ReadFile(t.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("secret_file = %s; want a file: %w", t.SecretFile, err)
	}
	if b = []byte(strings.TrimSpace(string(b))); len(b) < least {
		return nil, fmt.Errorf("secret_file = %s: %d bytes; want %d or more", t.SecretFile, len(b), least)
	}
	return b, nil
}

// Check says why a job may not name a target, if it may not.
func (c Config) Check(text string) error {
	name, _, err := api.ParseNotify(text)
	if err != nil {
		return err
	}
	var names []string
	for _, t := range c.Targets {
		if t.Name == name {
			return nil
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return api.Errorf(api.Invalid, "is %.60q, and the daemon has no targets", text).On("notify").Try("ask an admin to add one to the daemon's configuration (notify.targets)")
	}
	return api.Errorf(api.Invalid, "is %.60q", text).On("notify").Try("use " + strings.Join(names, ", "))
}

// wants reports whether a target is told of a notice: because the job names it, or
// because of its tenant.
func (t Target) wants(n *api.Notice) bool {
	for _, text := range n.Notify {
		if name, events, err := api.ParseNotify(text); err == nil && name == t.Name && slices.Contains(events, n.Event) {
			return true
		}
	}
	events := t.Events
	if len(events) == 0 {
		events = api.DefaultNotices()
	}
	return slices.Contains(events, n.Event) && (slices.Contains(t.Tenants, n.Tenant) || slices.Contains(t.Tenants, "*"))
}
