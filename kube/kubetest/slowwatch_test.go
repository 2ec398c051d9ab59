// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestBlockAnswers: requests take effect, and the client gets no response.
func TestBlockAnswers(t *testing.T) {
	c, ctx := shared.Cluster(t), inTime(t)
	link := c.Link(t)
	through := clientOf(t, link.Through(c.Admin()))
	if err := list(ctx, through); err != nil {
		t.Fatal(err)
	}
	link.BlockAnswers()
	asking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "unheard"}}
	t.Cleanup(func() {
		if err := c.Client.Delete(context.Background(), made); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	heard := make(chan error, 1)
	go func() { heard <- through.Create(asking, made.DeepCopy()) }()
	if err := poll(ctx, func(ctx context.Context) error {
		return c.Client.Get(ctx, client.ObjectKeyFromObject(made), &corev1.ConfigMap{})
	}); err != nil {
		t.Errorf("what was asked for: %v; want it done", err)
	}
	select {
	case err := <-heard:
		t.Errorf("the API server answers through a link that lets no answers through: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	giveUp()
	link.Unblock()
	if err := list(ctx, through); err != nil {
		t.Errorf("after the block: %v", err)
	}
}

// TestSlowWatch: watch events are late, and all other requests are answered at once.
func TestSlowWatch(t *testing.T) {
	const delay = 1500 * time.Millisecond
	c, ctx := shared.Cluster(t), inTime(t)
	config := c.SlowWatch(t, delay)(c.Admin())
	late, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := late.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace("default"), client.MatchingFields{"metadata.name": "late"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	begin := time.Now()
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late"}}
	if err := late.Create(ctx, made); err != nil {
		t.Fatal(err)
	}
	answered := time.Since(begin)
	defer func() {
		if err := c.Client.Delete(ctx, made); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-w.ResultChan():
	case <-ctx.Done():
		t.Fatal("the watch tells nothing")
	}
	if told := time.Since(begin); told < delay || answered >= told {
		t.Errorf("answered after %v and told after %v; want it told %v or more after it was made", answered, told, delay)
	}
}
