// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"testing"

	"github.com/fairway-gpu/fairway/daemon/state"
)

// TestIndexForgets: an origin is forgotten with all its jobs, and no others, once
// none of them is active.
func TestIndexForgets(t *testing.T) {
	x := newIndex()
	for _, m := range []state.Mirrored{
		{ID: "first", Origin: "a", Key: "1", Ended: true}, {ID: "second", Origin: "a", Key: "2"}, {ID: "other", Origin: "b", Key: "3", Ended: true},
	} {
		x.put(m)
		x.put(m) // a sweep repeats it
	}
	x.forget("a")
	if id, ok := x.job("1"); !ok || id != "first" {
		t.Errorf("while a job is active, the job of key 1 is %q, %v; want first", id, ok)
	}
	x.end("second")
	x.forget("a")
	for _, key := range []string{"1", "2"} {
		if id, ok := x.job(key); ok {
			t.Errorf("the job of key %s is %q; want it forgotten", key, id)
		}
	}
	if got := x.originOf("other"); got != "b" {
		t.Errorf("the origin of other is %q; want b", got)
	}
	if len(x.jobs) != 1 || len(x.origins) != 1 || len(x.keys) != 1 || len(x.byKey) != 1 {
		t.Errorf("left: %v, %v, %v, %v; want one of each", x.jobs, x.origins, x.keys, x.byKey)
	}
}
