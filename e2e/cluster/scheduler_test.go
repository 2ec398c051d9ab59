// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// stranger is a pod with GPUs that is not Fairway's.
func stranger(namespace, name string, gpus int64, runFor time.Duration) *corev1.Pod {
	q := corev1.ResourceList{kubetest.GPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{kubetest.RunFor: runFor.String()}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: q, Limits: q}}},
		},
	}
}

// TestOtherScheduler: kube-scheduler places pods with GPUs on the same nodes. The two
// do not know each other's plans, so both may choose the same GPUs at the same moment.
// Fairway then makes way, and continues when there is room.
func TestOtherScheduler(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"other"}, shared: true})
	w.operator(t, how{})
	load, stop := w.arrive(t, 8, 300*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	strangers := 0
	done.Go(func() {
		r := rand.New(rand.NewPCG(8, 8))
		for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			p := stranger(w.namespaces[0], fmt.Sprintf("stranger-%d", strangers), int64(1+r.IntN(4)), time.Duration(1000+r.IntN(4000))*time.Millisecond)
			if w.admin.Create(ctx, p) == nil {
				strangers++
			}
		}
	})
	time.Sleep(15 * time.Second)
	stop()
	cancel()
	done.Wait()
	// No new pods come: a node that both have chosen recovers.
	eventually(t, "no node is over-committed", func() error {
		if now := w.ledger.crowdedNow(); len(now) > 0 {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
	w.checkLoad(t, load)
	t.Logf("%d pods of kube-scheduler; %d times a node was found over-committed by a race, and was put right", strangers, w.ledger.crowded)
	eventually(t, "some pods of kube-scheduler have run", func() error {
		w.ledger.mu.Lock()
		defer w.ledger.mu.Unlock()
		for _, s := range w.ledger.pods {
			if s.attempt.job == "" && s.phase == corev1.PodSucceeded {
				return nil
			}
		}
		return errors.New("none has")
	})
}

// TestOtherSchedulerRaces: another scheduler takes GPUs between a decision and the
// binding of a gang. The gang makes way as a whole, and runs later.
func TestOtherSchedulerRaces(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"races"}, shared: true})
	w.operator(t, how{})
	gang := w.object(training{name: "gang", gpus: allGPUs, runFor: 2 * time.Second})
	rival := stranger("races", "rival", nodeGPUs, 5*time.Second)
	rival.Spec.SchedulerName = "another"
	if err := w.admin.Create(t.Context(), rival); err != nil {
		t.Fatal(err)
	}
	if err := w.admin.Create(t.Context(), gang); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the gang has pods", func() error {
		var pods corev1.PodList
		if err := w.admin.List(t.Context(), &pods, client.InNamespace("races"), client.MatchingLabels{v1alpha1.LabelJob: "gang"}); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return fmt.Errorf("it has none")
		}
		return nil
	})
	if err := w.Bind(t.Context(), client.ObjectKeyFromObject(rival), gpuNode+"-5"); err != nil {
		t.Fatal(err)
	}
	w.wait(t, gang, api.Finished)
	if _, err := w.WaitPod(t.Context(), client.ObjectKeyFromObject(rival), corev1.PodSucceeded); err != nil {
		t.Errorf("the rival: %v; want it to run to its end", err)
	}
	w.account(t)
	t.Logf("the gang needed %d attempts", gang.Status.Attempt)
}

// TestCountsOthers: Fairway does not allocate GPUs that other pods hold.
func TestCountsOthers(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"counts"}})
	w.operator(t, how{})
	for i := range 3 {
		p := stranger("counts", fmt.Sprintf("resident-%d", i), 4, time.Hour)
		if err := w.admin.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if _, err := w.WaitPod(t.Context(), client.ObjectKeyFromObject(p), corev1.PodRunning); err != nil {
			t.Fatal(err)
		}
	}
	w.knowsOthers(t, 12)
	all := w.create(t, training{name: "all", gpus: allGPUs, runFor: time.Second})
	rest := w.create(t, training{name: "rest", gpus: allGPUs - 12, runFor: time.Second})
	w.wait(t, all, api.Waiting)
	if all.Status.Attempt != 0 {
		t.Errorf("a job that does not fit beside others was started %d times; want 0", all.Status.Attempt)
	}
	if err := w.admin.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("counts"), client.MatchingFields{"spec.schedulerName": corev1.DefaultSchedulerName}); err != nil {
		t.Fatal(err)
	}
	w.wait(t, all, api.Finished)
	w.wait(t, rest, api.Finished)
	w.account(t)
}
