// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/volumes"
	"github.com/fairway-gpu/fairway/kube/workload"
	"github.com/fairway-gpu/fairway/sched"
)

// Templates finds what the pods of an attempt are made from. ErrGone, or a "not
// found" of the API server, means that the attempt can never start; any other error
// is retried.
type Templates interface {
	Template(context.Context, api.Attempt) (workload.Pod, error)
}

// ErrGone means that the object that an attempt was made from no longer exists.
var ErrGone = errors.New("the object of the job no longer exists")

// How the pods of a gang find its first pod.
const (
	ByDNS = "dns" // by name, through a headless service
	ByIP  = "ip"  // by address, which is known when the first pod runs
)

// Config holds the settings for running pods. Zero fields mean the default.
type Config struct {
	Client    client.Client // writes; reads past the cache; required
	Cache     cache.Cache   // of pods and nodes; required
	Templates Templates     // required
	// ReadLog reads what a container printed; nil: logs are not available.
	ReadLog func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error)
	// OwnsPod reports whether Fairway created a pod, because anybody can copy its labels;
	// nil: every pod with the labels counts.
	OwnsPod func(*corev1.Pod) bool
	// Confirm returns nil if no other operator had led after this one when it was called
	// (journal.Journal); nil: there is no other.
	Confirm func(context.Context) error
	// External runs attempts of external workloads; nil: there are none.
	External External
	// Volumes are those of the cluster; nil: the executor does not look at volumes.
	Volumes *volumes.View

	API      string // value of FAIRWAY_API for the jobs
	Audience string // of the tokens with which agents authenticate; default fairway-agents
	// Rendezvous is how pods find each other: ByDNS (the default) or ByIP.
	Rendezvous string
	Port       int // the port on which the first pod of a gang, or of a role, listens; default 29500. The next one is for all roles
	// Replicas returns how many replicas of each GPU a node offers; nil: one. GPUs with
	// one replica cannot be shared.
	Replicas func(*corev1.Node) int
	// MPS reports whether the replicas of a node are parts of a GPU separated by MPS,
	// of which a pod gets at most one; nil: they are not.
	MPS func(*corev1.Node) bool
	// Hands suspend pods; nil: none is. Suspends reports whether a node lets other pods
	// have the GPUs of a suspended one (nodes.Suspends); nil: none does.
	Hands    Hands
	Suspends func(*corev1.Node) bool
	// Pin selects the GPUs of a container with the variable NVIDIA_VISIBLE_DEVICES,
	// whatever the device plugin chose. It applies to nodes that offer replicas.
	Pin bool
	// Resources are the resource names of GPUs, the most usual first; default
	// request.GPUs.
	Resources []corev1.ResourceName
	// Tolerated are the keys of taints that the pods tolerate, besides those named like
	// the GPU resource.
	Tolerated []string

	GracePeriod time.Duration // grace period of jobs that name none; default 30 s
	Report      time.Duration // how often agents report; default 30 s
	Parallel    int           // concurrent requests to the API server; default 16
	Resync      time.Duration // how often everything is checked; default 30 s
	HoldFor     time.Duration // how long a gang waits for room that other pods took; default 10 s
	PullFor     time.Duration // how long pulling an image may fail; default 5 min
	StartFor    time.Duration // how long a pod that nothing blocks may take to run its first container; default 15 min
	LostAfter   time.Duration // how long a node may be silent before its pods count as gone; default 60 s
	StuckFor    time.Duration // how long a pod may take to stop beyond its grace period; default 5 min
	KeepPods    time.Duration // how long ended pods are kept; default 1 h

	// Ended reports whether a job will never run again; nil: following a log stops at
	// the end of an attempt.
	Ended func(sched.JobID) bool

	Now func() time.Time // default time.Now
	Log *slog.Logger     // default: nothing is logged
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&c.GracePeriod, 30 * time.Second}, {&c.Report, 30 * time.Second}, {&c.Resync, 30 * time.Second},
		{&c.HoldFor, 10 * time.Second}, {&c.PullFor, 5 * time.Minute}, {&c.StartFor, 15 * time.Minute}, {&c.LostAfter, time.Minute},
		{&c.StuckFor, 5 * time.Minute}, {&c.KeepPods, time.Hour},
	} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	if c.Parallel <= 0 {
		c.Parallel = 16
	}
	if len(c.Resources) == 0 {
		c.Resources = request.GPUs()
	}
	if c.Audience == "" {
		c.Audience = "fairway-agents"
	}
	if c.Rendezvous == "" {
		c.Rendezvous = ByDNS
	}
	if c.Port == 0 {
		c.Port = 29500
	}
	if c.Replicas == nil {
		c.Replicas = func(*corev1.Node) int { return 1 }
	}
	if c.MPS == nil {
		c.MPS = func(*corev1.Node) bool { return false }
	}
	if c.Suspends == nil {
		c.Suspends = func(*corev1.Node) bool { return false }
	}
	if c.Confirm == nil {
		c.Confirm = func(context.Context) error { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
