// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// follower tracks the jobs by their pods.
type follower struct {
	mu                                     sync.Mutex
	jobs                                   []state
	last                                   time.Time // when a job was bound last
	podsBound, jobsBound, jobsDone, starts int
}

// state is one job.
type state struct {
	size      int
	submitted time.Time
	bound     time.Time       // all of its pods had a node
	done      time.Time       // all of its pods had succeeded
	placed    map[string]bool // pods of the attempt that have a node
	succeeded map[string]bool
	attempt   string
}

func newFollower(gangs []gang) *follower {
	f := &follower{jobs: make([]state, len(gangs))}
	for i, g := range gangs {
		f.jobs[i].size = g.pods
	}
	return f
}

// watch follows all pods until the context ends; it returns once the watch is up.
func (f *follower) watch(ctx context.Context, c *rest.Config) error {
	c = rest.CopyConfig(c)
	c.ContentType = "application/vnd.kubernetes.protobuf"
	set, err := kubernetes.NewForConfig(c)
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	source := cache.NewListWatchFromClient(set.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, fields.Everything())
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: &corev1.Pod{},
		// The store is never read, so it keeps only the names.
		Transform: func(o any) (any, error) {
			if p, ok := o.(*corev1.Pod); ok {
				f.see(p, time.Now())
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}}, nil
			}
			return o, nil
		},
		Handler: cache.ResourceEventHandlerFuncs{},
	})
	go informer.Run(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("watch pods: %w", ctx.Err())
	}
	return nil
}

// see records the state of a pod.
func (f *follower) see(p *corev1.Pod, now time.Time) {
	i, ok := numberOf(cmp.Or(p.Labels[v1alpha1.LabelJob], p.Labels[batchv1.JobNameLabel], p.Labels[labelVolcanoJob]))
	if !ok || p.Spec.NodeName == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i < 0 || i >= len(f.jobs) {
		return
	}
	s := &f.jobs[i]
	if attempt := p.Labels[v1alpha1.LabelAttempt]; s.placed == nil || attempt > s.attempt {
		s.attempt, s.placed, s.succeeded = attempt, map[string]bool{}, map[string]bool{}
	} else if attempt < s.attempt {
		return // a pod of an earlier attempt
	}
	if !s.placed[p.Name] {
		s.placed[p.Name] = true
		f.podsBound++
		if len(s.placed) == s.size {
			f.starts++
			if s.bound.IsZero() {
				s.bound, f.last = now, now
				f.jobsBound++
			}
		}
	}
	if p.Status.Phase == corev1.PodSucceeded && !s.succeeded[p.Name] {
		s.succeeded[p.Name] = true
		if len(s.succeeded) == s.size && s.done.IsZero() {
			s.done = now
			f.jobsDone++
		}
	}
}

func (f *follower) submitted(i int, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[i].submitted = at
}

// counts is the progress of a run.
type counts struct {
	bound, pods, done, starts int
	last                      time.Time
}

func (f *follower) counts() counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return counts{bound: f.jobsBound, pods: f.podsBound, done: f.jobsDone, starts: f.starts, last: f.last}
}

// times returns when the bound jobs were submitted and bound.
func (f *follower) times() (submitted, bound []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.jobs {
		if !s.bound.IsZero() {
			submitted, bound = append(submitted, s.submitted), append(bound, s.bound)
		}
	}
	return submitted, bound
}
