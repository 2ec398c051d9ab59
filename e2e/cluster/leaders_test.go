// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// TestTwoLeaders: the leader is cut off, or paused, for longer than its lease, and
// another operator leads. When the first one returns, it believes for a moment that it
// still leads, and its actions must have no effect.
func TestTwoLeaders(t *testing.T) {
	for _, x := range []struct {
		name      string
		out, back func(*cutOff) error
	}{
		{"partition", func(c *cutOff) error { c.link.Block(); return nil }, func(c *cutOff) error { c.link.Unblock(); return nil }},
		{"pause", func(c *cutOff) error { return c.first.Pause() }, func(c *cutOff) error { return c.first.Resume() }},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := begin(t, setting{namespaces: []string{"leaders-" + x.name}, grace: 2 * time.Minute})
			// Not too short: an operator that is not cut off must keep the lease on a
			// busy machine.
			short := map[string]any{"leader": map[string]any{"lease": "12s", "renew": "10s", "retry": "500ms"}}
			c := &cutOff{link: w.Link(t)}
			c.first = w.operator(t, how{name: "first-" + x.name, link: c.link, settings: short})
			_, stop := w.arrive(t, 6, 300*time.Millisecond)
			second := w.standby(t, how{name: "second-" + x.name, settings: short})
			time.Sleep(3 * time.Second)
			if second.leads() {
				t.Fatal("both lead")
			}
			if err := x.out(c); err != nil {
				t.Fatal(err)
			}
			second.waitLeads(t)
			time.Sleep(2 * time.Second)
			if err := x.back(c); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the first one ends", func() error {
				if c.first.Running() {
					return errors.New("it runs")
				}
				return nil
			})
			stop()
			w.waitAll(t)
			w.account(t)
			w.checkPages(t)
			w.checkLateWrites(t, c.first, second)
			second.Kill()
		})
	}
}

// cutOff is an operator that can be cut off from the cluster.
type cutOff struct {
	first *running
	link  *kubetest.Link
}

// checkPages checks that the pages of the journal are those of one leader after
// another, never mixed.
func (w *world) checkPages(t *testing.T) {
	t.Helper()
	var list v1alpha1.JournalPageList
	if err := w.admin.List(t.Context(), &list, client.InNamespace(operator.Namespace)); err != nil {
		t.Fatal(err)
	}
	pages := slices.DeleteFunc(list.Items, func(p v1alpha1.JournalPage) bool { return p.Holds != "records" })
	slices.SortFunc(pages, func(a, b v1alpha1.JournalPage) int { return int(a.First - b.First) })
	var order []string
	next := int64(1)
	for _, p := range pages {
		if p.First != next {
			t.Errorf("page %s begins with record %d; want %d", p.Name, p.First, next)
		}
		next = p.First + int64(p.Count)
		if len(order) == 0 || order[len(order)-1] != p.Leader {
			order = append(order, p.Leader)
		}
	}
	if len(order) != 2 {
		t.Errorf("the journal has %d terms: %v; want two, one after the other", len(order), order)
	}
}

// request is the API server's audit record of an operator's request.
type request struct {
	Verb string
	User struct {
		Extra map[string][]string
	}
	ObjectRef struct{ Resource, Subresource, Namespace, Name string }
	Response  struct{ Code int } `json:"responseStatus"`
	Received  time.Time          `json:"requestReceivedTimestamp"`
	Answered  time.Time          `json:"stageTimestamp"`
}

// requestsOf returns the requests of one operator that changed something or tried to.
func (r *running) requestsOf(t *testing.T) []request {
	t.Helper()
	text, err := os.ReadFile(requestLog)
	if err != nil {
		t.Fatal(err)
	}
	var out []request
	for line := range strings.Lines(string(text)) {
		var q request
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			continue // it is being written
		}
		if slices.Contains(q.User.Extra["authentication.kubernetes.io/credential-id"], "JTI="+r.token) {
			out = append(out, q)
		}
	}
	return out
}

// checkLateWrites checks that after the new leader's first page, the old one writes no
// page and changes no pod.
func (w *world) checkLateWrites(t *testing.T, old, now *running) {
	t.Helper()
	var taken time.Time
	for _, q := range now.requestsOf(t) {
		if q.Verb == "create" && q.ObjectRef.Resource == "journalpages" && q.Response.Code == http.StatusCreated {
			taken = q.Answered
			break
		}
	}
	if taken.IsZero() {
		t.Fatal("the API server noted no page of the new leader")
	}
	done, refused := map[string]int{}, map[string]int{}
	for _, q := range old.requestsOf(t) {
		if !q.Received.After(taken) {
			continue
		}
		what := fmt.Sprintf("%s %s/%s", q.Verb, q.ObjectRef.Resource, q.ObjectRef.Subresource)
		if q.Response.Code >= 300 {
			refused[what]++
			continue
		}
		done[what]++
		if q.ObjectRef.Resource == "journalpages" || q.ObjectRef.Resource == "pods" {
			t.Errorf("%s %s of the old leader succeeded %v after the new one's first page", what, q.ObjectRef.Name, q.Received.Sub(taken))
		}
	}
	t.Logf("after the new leader's first page the old one changed %v, and was refused %v", done, refused)
}
