// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"
	"strings"
	"testing"
)

func TestParseNotify(t *testing.T) {
	for text, want := range map[string]string{"ops": "finished,failed,cancelled", "ops:started,failed": "started,failed"} {
		target, events, err := ParseNotify(text)
		if err != nil || target != "ops" || strings.Join(events, ",") != want {
			t.Errorf("%q: %q, %v, %v; want %s", text, target, events, err, want)
		}
	}
	many := Task{Command: []string{"true"}, Notify: slices.Repeat([]string{"ops"}, maxNotify+1)}
	if err := many.Validate(); CodeOf(err) != Invalid {
		t.Errorf("%d targets: %v; want them refused", len(many.Notify), err)
	}
}

// FuzzNotify: what is read names a target and known events.
func FuzzNotify(f *testing.F) {
	for _, text := range []string{"ops", "ops:failed", "ops:", ":failed", "http://10.0.0.1/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		target, events, err := ParseNotify(text)
		if err != nil {
			if CodeOf(err) != Invalid {
				t.Fatalf("%q: %v; want code invalid", text, err)
			}
			return
		}
		if target == "" || strings.Contains(target, ":") || len(events) == 0 {
			t.Fatalf("%q: %q, %v", text, target, events)
		}
		for _, e := range events {
			if !slices.Contains(NoticeEvents(), e) {
				t.Fatalf("%q: event %q", text, e)
			}
		}
	})
}
