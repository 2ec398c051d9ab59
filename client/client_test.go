// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"go.uber.org/goleak"
)

// TestMain: nothing is left running. Connections take a moment to end, and longer
// than goleak waits on a machine with little time to spare.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long such a machine may take for what takes a moment.
const patience = 2 * time.Minute

// The tests of package server send every method of the client to a real server.
// Those here are about daemons that do what none should.

func TestNew(t *testing.T) {
	for _, good := range []string{"unix:///run/f.sock", "http://localhost:7077", "https://gpu1.example.org/"} {
		if _, err := New(Options{Address: good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "localhost:7077", "unix://relative.sock", "unix:", "ftp://x", "http://", "http://x/path", "http://u:p@x", "http://x?q", "http://%zz", "://"} {
		if _, err := New(Options{Address: bad}); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ca := range []string{empty, empty + ".none"} {
		if _, err := New(Options{Address: "https://x", CA: ca}); err == nil {
			t.Errorf("certificates in %s: no error", ca)
		}
	}
}

// daemon is a server that answers with f.
func daemon(t *testing.T, timeout time.Duration, f http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	c, err := New(Options{Address: srv.URL, Token: "fw_secret", Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestOddAnswers(t *testing.T) {
	const soon = 200 * time.Millisecond // is enough only where no answer comes
	for _, k := range []struct {
		name string
		f    http.HandlerFunc
		code api.Code
	}{
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, api.Internal},
		{"error that is not ours", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) }, api.Internal},
		{"empty error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400); io.WriteString(w, `{"error":{}}`) }, api.Internal},
		{"wrong type", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"gpus":"many"}`) }, api.Internal},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, api.Unavailable},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/steal", http.StatusTemporaryRedirect)
		}, api.Internal},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, api.Unavailable},
		{"slow body", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, `{"gpus":`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, api.Unavailable},
	} {
		timeout := patience
		if strings.HasPrefix(k.name, "slow") {
			timeout = soon
		}
		_, err := daemon(t, timeout, k.f).Overview(t.Context())
		if err == nil || api.CodeOf(err) != k.code || strings.Contains(err.Error(), "fw_secret") {
			t.Errorf("%s: %v; want code %s", k.name, err, k.code)
		}
	}
}

func TestDeadlineOfCaller(t *testing.T) {
	c := daemon(t, time.Minute, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Overview(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v; want the caller's deadline", err)
	}
}

func TestLogsWriter(t *testing.T) {
	c := daemon(t, 0, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "text") })
	full := errors.New("disk full")
	if err := c.Logs(t.Context(), "j1", api.LogQuery{}, writer(func([]byte) (int, error) { return 0, full })); err != full {
		t.Errorf("got %v; want the writer's error", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func TestWatchOddStream(t *testing.T) {
	asked := 0
	c := daemon(t, 0, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "text/event-stream")
		switch asked {
		case 1: // an event that is cut in two counts for nothing
			io.WriteString(w, "id: 1\nevent: record\ndata: {\"seq\":1}\n\n: hi\n\nevent: other\ndata: x\n\nevent: record\ndata: {\"seq\":2}\n")
		case 2:
			if last := r.Header.Get("Last-Event-ID"); last != "1" {
				t.Errorf("Last-Event-ID %q; want 1", last)
			}
			io.WriteString(w, "event: record\r\ndata: {\"seq\":2}\r\n\r\n")
		case 3:
			io.WriteString(w, "event: problem\ndata: {\"error\":{\"code\":\"denied\",\"message\":\"gone\"}}\n\n")
		}
	})
	var got []uint64
	err := c.Watch(t.Context(), api.RecordFilter{}, func(r api.Record) error { got = append(got, r.Seq); return nil })
	if api.CodeOf(err) != api.Denied || len(got) != 2 || got[0] != 1 || got[1] != 2 {
		t.Errorf("got %v, %v; want 1, 2 and the problem", got, err)
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("id: 1\nevent: record\ndata: {\"seq\":1}\n\n"))
	f.Add([]byte("event: problem\ndata: {\"error\":null}\n\n"))
	f.Add([]byte(":\n\ndata\nevent\n\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bufio.NewReaderSize(bytes.NewReader(b), 16)
		var e event
		var last uint64
		for {
			line, err := readLine(in)
			if err != nil {
				return
			}
			if bytes.ContainsRune(line, '\n') {
				t.Fatalf("line %q", line)
			}
			if len(line) > 0 {
				e.add(line)
				continue
			}
			before := last
			_ = e.deliver(&last, func(r api.Record) error { return nil })
			if last < before {
				t.Fatalf("the last sequence number fell from %d to %d", before, last)
			}
			e = event{}
		}
	})
}
