// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// TestAPIServerRestarts: the API server crashes, is restarted gracefully, and stalls
// for longer than the leader's lease, while jobs come and go. The operator is restarted
// when it exits, as by a Deployment.
func TestAPIServerRestarts(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"apiserver"}, grace: 2 * time.Minute})
	stopped := w.keepRunning(t, how{settings: map[string]any{"leader": brief}})
	load, stop := w.arrive(t, 4, 500*time.Millisecond)
	for _, x := range []struct {
		name string
		do   func() error
	}{
		{"crash", func() error {
			w.KillAPIServer()
			time.Sleep(2 * time.Second)
			return w.StartAPIServer(t.Context())
		}},
		{"restart", func() error { return w.RestartAPIServer(t.Context()) }},
		{"stall", func() error {
			if err := w.PauseAPIServer(); err != nil {
				return err
			}
			time.Sleep(20 * time.Second)
			return w.ResumeAPIServer()
		}},
	} {
		time.Sleep(3 * time.Second)
		if err := x.do(); err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		t.Logf("%s: over", x.name)
	}
	time.Sleep(2 * time.Second)
	stop()
	w.checkLoad(t, load)
	stopped()
}

// keepRunning runs an operator, and restarts it whenever it exits, until the function
// that it returns is called. It returns when one leads.
func (w *world) keepRunning(t *testing.T, h how) (stop func()) {
	t.Helper()
	if err := w.freeLease(t.Context()); err != nil { // the lease of one that was killed
		t.Fatal(err)
	}
	first := w.standby(t, h)
	var now atomic.Pointer[running]
	now.Store(first)
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for p, starts := first, 1; ; {
			select {
			case <-ending:
				p.Kill()
				t.Logf("the operator was started %d times", starts)
				return
			case <-time.After(200 * time.Millisecond):
			}
			if p.Running() {
				continue
			}
			if next, err := w.start(t, h); err == nil { // otherwise the API server is down
				p = next
				now.Store(p)
				starts++
			}
		}
	}()
	called := false
	stop = func() {
		if !called {
			called = true
			close(ending)
			<-ended
		}
	}
	t.Cleanup(stop)
	eventually(t, "an operator leads", func() error {
		if !now.Load().leads() {
			return errors.New("none does yet")
		}
		return nil
	})
	return stop
}
