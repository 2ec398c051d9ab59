// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

func TestRunEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("disk full")
	ended := 0
	wait := func(ctx context.Context) error { <-ctx.Done(); ended++; return errors.New("not this one") }
	err := Run(t.Context(), Part{"wait", wait}, Part{"write", func(context.Context) error { return broken }})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "write: ") {
		t.Errorf("got %v; want write: %v", err, broken)
	}
	if ended != 1 {
		t.Errorf("%d parts had ended when Run returned; want the other one too", ended)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := Run(ctx, Part{"end", func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() }})
	if err != nil {
		t.Errorf("got %v; want none: it was told to end", err)
	}
}

func TestRedactedRecords(t *testing.T) {
	task := &api.Task{Name: "net", Command: []string{"train", "--password=x"}, Env: map[string]string{"SECRET": "x"}, Secrets: []string{"SECRET"}}
	search := &api.SearchRecord{Spec: &api.SearchSpec{ID: "sweep", Trial: api.Submission{Task: *task}}}
	records := []api.Record{{Seq: 7, Task: task, Search: search, Token: &api.Token{ID: "a", Hash: []byte("hash")}, Key: "key-1"}}
	Redact(records)
	var b bytes.Buffer
	if err := WriteRecords(&b, records); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"password", "SECRET", "aGFzaA", "key-1"} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("%q is in %s", secret, b.String())
		}
	}
	if !strings.Contains(b.String(), `"net"`) || task.Command == nil || search.Spec.Trial.Command == nil {
		t.Errorf("the name is gone, or the task itself was changed: %s", b.String())
	}
}
