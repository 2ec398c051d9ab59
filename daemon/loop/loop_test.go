// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package loop_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
)

// fake is a backend of one node in virtual time. It remembers when it was asked.
type fake struct {
	mu      sync.Mutex
	state   *sched.State
	begin   time.Time
	changed chan struct{}
	took    []time.Duration // when snapshots were taken, since begin
	applied []loop.Decision
	failing error // of Snapshot
	refuses error // of Apply
}

func newFake(t *testing.T) *fake {
	t.Helper()
	c, err := sched.NewCluster([]sched.Node{{Name: "n0", GPUs: 2}})
	if err != nil {
		t.Fatal(err)
	}
	return &fake{state: sched.NewState(c), begin: time.Now(), changed: make(chan struct{}, 1)}
}

func (f *fake) Snapshot(context.Context) (*sched.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took = append(f.took, time.Since(f.begin))
	if f.failing != nil {
		return nil, f.failing
	}
	return f.state.Frozen(time.Now()), nil
}

func (f *fake) Apply(_ context.Context, d loop.Decision) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuses != nil {
		return f.refuses
	}
	f.applied = append(f.applied, d)
	return nil
}

func (f *fake) Changed() <-chan struct{} { return f.changed }

func (f *fake) change() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *fake) times() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.took)
}

func (f *fake) setErrors(snapshot, apply error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing, f.refuses = snapshot, apply
}

// policyFunc is a policy as a function.
type policyFunc func(*sched.Snapshot) sched.Plan

func (p policyFunc) Schedule(s *sched.Snapshot) sched.Plan { return p(s) }

// idle wants nothing to run.
func idle(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i := range plan.Why {
		plan.Why[i] = sched.Reason{Code: sched.Behind}
	}
	return plan
}

// run starts the loop and returns what ends it.
func run(t *testing.T, c loop.Config) (stop func() error) {
	t.Helper()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx, c) }()
	return func() error {
		cancel()
		return <-done
	}
}

// pass lets virtual time pass, and the loop do all that falls into it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func always(p sched.Policy) func() (sched.Policy, string) {
	return func() (sched.Policy, string) { return p, "test" }
}

func TestLoopWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		waking := policyFunc(func(s *sched.Snapshot) sched.Plan {
			plan := idle(s)
			plan.WakeBy(s.Now, s.Now.Add(10*time.Second))
			return plan
		})
		stop := run(t, loop.Config{Backend: f, Policy: always(waking)})
		pass(35 * time.Second)
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v; want the context's error", err)
		}
		want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}
		if got := f.times(); !slices.Equal(got, want) {
			t.Errorf("decisions at %v; want %v", got, want)
		}
	})
}

// TestLoopBackOff: a job that waits for its next try is looked at when its time
// has come, whether its policy asks for that or not.
func TestLoopBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		for _, e := range []sched.Event{
			{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "j", GPUs: 1}},
			{Kind: sched.JobHeld, Job: "j", Until: time.Now().Add(7 * time.Second)},
		} {
			e.At = time.Now()
			if err := f.state.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		stop := run(t, loop.Config{Backend: f, Policy: always(policyFunc(idle))})
		pass(time.Minute)
		_ = stop()
		if got, want := f.times(), []time.Duration{0, 7 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("decisions at %v; want %v", got, want)
		}
	})
}

// TestLoopSleeps: a loop that has nothing to do does nothing.
func TestLoopSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		stop := run(t, loop.Config{Backend: f, Policy: always(policyFunc(idle))})
		pass(24*time.Hour + time.Minute)
		_ = stop()
		if got := len(f.times()); got != 25 {
			t.Errorf("%d decisions in a day without events; want 25, one an hour", got)
		}
	})
}

// TestLoopPaused: while nothing can be started nothing is decided, so nothing is
// preempted for it either.
func TestLoopPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		begin := time.Now()
		paused := func() string {
			if at := time.Since(begin); at >= 10*time.Second && at < 30*time.Second {
				return "the disk is full"
			}
			return ""
		}
		stop := run(t, loop.Config{Backend: f, Policy: always(policyFunc(idle)), Paused: paused})
		for range 40 {
			pass(time.Second)
			f.change()
		}
		synctest.Wait()
		_ = stop()
		for _, at := range f.times() {
			if at > 10*time.Second+loop.DefaultPace && at < 30*time.Second {
				t.Errorf("it decided after %s; want that it waits", at)
			}
		}
		if got := f.times(); got[len(got)-1] < 30*time.Second {
			t.Errorf("the last decision came after %s; want more once it is no longer paused", got[len(got)-1])
		}
	})
}

// TestLoopNeverSpins: whatever a policy asks for, and however often the world
// changes, there is a pause between two decisions.
func TestLoopNeverSpins(t *testing.T) {
	wakes := map[string]time.Duration{"now": 0, "in the past": -time.Hour, "in a nanosecond": 1}
	for name, wake := range wakes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				eager := policyFunc(func(s *sched.Snapshot) sched.Plan {
					plan := idle(s)
					plan.Wake = s.Now.Add(wake)
					return plan
				})
				stop := run(t, loop.Config{Backend: f, Policy: always(eager), Pace: 100 * time.Millisecond})
				pass(10 * time.Second)
				_ = stop()
				if got := len(f.times()); got > 101 || got < 90 {
					t.Errorf("%d decisions in 10 s; want 100, one each 100 ms", got)
				}
			})
		})
	}
}

