// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
)

// brief is a short lease that even a busy machine can keep.
var brief = map[string]any{"lease": "4s", "renew": "3s", "retry": "200ms"}

// running is an operator process.
type running struct {
	*operator.Operator
	file string
	from int // where its log begins: earlier ones of its name wrote the rest
	// token is the ID of its token in the API server's audit log.
	token string
}

// how configures an operator.
type how struct {
	name     string                          // default operator
	link     *kubetest.Link                  // its connection to the API server; nil: direct
	through  func(*rest.Config) *rest.Config // another connection
	settings map[string]any                  // of its configuration
	program  string                          // default: built from this checkout
}

var built struct {
	once    sync.Once
	program string
	err     error
}

// standby runs an operator until the end of the test.
func (w *world) standby(t *testing.T, h how) *running {
	t.Helper()
	p, err := w.start(t, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the operator's log ends:\n%s", p.Tail(25))
		}
		p.Kill()
	})
	return p
}

func (w *world) start(t *testing.T, h how) (*running, error) {
	if h.program == "" {
		built.once.Do(func() { built.program, built.err = operator.Build(t.Context(), w.Folder) })
		if built.err != nil {
			return nil, built.err
		}
	}
	// All times are short except those of the lease (operator.Options).
	settings := map[string]any{
		"policy": "fifo", "notice": "2s",
		"nodes": map[string]any{"grace": "1s"},
		"pods":  map[string]any{"lost_after": "2s"},
	}
	maps.Copy(settings, h.settings)
	o := operator.Options{Program: cmp.Or(h.program, built.program), Name: cmp.Or(h.name, "operator"), Config: settings}
	r := &running{file: filepath.Join(w.Folder, o.Name+".log")}
	r.from = len(r.log())
	var err error
	o.Through = func(c *rest.Config) *rest.Config {
		r.token = tokenID(c.BearerToken)
		switch {
		case h.link != nil:
			c = h.link.Through(c)
		case h.through != nil:
			c = h.through(c)
		}
		return c
	}
	r.Operator, err = operator.Start(t.Context(), w.Cluster, o)
	return r, err
}

// tokenID returns the ID in a Kubernetes token.
func tokenID(token string) string {
	var claims struct {
		ID string `json:"jti"`
	}
	parts := strings.Split(token, ".")
	if len(parts) == 3 {
		if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(text, &claims) // without an ID, no request of it is found
		}
	}
	return claims.ID
}

// log returns the log of this operator.
func (r *running) log() string {
	text, err := os.ReadFile(r.file)
	if err != nil {
		return ""
	}
	return string(text[min(r.from, len(text)):])
}

// leads reports whether it has begun to lead. It may have stopped since.
func (r *running) leads() bool { return strings.Contains(r.log(), `"msg":"leading"`) }

func (r *running) waitLeads(t *testing.T) {
	t.Helper()
	eventually(t, "the operator leads", func() error {
		if !r.Running() {
			t.Fatalf("the operator ended instead of leading: %s", r.Tail(8))
		}
		if !r.leads() {
			return errors.New("it does not yet")
		}
		return nil
	})
}

// operator runs the only operator until the end of the test, and waits until it leads.
func (w *world) operator(t *testing.T, h how) *running {
	t.Helper()
	if err := w.freeLease(t.Context()); err != nil { // the lease of one that was killed
		t.Fatal(err)
	}
	r := w.standby(t, h)
	r.waitLeads(t)
	return r
}

// freeLease lets the next operator lead at once, as if the last one's lease had
// expired.
func (w *world) freeLease(ctx context.Context) error {
	return w.admin.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(operator.Namespace))
}
