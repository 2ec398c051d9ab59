// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/api/apitest"
	"github.com/fairway-gpu/fairway/client"
)

// TestV01Stream: the client follows the events of a daemon of version 0.1.
func TestV01Stream(t *testing.T) {
	var text string
	for _, e := range apitest.Lines[struct {
		Path     string
		Response json.RawMessage
	}](t, "../server/testdata/v0.1/exchanges.jsonl") {
		if strings.HasPrefix(e.Path, "/v1/events/stream") {
			if err := json.Unmarshal(e.Response, &text); err != nil {
				t.Fatal(err)
			}
		}
	}
	var want []string
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			want = append(want, data)
		}
	}
	if len(want) < 10 {
		t.Fatalf("%d events recorded; want more", len(want))
	}
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
	}))
	defer daemon.Close()
	c, err := client.New(client.Options{Address: daemon.URL})
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	err = c.Watch(t.Context(), api.RecordFilter{}, func(r api.Record) error {
		now, err := json.Marshal(r)
		if err != nil {
			return err
		}
		for _, l := range apitest.Lost([]byte(want[0]), now) {
			t.Errorf("record %d: %s", r.Seq, l)
		}
		if want = want[1:]; len(want) == 0 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("Watch: %v, with %d records to come", err, len(want))
	}
}
