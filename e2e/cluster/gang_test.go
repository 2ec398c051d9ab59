// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// TestGangsDoNotDeadlock: two gangs in a cluster with room for one and a half never
// hold half each. One runs as a whole, then the other.
func TestGangsDoNotDeadlock(t *testing.T) {
	for _, size := range []int32{100, allGPUs / 2} {
		t.Run(fmt.Sprintf("%d pods each", size), func(t *testing.T) {
			w := begin(t, setting{namespaces: []string{fmt.Sprintf("gangs-%d", size)}})
			w.operator(t, how{})
			both, runFor := 2*size <= allGPUs, 5*time.Second
			if both {
				runFor = 0 // until they are told to end
			}
			a := w.create(t, training{name: "a", gpus: size, runFor: runFor})
			b := w.create(t, training{name: "b", gpus: size, runFor: runFor})
			if both {
				w.wait(t, a, api.Running)
				w.wait(t, b, api.Running)
				time.Sleep(2 * time.Second) // the API's times are whole seconds
				w.end(t, a)
				w.end(t, b)
			}
			w.waitAll(t)
			if got := w.account(t); got[api.Finished] != 2 {
				t.Errorf("got %v; want both finished", got)
			}
			for _, job := range []*v1alpha1.TrainingJob{a, b} {
				w.wait(t, job, api.Finished)
				if job.Status.Attempt != 1 {
					t.Errorf("job %s needed %d attempts; want 1", job.Name, job.Status.Attempt)
				}
			}
			together := a.Status.StartTime.Before(b.Status.CompletionTime) && b.Status.StartTime.Before(a.Status.CompletionTime)
			if together != both {
				t.Errorf("they ran at the same time: %v; want %v", together, both)
			}
		})
	}
}

// TestOversizeGang: a job that can never run says so within two seconds, and does not
// keep other jobs from running.
func TestOversizeGang(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"oversize"}})
	w.operator(t, how{})
	var took, moments []time.Duration
	for i := range 7 {
		moments = append(moments, w.moment(t))
		job := w.create(t, training{name: fmt.Sprintf("huge-%d", i), gpus: allGPUs + 1 + int32(i)})
		begin := time.Now()
		var why string
		eventually(t, "a firm no", func() error {
			if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
				return err
			}
			c := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.Running)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "Impossible" {
				return fmt.Errorf("its condition Running is %+v", c)
			}
			why = c.Message
			return nil
		})
		took = append(took, time.Since(begin))
		if !strings.Contains(why, fmt.Sprint(allGPUs+1+i)) || !strings.Contains(why, fmt.Sprint(allGPUs)) {
			t.Errorf("it says %q; want what it asks for and what there is", why)
		}
	}
	slices.Sort(took)
	slices.Sort(moments)
	median, longest := took[len(took)/2], took[len(took)-1]
	// Two seconds are plenty, unless the machine is overloaded.
	moment, slowest := moments[len(moments)/2], moments[len(moments)-1]
	most, once := max(2*time.Second, 20*moment), max(10*time.Second, 20*slowest)
	t.Logf("from creation to a firm no: median %v, longest %v; a controller of Kubernetes needed %v, and %v", median, longest, moment, slowest)
	if median > most || longest > once {
		t.Errorf("median %v, longest %v; want at most %v and %v", median, longest, most, once)
	}
	small := w.create(t, training{name: "small", gpus: 8, runFor: time.Second})
	w.wait(t, small, api.Finished)
	w.account(t)
}

// moment returns how long a controller of Kubernetes itself takes to react to a new
// object on this machine at this time: to create the default service account of a
// namespace.
func (w *world) moment(t *testing.T) time.Duration {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "moment-"}}
	begin := time.Now()
	if err := w.admin.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace has an account", func() error {
		return w.admin.Get(t.Context(), client.ObjectKey{Namespace: n.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
	return time.Since(begin)
}

// TestSameNameAgain: a job is deleted and another of its name is created while the pods
// of the first are still stopping. The second waits for their names, and runs.
func TestSameNameAgain(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"again"}})
	w.operator(t, how{})
	first := w.create(t, training{name: "net", gpus: 4, stopAfter: 4 * time.Second})
	w.wait(t, first, api.Running)
	if err := w.admin.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	// Another job gets the GPUs of the first, so the second does not wait for those.
	w.create(t, training{name: "heir", gpus: 4, runFor: time.Second})
	time.Sleep(300 * time.Millisecond)
	second := w.create(t, training{name: "net", gpus: 4, runFor: time.Second})
	w.wait(t, second, api.Finished, api.Failed)
	if second.Status.State != api.Finished || second.Status.ID == first.Status.ID {
		t.Errorf("the second is %s as %s (%s); want it finished, and not as %s", second.Status.State, second.Status.ID, second.Status.Why, first.Status.ID)
	}
	w.waitAll(t)
	w.account(t)
}
