// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// number reads a number from the environment.
func number(t *testing.T, name string, standard uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return standard
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		t.Fatalf("%s=%q: want a whole number", name, text)
	}
	return n
}

// TestKilledAgainAndAgain kills the operator with -9 at random moments while jobs come,
// end, fail, are resized, suspended and deleted. Then no more jobs come, one operator stays,
// and every job must come to one end. FAIRWAY_CHAOS_KILLS says how often it is killed, and
// FAIRWAY_CHAOS_DISASTERS=1 adds other disasters. FAIRWAY_CHAOS_SEED determines the moments and
// the jobs, which are the same in every run by default.
func TestKilledAgainAndAgain(t *testing.T) {
	kills := number(t, "FAIRWAY_CHAOS_KILLS", 40)
	seed := number(t, "FAIRWAY_CHAOS_SEED", 1)
	t.Logf("%d kills; again with FAIRWAY_CHAOS_SEED=%d", kills, seed)
	w := begin(t, setting{namespaces: []string{"killed-a", "killed-b"}, grace: 3 * time.Minute})
	const elastic = "gandiva:pack=false:slice=10s:grow_after=1s"
	h := how{settings: map[string]any{"policy": elastic, "leader": brief}}
	// Most leaders live for a second, in which little is done. With disasters there are many
	// of them, fewer jobs come, and every fifth leader lives for long enough that most can end.
	var all []*disaster
	every, long := 700*time.Millisecond, uint64(0)
	if number(t, "FAIRWAY_CHAOS_DISASTERS", 0) > 0 {
		all = disasters(t, w, &h)
		every, long = 1500*time.Millisecond, 5
	}
	load, stop := w.arrive(t, seed, every)
	r := rand.New(rand.NewPCG(seed, 2))
	led := 0
	began := time.Now()
	load.retries.Store(1)
	for n := range kills {
		if n == kills/2 {
			load.retries.Store(0) // the last retry ends soon after the last kill
		}
		h.link = w.Link(t)
		p, err := w.start(t, h)
		if err != nil {
			t.Fatal(err)
		}
		// Nine in ten live until they lead, however long that takes, and are killed
		// within seconds; the others are killed at any moment.
		if n%10 > 0 {
			eventually(t, "it leads, or has ended", func() error {
				if p.Running() && !p.leads() {
					return errors.New("it waits")
				}
				return nil
			})
		}
		life := 1700
		if long > 0 && n%long == 0 {
			life = 8000
		}
		time.Sleep(time.Duration(r.IntN(life)) * time.Millisecond)
		if n%3 == 2 && len(all) > 0 {
			d := all[int(n/3)%len(all)]
			if err := d.strike(t, p, h.link, r); err != nil {
				t.Fatalf("%s: %v", d.name, err)
			}
			d.times++
		}
		p.Kill()
		if p.leads() {
			led++
		}
		if r.IntN(5) > 0 { // otherwise the next one must wait for the lease to expire
			insist(t.Context(), func() error { return w.freeLease(t.Context()) })
		}
	}
	for _, d := range all {
		t.Logf("%s: %d", d.name, d.times)
	}
	t.Logf("%d kills in %v, %d of operators that led", kills, time.Since(began).Round(time.Second), led)
	if uint64(led) < kills*4/5 {
		t.Errorf("only %d of %d operators led before they were killed; want four in five", led, kills)
	}
	stop()
	over := time.Now()
	if left, _, err := w.left(t.Context()); err == nil {
		t.Logf("%d jobs wait or run after the last kill", left)
	}
	// It may lose its lease where the API server does not answer for seconds, and is started
	// again, as Kubernetes would do.
	last, times := w.operator(t, how{settings: map[string]any{"policy": elastic}, program: h.program}), 1
	w.waitAllWhile(t, func() {
		if !last.Running() {
			last = w.standby(t, how{settings: map[string]any{"policy": elastic}, program: h.program})
			times++
		}
	})
	t.Logf("for this, an operator was started %d times", times)
	t.Logf("all jobs have ended %v after the last kill", time.Since(over).Round(time.Second))
	states := w.account(t)
	if total := states[api.Finished] + states[api.Failed]; total+load.deleted < load.created {
		t.Errorf("of %d jobs %d have ended and %d were deleted: some are lost", load.created, total, load.deleted)
	}
	if states[api.Finished] == 0 || states[api.Failed] == 0 {
		t.Errorf("got %v; want some that finished and some that failed", states)
	}
	sizes := map[string]map[int64]bool{}
	resized := 0
	for id, p := range w.readJournal(t).jobs {
		sizes[id] = map[int64]bool{}
		for _, s := range p.starts {
			sizes[id][gpusOf(s)] = true
		}
		if len(sizes[id]) > 1 {
			resized++
		}
	}
	t.Logf("%d jobs were resized", resized)
	if resized == 0 {
		t.Error("no job was resized; want some")
	}
}
