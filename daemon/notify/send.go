// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// The headers of a webhook.
const (
	HeaderDelivery  = "Fairway-Delivery"  // the same when it is sent again
	HeaderTimestamp = "Fairway-Timestamp" // Unix time in seconds
	HeaderSignature = "Fairway-Signature" // see Sign
)

// Sign returns the signature of a webhook: the HMAC-SHA256 of the timestamp, a dot and
// the body, in hexadecimal.
func Sign(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.", timestamp)
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// sendTime is how long one delivery may take.
const sendTime = 20 * time.Second

// sender delivers notices to one target.
type sender func(ctx context.Context, m *message) error

// newSender reads the files of a target.
func newSender(t Target, sendmail string, now func() time.Time) (sender, error) {
	if t.Kind == Mail {
		return func(ctx context.Context, m *message) error { return mail(ctx, sendmail, t.To, &m.Notice) }, nil
	}
	address, err := t.address()
	if err != nil {
		return nil, err
	}
	secret, err := t.secret()
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Timeout: sendTime,
		// A redirect could lead anywhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute},
	}
	return func(ctx context.Context, m *message) error {
		body, err := bodyOf(t.Kind, m)
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
		if err != nil {
			return err
		}
		stamp := strconv.FormatInt(now().Unix(), 10)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User-Agent", "fairway")
		r.Header.Set(HeaderDelivery, m.ID)
		r.Header.Set(HeaderTimestamp, stamp)
		if secret != nil {
			r.Header.Set(HeaderSignature, Sign(secret, stamp, body))
		}
		return post(client, r)
	}, nil
}

// post sends a request. Its errors do not contain the URL, which may be a secret.
func post(client *http.Client, r *http.Request) error {
	resp, err := client.Do(r)
	var named *url.Error
	if errors.As(err, &named) {
		err = named.Err
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	const most = 64 << 10 // so that the connection can be used again
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, most))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the target answers %s", resp.Status)
	}
	return nil
}

func bodyOf(kind string, m *message) ([]byte, error) {
	if kind == Slack {
		return json.Marshal(map[string]string{"text": slackText(text(&m.Notice))})
	}
	n := m.Notice
	n.Notify = nil
	return json.Marshal(struct {
		ID string `json:"id"`
		api.Notice
	}{m.ID, n})
}

// slackText escapes what Slack takes for links and mentions.
func slackText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// text tells a notice in one line.
func text(n *api.Notice) string {
	what := map[string]string{
		api.NoticeStarted: "has started", api.NoticePreempted: "was preempted", api.NoticeRetried: "failed and is tried again",
		api.NoticeFinished: "has finished", api.NoticeFailed: "has failed", api.NoticeCancelled: "was cancelled",
	}[n.Event]
	s := fmt.Sprintf("Job %s of %s %s", n.Job, n.User, what)
	if n.Text != "" && n.Text != n.Event {
		s += ": " + n.Text
	}
	return s
}

// mail hands a mail to the machine's own mail system.
func mail(ctx context.Context, sendmail, to string, n *api.Notice) error {
	user := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-@", r) {
			return r
		}
		return -1
	}, n.User)
	to = strings.ReplaceAll(to, "{user}", strings.TrimLeft(user, "-"))
	line := strings.Join(strings.Fields(text(n)), " ") // no line breaks in a header
	subject, _, _ := strings.Cut(line, ": ")
	var b bytes.Buffer
	fmt.Fprintf(&b, "To: %s\nSubject: [fairway] %s\nAuto-Submitted: auto-generated\nContent-Type: text/plain; charset=utf-8\n\n", to, subject)
	fmt.Fprintf(&b, "%s\n\ntenant %s, app %s, at %s\nSee: fairway explain %s\n", text(n), n.Tenant, n.App, n.At.Format(time.RFC3339), n.Job)
	c := exec.CommandContext(ctx, sendmail, "-i", "--", to)
	c.Stdin = &b
	c.WaitDelay = time.Second
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.200s", sendmail, err, out)
	}
	return nil
}
