// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
)

func TestPace(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	p := paceOf(10)
	for i := range 10 { // after a pause, a second's worth
		if at := p.turn(now); at.After(now) {
			t.Fatalf("turn %d comes at %s; want it at once", i, at)
		}
	}
	for i := range 5 {
		if got, want := p.turn(now).Sub(now), time.Duration(i+1)*100*time.Millisecond; got != want {
			t.Errorf("turn %d after the burst comes in %s; want %s", i, got, want)
		}
	}
	for range 200 {
		p.took(8 * time.Second)
	}
	if slow := p.every; slow < 900*time.Millisecond || slow > time.Second {
		t.Errorf("with writes of 8 s turns are %s apart; want about 1 s, for %d at a time", slow, writers)
	}
	for range 200 {
		p.took(time.Millisecond)
	}
	if p.every != 100*time.Millisecond {
		t.Errorf("with fast writes turns are %s apart; want 100ms", p.every)
	}
}

// TestTurns: objects are written in turn, urgent ones before others, and none more
// often than its gap allows.
func TestTurns(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	m := &Mirror{
		Config:  Config{Gap: time.Second, TextGap: 10 * time.Second, Now: func() time.Time { return now }},
		written: map[key]time.Time{}, turns: map[key]turn{}, quick: paceOf(1), lazy: paceOf(0.1),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[key](time.Second, time.Minute)),
	}
	defer m.queue.ShutDown()
	a, b := key{name: "a"}, key{name: "b"}
	may := func(k key, urgent, want bool, why string) {
		t.Helper()
		if got := m.mayWrite(k, urgent); got != want {
			t.Errorf("%s may write at %s: %v; want %v: %s", k.name, now.Format("05.0"), got, want, why)
		}
	}
	may(a, true, true, "the first turn")
	if err := m.timed(a, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	may(b, true, false, "one a second")
	now = now.Add(500 * time.Millisecond)
	may(b, true, false, "its turn has not come, however often it is looked at")
	may(a, true, false, "it was written half a second ago")
	now = now.Add(500 * time.Millisecond)
	may(b, true, true, "its turn")
	may(a, false, false, "nobody waits for it, and it was written a second ago")
	may(a, true, false, "the next turn is in a second")
	now = now.Add(time.Second)
	may(a, true, true, "its turn")
}
