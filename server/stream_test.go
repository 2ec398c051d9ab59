// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/google/go-cmp/cmp"
)

func note(text string) api.Record { return api.Record{At: time.Unix(1, 0).UTC(), Text: text} }

// openStream reads a stream by hand.
func openStream(t *testing.T, address string, header ...string) (*bufio.Reader, net.Conn) {
	t.Helper()
	return openStreamAs(t, address, asViewer, header...)
}

func openStreamAs(t *testing.T, address, token string, header ...string) (*bufio.Reader, net.Conn) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "GET /v1/events/stream HTTP/1.0\r\nHost: localhost\r\nAuthorization: %s\r\n", token)
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(c, "%s: %s\r\n", header[i], header[i+1])
	}
	fmt.Fprint(c, "\r\n")
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(c), c
}

// until reads lines up to one that begins so.
func until(t *testing.T, in *bufio.Reader, prefix string) string {
	t.Helper()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("waiting for %q: %v", prefix, err)
		}
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line)
		}
	}
}

func TestStream(t *testing.T) {
	f := newFake()
	secret := api.Token{ID: "t1", Hash: []byte("hash")}
	f.feed.add(note("one"), note("two"), api.Record{Token: &secret, Text: "three\nlines"})
	c := config(f)
	c.Heartbeat = 20 * time.Millisecond
	r := start(t, c)
	in, _ := openStream(t, r.plain, "Last-Event-ID", "1")
	if line := until(t, in, "Content-Type:"); !strings.Contains(line, "text/event-stream") {
		t.Error(line)
	}
	var got []string
	for range 2 {
		got = append(got, until(t, in, "id: "), until(t, in, "event: "), until(t, in, "data: "))
	}
	want := []string{
		"id: 2", "event: record", `data: {"seq":2,"at":"1970-01-01T00:00:01Z","text":"two"}`,
		"id: 3", "event: record", `data: {"seq":3,"at":"0001-01-01T00:00:00Z","text":"three\nlines","token":{"id":"t1","user":"","role":"none","created":"0001-01-01T00:00:00Z"}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if secret.Hash == nil {
		t.Error("the service's record was changed")
	}
	until(t, in, ": ")
	f.feed.add(note("four"))
	if line := until(t, in, "id: "); line != "id: 4" {
		t.Error(line)
	}
}

// TestWatch follows the feed over a restart of the daemon and loses nothing.
func TestWatch(t *testing.T) {
	f := newFake()
	path := filepath.Join(t.TempDir(), "f.sock")
	serve := func() (stop func()) {
		s := newServer(t, config(f))
		l, err := Listen(ListenConfig{Address: "unix://" + path})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, l) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	c, err := client.New(client.Options{Address: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Watch(t.Context(), api.RecordFilter{}, nil); api.CodeOf(err) != api.Unavailable {
		t.Errorf("watch with no daemon: %v", err)
	}
	f.feed.add(note("1"), note("2"), note("3"))
	stop := serve()
	texts := make(chan string, 10)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done <- c.Watch(ctx, api.RecordFilter{After: 1}, func(r api.Record) error {
			texts <- r.Text
			return nil
		})
	}()
	expect := func(want ...string) {
		t.Helper()
		for _, w := range want {
			select {
			case got := <-texts:
				if got != w {
					t.Fatalf("got record %s; want %s", got, w)
				}
			case <-time.After(patience):
				t.Fatalf("no record; want %s", w)
			}
		}
	}
	expect("2", "3")
	stop()
	f.feed.add(note("4"))
	stop = serve()
	f.feed.add(note("5"))
	expect("4", "5")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("watch ends with %v", err)
	}
	enough := errors.New("enough")
	if err := c.Watch(t.Context(), api.RecordFilter{}, func(api.Record) error { return enough }); err != enough {
		t.Errorf("watch whose function fails: %v", err)
	}
	f.set(func(f *fake) { f.err = api.Errorf(api.Denied, "no") })
	if err := c.Watch(t.Context(), api.RecordFilter{}, nil); api.CodeOf(err) != api.Denied {
		t.Errorf("watch that is refused: %v", err)
	}
	stop()
}

// TestPatientStream: a deadline is for writes, not for silence. Under HTTP/2 one
// that is left behind would end the stream.
func TestPatientStream(t *testing.T) {
	t.Parallel()                  // it waits
	const write = 3 * time.Second // the machine of the test may stop in the middle of one
	f := newFake()
	r := start(t, config(f), func(s *Server) { s.patience = write })
	ctx, cancel := context.WithCancel(t.Context())
	texts := make(chan string, 10)
	done := make(chan error, 1)
	c := r.client(t, r.secure, "fw_viewer")
	go func() {
		done <- c.Watch(ctx, api.RecordFilter{}, func(r api.Record) error { texts <- r.Text; return nil })
	}()
	for _, text := range []string{"1", "2"} {
		f.feed.add(note(text))
		if got := <-texts; got != text {
			t.Errorf("got %s; want %s", got, text)
		}
		time.Sleep(write + write/3)
	}
	cancel()
	<-done
	streams := 0
	f.set(func(f *fake) {
		for _, s := range f.seen {
			if s.method == "Watch" {
				streams++
			}
		}
	})
	if streams != 1 {
		t.Errorf("%d streams for one watch", streams)
	}
}

// TestStreamFault ends a stream with an event when the feed fails on the way.
func TestStreamFault(t *testing.T) {
	f := newFake()
	c := config(f)
	c.Feed = brokenFeed{f}
	r := start(t, c)
	in, _ := openStream(t, r.plain)
	until(t, in, "event: problem")
	if line := until(t, in, "data: "); !strings.Contains(line, `"code":"internal"`) || strings.Contains(line, "secret") {
		t.Error(line)
	}
}

// brokenFeed panics where the server has a goroutine of its own.
type brokenFeed struct{ *fake }

func (b brokenFeed) Watch(ctx context.Context, who api.Identity, _ api.RecordFilter, _ func(api.Record) error) error {
	if who.User == "metrics" {
		<-ctx.Done()
		return ctx.Err()
	}
	panic("secret")
}

func TestSlowClient(t *testing.T) {
	f := newFake()
	big := note(strings.Repeat("x", 64<<10))
	for range 400 { // more than the buffers of the socket and of the stream hold
		f.feed.add(big)
	}
	c := config(f)
	c.MaxStreams = 1
	r := start(t, c, func(s *Server) { s.patience = 100 * time.Millisecond })
	in, _ := openStream(t, r.plain)
	until(t, in, "event: record")
	// It reads no further: it is dropped, and its place is free again.
	eventually(t, func() error {
		if r.streams.taken() > 0 {
			return errors.New("a client that does not read keeps its stream")
		}
		return nil
	})
}

// TestMaxStreams: nobody can take all streams; an admin always finds one.
func TestMaxStreams(t *testing.T) {
	c := config(newFake())
	c.MaxStreams = 8
	r := start(t, c)
	take := func(token string, most int, why string) {
		t.Helper()
		for range most {
			in, _ := openStreamAs(t, r.plain, token)
			until(t, in, "retry:")
		}
		in, _ := openStreamAs(t, r.plain, token)
		if status := until(t, in, "HTTP/"); !strings.Contains(status, " 429 ") {
			t.Fatalf("%s: one stream more: %s; want 429", token, status)
		}
		if rest, err := io.ReadAll(in); err != nil || !strings.Contains(string(rest), why) {
			t.Errorf("%s: one stream more: %s, %v; want %q", token, rest, err, why)
		}
	}
	take(asViewer, 2, "3 open streams for user viewer-1; the limit is 2")
	take(asUser, 2, "3 open streams for user user-1; the limit is 2")
	if a := ask(t, "GET", r.plain+"/v1/jobs", "", "Authorization", asViewer); a.status != 200 {
		t.Errorf("other requests: %d", a.status)
	}
	take(asAdmin, 4, "9 open streams for all; the limit is 8")
}

// TestStreamEndsWithItsToken: a token that is revoked, or a session that is ended,
// takes its streams with it.
func TestStreamEndsWithItsToken(t *testing.T) {
	f := newFake()
	f.copyLog = func(ctx context.Context, _ api.LogQuery, w io.Writer) error {
		fmt.Fprintln(w, "epoch 1")
		<-ctx.Done()
		return ctx.Err()
	}
	r := start(t, config(f), func(s *Server) { s.recheck = 10 * time.Millisecond })
	in, _ := openStream(t, r.plain)
	until(t, in, "retry:")
	logs := make(chan error, 1)
	go func() {
		logs <- r.client(t, r.plain, "fw_viewer").Logs(t.Context(), "j1", api.LogQuery{Follow: true}, io.Discard)
	}()
	eventually(t, func() error { // both go on for a while
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.authentications < 10 {
			return fmt.Errorf("the token was looked at %d times", f.authentications)
		}
		return nil
	})
	other, _ := openStreamAs(t, r.plain, asUser)
	until(t, other, "retry:")
	f.set(func(f *fake) { f.keys["fw_viewer"] = api.Errorf(api.Denied, "the token was revoked") })
	until(t, in, "event: problem")
	if line := until(t, in, "data:"); !strings.Contains(line, "the token was revoked") {
		t.Errorf("the stream ends with %s; want the reason", line)
	}
	if _, err := in.ReadString('x'); err != io.EOF {
		t.Errorf("after that: %v; want the end", err)
	}
	if err := <-logs; api.CodeOf(err) != api.Denied {
		t.Errorf("the log ends with %v; want it denied", err)
	}
	f.feed.add(note("still there"))
	until(t, other, "event: record")
}

// TestShutdown ends streams at once and lets a request in flight finish.
func TestShutdown(t *testing.T) {
	f := newFake()
	begun, release := make(chan struct{}), make(chan struct{})
	f.submit = func([]api.Submission) ([]api.Job, error) {
		close(begun)
		<-release
		return []api.Job{{Spec: sched.Spec{ID: "j1"}}}, nil
	}
	r := start(t, config(f))
	in, _ := openStream(t, r.plain)
	until(t, in, "retry:")
	done := make(chan error, 1)
	c := r.client(t, r.plain, "fw_user")
	go func() {
		_, err := c.Submit(context.Background(), api.Submission{})
		done <- err
	}()
	<-begun
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	for {
		if _, err := in.ReadString('\n'); err != nil {
			var slow net.Error
			if errors.As(err, &slow) && slow.Timeout() {
				t.Error("the stream does not end")
			}
			break
		}
	}
	select {
	case <-stopped:
		t.Error("the server stopped before the request was done")
	default:
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	<-stopped
}

// taken returns how many places are taken.
func (p *places) taken() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}
