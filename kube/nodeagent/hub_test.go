// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

var someone = api.AttemptID{Job: "a-1", Number: 2}

// TestHub: an order stands until it changes, its answer counts only for the order that it
// answers, and what an agent does not say for a while is not so.
func TestHub(t *testing.T) {
	now := time.Unix(1000, 0)
	changes := 0
	h := &Hub{Now: func() time.Time { return now }, Changed: func() { changes++ }}
	if ok, why := h.Able("n"); ok || why == "" {
		t.Errorf("without an agent: %v, %q", ok, why)
	}
	order := Order{AttemptID: someone, Pods: []string{"u"}, Want: Suspended}
	if _, known := h.Set("n", order); known {
		t.Error("an order is answered before an agent has seen it")
	}
	got := h.Sync(t.Context(), "n", Report{})
	if len(got.Orders) != 1 || got.Orders[0].Want != Suspended || got.Orders[0].Turn == 0 {
		t.Fatalf("orders %+v", got)
	}
	if other := h.Sync(t.Context(), "m", Report{}); len(other.Orders) != 0 {
		t.Errorf("another node has orders %+v", other)
	}
	answer := State{AttemptID: someone, Turn: got.Orders[0].Turn, Is: Suspended, Memory: 7}
	h.Sync(t.Context(), "n", Report{States: []State{answer}, Begun: []string{"u"}})
	if s, known := h.Set("n", order); !known || s != answer || !h.Begun("n", "u") || h.Begun("m", "u") {
		t.Errorf("%+v, %v", s, known)
	}
	order.Want = Running
	if _, known := h.Set("n", order); known {
		t.Error("the answer to an earlier order counts for another")
	}
	h.Again("n", someone)
	again := h.Sync(t.Context(), "n", Report{Seen: got.Version, States: []State{answer}})
	if again.Orders[0].Turn <= got.Orders[0].Turn || again.Version == got.Version {
		t.Errorf("orders %+v after %+v", again, got)
	}
	h.Drop("n", someone)
	if left := h.Sync(t.Context(), "n", Report{Seen: again.Version}); len(left.Orders) != 0 {
		t.Errorf("orders %+v; want none", left)
	}
	if ok, _ := h.Able("n"); !ok || changes == 0 {
		t.Errorf("%v after %d changes", ok, changes)
	}
	now = now.Add(2 * silence)
	if ok, why := h.Able("n"); ok || !strings.Contains(why, "silent") {
		t.Errorf("%v, %q; want that it is silent", ok, why)
	}
	if heir := (&Hub{Now: h.Now}).Sync(t.Context(), "n", Report{Seen: again.Version}); heir.Version == again.Version {
		t.Error("orders of another operator pass for those of this one")
	}
}

// TestHandler: only agents are answered, for their own node, and at once if there is news.
func TestHandler(t *testing.T) {
	h := &Hub{}
	s := httptest.NewServer(Handler(h, func(_ context.Context, token string) (string, error) {
		if token != "good" {
			return "", api.Errorf(api.Denied, "not an agent")
		}
		return "n", nil
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Client{URL: s.URL + "/", TokenFile: file, HTTP: s.Client()}
	write("bad")
	if _, err := c.Sync(t.Context(), Report{}); err == nil || !strings.Contains(err.Error(), "403 Forbidden: not an agent") {
		t.Errorf("%v; want that it is refused", err)
	}
	write("good")
	first, err := c.Sync(t.Context(), Report{})
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		orders Orders
		err    error
	}
	waits := make(chan result, 1)
	go func() {
		o, err := c.Sync(t.Context(), Report{Seen: first.Version})
		waits <- result{o, err}
	}()
	h.Set("n", Order{AttemptID: someone, Pods: []string{"u"}, Want: Suspended})
	if r := <-waits; r.err != nil || len(r.orders.Orders) != 1 {
		t.Errorf("%+v, %v; want the new order", r.orders, r.err)
	}
	q, err := http.NewRequest(http.MethodPost, s.URL+Path, strings.NewReader("{"))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer good")
	if r, err := s.Client().Do(q); err != nil || r.StatusCode != http.StatusBadRequest {
		t.Errorf("%v, %v; want a bad request", r, err)
	}
}

func FuzzOrders(f *testing.F) {
	f.Add([]byte(`{"version":1,"orders":[{"job":"a-1","number":1,"pods":["8d2c-1"],"want":"suspended","turn":4}]}`))
	f.Add([]byte(`{"orders":[{"job":"a","number":1,"pods":["../../etc"],"want":"running"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var o Orders
		if json.Unmarshal(text, &o) != nil {
			return
		}
		for _, order := range o.Orders {
			if order.Validate() != nil {
				continue
			}
			for _, pod := range order.Pods {
				if filepath.Base(pod) != pod || pod == "." || pod == ".." {
					t.Errorf("pod %q is a path", pod)
				}
			}
		}
	})
}
