// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/lab/progress"
)

// trial is one run on a cluster of its own.
type trial struct {
	*options
	contender
	mode        string
	nodes, jobs int
	bar         *progress.Bar
	status      io.Writer // for lines between the bars

	cluster *kubetest.Cluster
	client  client.Client
	sched   *scheduler
	watch   *follower
}

func (t *trial) name() string {
	return fmt.Sprintf("%s-%s-%d", t.contender, t.mode, t.nodes)
}

// run starts everything, submits the jobs and waits until they are bound.
func (t *trial) run(ctx context.Context) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	in := t.input
	if t.mode == modeFill {
		in.runFor = 0
	}
	gangs := in.gangs(t.jobs)
	begin := time.Now()
	fmt.Fprintf(t.status, "%s: starting the control plane and %d nodes\n", t.name(), t.nodes)
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	defer t.cluster.Close()
	if err := t.openScheduler(ctx); err != nil {
		return nil, errors.Join(err, t.keepLogs())
	}
	defer t.sched.stop()
	t.watch = newFollower(gangs)
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch() // before the API server ends
	if err := t.watch.watch(watching, t.cluster.Admin()); err != nil {
		return nil, err
	}
	fmt.Fprintf(t.status, "%s: cluster up after %s; submitting %d jobs\n", t.name(), time.Since(begin).Round(time.Second), t.jobs)
	before, err := t.measure(ctx)
	if err != nil {
		return nil, err
	}
	profiled := t.profileIn(ctx)
	first := time.Now()
	submitted, err := t.drive(ctx, in, gangs)
	if err != nil {
		return nil, errors.Join(err, t.keepLogs())
	}
	end := t.watch.counts()
	broken, err := t.broken(ctx)
	if err != nil {
		return nil, err
	}
	after, err := t.measure(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(profiled(), t.keepLogs()); err != nil {
		return nil, err
	}
	return t.result(figures{gangs: gangs, first: first, submitted: submitted, end: end, broken: broken, before: before, after: after})
}

// open starts the control plane with its nodes.
func (t *trial) open(ctx context.Context) error {
	var err error
	t.cluster, err = kubetest.Open(ctx, "", kubetest.Options{
		ControllerManager: !t.bare, Scheduler: peers[t.scheduler].kubeScheduler, KWOK: true,
		// Renewing the leases of a thousand nodes would use much of two cores.
		NodeLease: 2 * time.Hour, NodeGrace: 4 * time.Hour,
	})
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if t.client, err = client.New(t.cluster.Admin(), client.Options{Scheme: scheme}); err != nil {
		t.cluster.Close()
		return fmt.Errorf("make client: %w", err)
	}
	err = t.cluster.AddNodes(ctx, kubetest.NodeSpec{Prefix: "gpu", Count: t.nodes, GPUs: t.gpus, Type: gpuType, PerRack: perRack, PerZone: perZone})
	for i := range teams {
		if err == nil {
			err = t.cluster.Namespace(ctx, namespace(i))
		}
	}
	if err != nil {
		t.cluster.Close()
	}
	return err
}

// drive submits the jobs and waits until they end or the cluster is full. It returns
// the time of the last submission.
func (t *trial) drive(ctx context.Context, in input, gangs []gang) (submitted time.Time, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var last atomic.Int64 // when all were submitted, in Unix nanoseconds
	var work sync.WaitGroup
	work.Go(func() {
		if err := t.submit(ctx, in, gangs); err != nil {
			cancel(err)
			return
		}
		last.Store(time.Now().UnixNano())
	})
	defer work.Wait()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait for jobs to be bound: %w; %d of %d are", context.Cause(ctx), t.watch.counts().bound, len(gangs))
		case <-tick.C:
		}
		c := t.watch.counts()
		t.bar.Show(t.name(), c.bound, len(gangs), fmt.Sprintf("%d of %d jobs bound, %d done, %d pods", c.bound, len(gangs), c.done, c.pods))
		if err := t.sched.fault(); err != nil {
			return time.Time{}, err
		}
		all := last.Load()
		switch {
		case all == 0:
		case t.mode == modeChurn && c.done == len(gangs), t.mode == modeFill && (c.bound == len(gangs) || time.Since(latest(c.last, time.Unix(0, all))) > t.quiet):
			t.bar.Clear()
			return time.Unix(0, all), nil
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// submitters is the number of concurrent clients.
const submitters = 4

// submit creates the objects of all jobs, in order.
func (t *trial) submit(ctx context.Context, in input, gangs []gang) error {
	var next atomic.Int64
	errs := make([]error, submitters)
	begin := time.Now()
	var all sync.WaitGroup
	for w := range submitters {
		all.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(gangs) {
					return
				}
				if t.rate > 0 {
					time.Sleep(time.Until(begin.Add(time.Duration(float64(i) / t.rate * float64(time.Second)))))
				}
				t.watch.submitted(i, time.Now())
				if err := t.client.Create(ctx, t.object(in, i, gangs[i])); err != nil {
					errs[w] = fmt.Errorf("submit %s: %w", jobName(i), err)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// keepLogs copies the logs of the scheduler out of the cluster's folder.
func (t *trial) keepLogs() error {
	var failed error
	for _, p := range t.sched.processes {
		text, err := os.ReadFile(p.log)
		if err == nil {
			err = os.WriteFile(filepath.Join(t.out, t.name()+"."+p.name+".log"), text, 0o644)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