func TestLoopDebounces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		stop := run(t, loop.Config{Backend: f, Policy: always(policyFunc(idle))})
		pass(time.Minute)
		for range 1000 { // a second of one change each millisecond
			f.change()
			pass(time.Millisecond)
		}
		pass(time.Minute)
		_ = stop()
		got := f.times()
		if len(got) > 25 || len(got) < 15 {
			t.Errorf("%d decisions for 1,000 changes in a second; want about 21", len(got))
		}
		if len(got) > 1 && got[1] != time.Minute {
			t.Errorf("the decision after the first change came at %s; want it at once, at 1m", got[1])
		}
	})
}

// TestLoopYields: a policy that thinks long is followed by a long pause.
func TestLoopYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		slow := policyFunc(func(s *sched.Snapshot) sched.Plan {
			time.Sleep(time.Second)
			plan := idle(s)
			plan.Wake = s.Now.Add(time.Millisecond)
			return plan
		})
		stop := run(t, loop.Config{Backend: f, Policy: always(slow)})
		pass(39 * time.Second)
		_ = stop()
		if got := len(f.times()); got != 10 {
			t.Errorf("%d decisions of 1 s in 39 s; want 10: a quarter of the time", got)
		}
	})
}

func TestLoopBacksOff(t *testing.T) {
	for name, set := range map[string]func(*fake, error){
		"snapshot": func(f *fake, err error) { f.setErrors(err, nil) },
		"apply":    func(f *fake, err error) { f.setErrors(nil, err) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				set(f, errors.New("out of order"))
				var troubles []error
				var mu sync.Mutex
				stop := run(t, loop.Config{Backend: f, Policy: always(policyFunc(idle)), Trouble: func(err error) {
					mu.Lock()
					defer mu.Unlock()
					troubles = append(troubles, err)
				}})
				pass(time.Minute)
				got := f.times()
				if len(got) > 20 || len(got) < 10 {
					t.Errorf("%d tries in a minute; want 10 to 20", len(got))
				}
				for i := 2; i < len(got); i++ {
					last, now := got[i-1]-got[i-2], got[i]-got[i-1]
					if now < last || now > 5*time.Second {
						t.Errorf("try %d came %s after the one before, which came after %s; want growing waits up to 5 s", i, now, last)
					}
				}
				set(f, nil)
				pass(6 * time.Second)
				mu.Lock()
				if n := len(troubles); n == 0 || troubles[0] == nil || troubles[n-1] != nil {
					t.Errorf("troubles %v; want errors, and nil at the end", troubles)
				}
				mu.Unlock()
				_ = stop()
			})
		})
	}
}

// TestLoopBadPlan: a plan that breaks a rule is not applied, and told.
func TestLoopBadPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		submit(t, f, "a")
		bad := policyFunc(func(s *sched.Snapshot) sched.Plan { return sched.NewPlan(s) }) // no reasons
		var trouble error
		stop := run(t, loop.Config{Backend: f, Policy: always(bad), Trouble: func(err error) { trouble = err }})
		pass(time.Second)
		_ = stop()
		var plan *sched.PlanError
		if !errors.As(trouble, &plan) || len(f.applied) != 0 {
			t.Errorf("trouble %v, %d decisions applied; want a PlanError and none", trouble, len(f.applied))
		}
	})
}

func submit(t *testing.T, f *fake, id sched.JobID) {
	t.Helper()
	spec := sched.Spec{ID: id, GPUs: 1, Submitted: time.Now()}
	if err := f.state.Apply(sched.Event{At: time.Now(), Kind: sched.JobSubmitted, Spec: &spec}); err != nil {
		t.Fatal(err)
	}
}

func TestLoopSwitchesPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var mu sync.Mutex
		spec := "first"
		var seen []string
		stop := run(t, loop.Config{
			Backend: f,
			Policy: func() (sched.Policy, string) {
				mu.Lock()
				defer mu.Unlock()
				return policyFunc(idle), spec
			},
			Decided: func(d loop.Decision, _ time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, d.Policy)
			},
		})
		pass(time.Second)
		mu.Lock()
		spec = "second"
		mu.Unlock()
		f.change()
		pass(time.Second)
		_ = stop()
		if want := []string{"first", "second"}; !slices.Equal(seen, want) {
			t.Errorf("decisions by %v; want %v", seen, want)
		}
	})
}

// TestLoopGuards: the guard reviews, its vetoes travel with the decision, and it
// remembers what was carried out.
func TestLoopGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		submit(t, f, "a")
		at := sched.Placement{{Milli: sched.WholeGPU, GPUs: 1}}
		for _, e := range []sched.Event{{Kind: sched.JobStarted, Placement: at}, {Kind: sched.JobStopped}, {Kind: sched.JobStarted, Placement: at}} {
			e.At, e.Job = time.Now(), "a"
			if err := f.state.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		g, err := guard.New(guard.Config{Bound: 1})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, loop.Config{Backend: f, Policy: always(policyFunc(idle)), Guard: g})
		pass(time.Second)
		_ = stop()
		if len(f.applied) != 1 || len(f.applied[0].Vetoes) != 1 || len(f.applied[0].Actions) != 0 {
			t.Errorf("applied %+v; want one decision without actions, with a veto", f.applied)
		}
	})
}

// TestLoopEnds: the loop ends with its context, wherever it is.
func TestLoopEnds(t *testing.T) {
	for name, err := range map[string]error{"asleep": nil, "in trouble": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				f.setErrors(err, nil)
				stop := run(t, loop.Config{Backend: f, Policy: always(policyFunc(idle))})
				pass(10*time.Second + time.Millisecond)
				begin := time.Now()
				if err := stop(); !errors.Is(err, context.Canceled) {
					t.Errorf("Run = %v; want the context's error", err)
				}
				if took := time.Since(begin); took > 0 {
					t.Errorf("the end took %s", took)
				}
			})
		})
	}
}
