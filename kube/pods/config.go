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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/sched"
)

// Pod is what the pods of an attempt are made from.
type Pod struct {
	Template    corev1.PodTemplateSpec
	Owner       metav1.OwnerReference // the controller of the pods
	Namespace   string
	Name        string // of the job: pods are named after it
	GPUResource corev1.ResourceName
}

// Templates finds what the pods of an attempt are made from. ErrGone, or a "not
// found" of the API server, means that the attempt can never start; any other error
// is retried.
type Templates interface {
	Template(context.Context, api.Attempt) (Pod, error)
}

// ErrGone means that what an attempt was made from no longer exists.
var ErrGone = errors.New("what the job was made from no longer exists")

// How the pods of a gang find the first of them.
const (
	ByDNS = "dns" // by name, through a headless service
	ByIP  = "ip"  // by address, which is known when the first runs
)

// Config holds the settings for running pods. Zero fields mean the default.
type Config struct {
	Client    client.Client // writes; reads past the cache; required
	Cache     cache.Cache   // of pods and nodes; required
	Templates Templates     // required
	// ReadLog reads what a container printed; nil: logs are not available.
	ReadLog func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error)
	// Made distinguishes pods that Fairway made from those that only have its labels;
	// nil: all with the labels count.
	Made func(*corev1.Pod) bool
	// External runs attempts of external workloads; nil: there are none.
	External External

	API      string // value of FAIRWAY_API for the jobs
	Audience string // of the tokens by which agents are known; default fairway-agents
	// Rendezvous is how pods find each other: ByDNS (the default) or ByIP.
	Rendezvous string
	Port       int // that the first pod of a gang listens on; default 29500
	// Replicas returns how often a node offers each of its GPUs; nil: once. Where it
	// is once, GPUs cannot be shared.
	Replicas func(*corev1.Node) int
	// MPS reports whether a node's replicas are parts of GPUs separated by MPS, of
	// which a pod gets one at most; nil: none are.
	MPS func(*corev1.Node) bool
	// Pin: the variable NVIDIA_VISIBLE_DEVICES chooses the GPUs of a container,
	// whatever the device plugin chose. It is used where each GPU is offered several
	// times.
	Pin bool
	// Resources are those that GPUs are requested by, the usual first; default
	// request.GPUs.
	Resources []corev1.ResourceName
	// Tolerated are keys of taints that the pods tolerate, besides the resource.
	Tolerated []string

	Notice    time.Duration // grace period of jobs that name none; default 30 s
	Report    time.Duration // how often agents report; default 30 s
	Parallel  int           // requests to the API server at a time; default 16
	Resync    time.Duration // how often everything is looked at; default 30 s
	HoldFor   time.Duration // how long a gang waits for room that others took; default 10 s
	PullFor   time.Duration // how long an image may fail to come; default 5 min
	LostAfter time.Duration // how long a node may be silent until its pods count as gone; default 60 s
	StuckFor  time.Duration // how long a pod may take to stop beyond its notice; default 5 min
	KeepPods  time.Duration // how long pods that have ended are kept; default 1 h

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
		{&c.Notice, 30 * time.Second}, {&c.Report, 30 * time.Second}, {&c.Resync, 30 * time.Second},
		{&c.HoldFor, 10 * time.Second}, {&c.PullFor, 5 * time.Minute}, {&c.LostAfter, time.Minute},
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
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
