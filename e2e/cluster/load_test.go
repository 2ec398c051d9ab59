// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// load makes jobs come and go: single ones, gangs, elastic ones, gangs of roles, jobs that fail with
// and without retries, jobs that are suspended for a while, and jobs that are deleted
// early.
type load struct {
	world   *world
	every   time.Duration // between two jobs
	seed    uint64
	retries atomic.Int32 // of jobs that fail; a retry comes a minute later
	mu      sync.Mutex
	created int
	deleted int
}

// arrive starts a load and returns a function that ends it. Failed requests are
// retried, because the API server is down in some tests.
func (w *world) arrive(t *testing.T, seed uint64, every time.Duration) (l *load, stop func()) {
	t.Helper()
	l = &load{world: w, every: every, seed: seed}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { l.run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
		t.Logf("load: %d jobs came, %d were deleted", l.created, l.deleted)
	})
	t.Cleanup(stop)
	return l, stop
}

func (l *load) run(ctx context.Context) {
	r := rand.New(rand.NewPCG(l.seed, 1))
	var touched sync.WaitGroup
	defer touched.Wait()
	for i := 0; ; i++ {
		job := l.world.object(l.next(r, i))
		if !insist(ctx, func() error { return l.world.admin.Create(ctx, job) }) {
			return
		}
		l.mu.Lock()
		l.created++
		l.mu.Unlock()
		fate, wait := r.IntN(10), time.Duration(r.IntN(3000))*time.Millisecond
		touched.Go(func() { l.touch(ctx, job, fate, wait) })
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(float64(l.every) * (0.5 + r.Float64()))):
		}
	}
}

// next returns the next random job.
func (l *load) next(r *rand.Rand, i int) training {
	j := training{
		name: fmt.Sprintf("job-%d", i), namespace: l.world.namespaces[r.IntN(len(l.world.namespaces))],
		runFor: time.Duration(500+r.IntN(4000)) * time.Millisecond, stopAfter: time.Duration(r.IntN(700)) * time.Millisecond,
	}
	switch r.IntN(7) {
	case 0:
		j.gpus, j.perPod = 16, 4
	case 1:
		j.gpus, j.perPod = 32, 8
	case 2, 3:
		j.gpus, j.least, j.most = 4, 1, 12
	case 4:
		j.gpus, j.exitCode, j.retries, j.retry = 2, 1, l.retries.Load(), "always"
	case 5:
		j.gpus, j.rollouts = 2, 8
	default:
		j.gpus = int32(1 + r.IntN(6))
	}
	return j
}

// touch does something to one in five jobs after a while.
func (l *load) touch(ctx context.Context, job *v1alpha1.TrainingJob, fate int, wait time.Duration) {
	if fate > 1 {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(wait):
	}
	// This also happens at the end of the load: a request that was cut off may have
	// arrived, and nothing else would resume the job.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if fate == 0 {
		if insist(late, func() error { return client.IgnoreNotFound(l.world.admin.Delete(late, job)) }) {
			l.mu.Lock()
			l.deleted++
			l.mu.Unlock()
		}
		return
	}
	suspend := func(ctx context.Context, to bool) {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"suspend":%v}}`, to))
		insist(ctx, func() error { return l.world.admin.Patch(ctx, job.DeepCopy(), patch) })
	}
	suspend(ctx, true)
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	suspend(late, false)
}

// insist retries something until it succeeds, fails permanently, or the context ends.
func insist(ctx context.Context, do func() error) bool {
	for ctx.Err() == nil {
		err := do()
		if err == nil || apierrors.IsAlreadyExists(err) {
			return true
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			panic(fmt.Sprintf("the load makes a wrong request: %v", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false
}
