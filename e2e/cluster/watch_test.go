// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// checkLoad waits for the jobs of a load, and checks that none was lost.
func (w *world) checkLoad(t *testing.T, l *load) {
	t.Helper()
	w.waitAll(t)
	states := w.account(t)
	if total := states[api.Finished] + states[api.Failed]; total+l.deleted < l.created {
		t.Errorf("of %d jobs %d have ended and %d were deleted: some are lost", l.created, total, l.deleted)
	}
}

// TestWatchesCut: all connections of the operator are cut repeatedly.
func TestWatchesCut(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"cut"}})
	link := w.Link(t)
	stopped := w.keepRunning(t, how{link: link, settings: map[string]any{"leader": brief}})
	load, stop := w.arrive(t, 71, 500*time.Millisecond)
	for i := range 30 {
		time.Sleep(time.Duration(100+50*(i%7)) * time.Millisecond)
		link.Sever()
	}
	stop()
	w.checkLoad(t, load)
	stopped()
}

// TestAnswersLost: the operator's requests arrive but the responses do not, for shorter
// and for longer than its lease. It cannot know which requests took effect.
func TestAnswersLost(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"answers"}})
	link := w.Link(t)
	stopped := w.keepRunning(t, how{link: link, settings: map[string]any{"leader": brief}})
	load, stop := w.arrive(t, 72, 400*time.Millisecond)
	for _, silence := range []time.Duration{300, 600, 900, 1200, 5000, 400, 800} {
		time.Sleep(time.Second)
		link.BlockAnswers()
		time.Sleep(silence * time.Millisecond)
		if silence == 900 { // and they never arrive
			link.Sever()
		}
		link.Unblock()
	}
	stop()
	w.checkLoad(t, load)
	stopped()
}

// TestStaleCache: the operator sees everything a second and a half late, while its
// writes take effect at once.
func TestStaleCache(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"stale"}})
	stopped := w.keepRunning(t, how{through: w.SlowWatch(t, 1500*time.Millisecond)})
	load, stop := w.arrive(t, 73, 300*time.Millisecond)
	time.Sleep(8 * time.Second)
	stop()
	w.checkLoad(t, load)
	stopped()
}

// TestConflicts: other programs write to the same objects all the time: labels and
// annotations of jobs, their status, and the labels of their pods.
func TestConflicts(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"conflicts"}})
	w.operator(t, how{})
	load, stop := w.arrive(t, 74, 400*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	var writes atomic.Int64
	done.Go(func() { w.disturb(ctx, &writes) })
	time.Sleep(8 * time.Second)
	eventually(t, "others have written often enough to test something", func() error {
		if n := writes.Load(); n < 100 {
			return fmt.Errorf("they wrote %d times; want 100 or more", n)
		}
		return nil
	})
	stop()
	cancel()
	done.Wait()
	t.Logf("others wrote %d times", writes.Load())
	w.checkLoad(t, load)
}

// disturb writes to all jobs of the first namespace and to their pods until the
// context ends, and counts what it wrote.
func (w *world) disturb(ctx context.Context, writes *atomic.Int64) {
	for n := 0; ctx.Err() == nil; n++ {
		var jobs v1alpha1.TrainingJobList
		if w.admin.List(ctx, &jobs, client.InNamespace(w.namespaces[0])) != nil {
			continue
		}
		for i := range jobs.Items {
			job := &jobs.Items[i]
			if hasEnded(job.Status.State) {
				continue // nothing would correct what is written to it
			}
			patch := func(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }
			if w.admin.Patch(ctx, job.DeepCopy(), patch(fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"},"annotations":{"n":"%d"}}}`, n, n))) == nil {
				writes.Add(1)
			}
			if n%3 == 0 && w.admin.Status().Patch(ctx, job.DeepCopy(), patch(`{"status":{"why":"somebody else says so","rho":"9"}}`)) == nil {
				writes.Add(1)
			}
		}
	}
}
