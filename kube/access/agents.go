// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// The fields in which the API server names the pod that a token is bound to.
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// The rate limit for the reports of one pod: a hundred at once, then ten a second.
const (
	reportEvery = 100 * time.Millisecond
	reportBurst = 100
	maxPods     = 20_000
)

// State receives the reports.
type State interface {
	Job(api.Identity, sched.JobID) (api.Job, error)
	ReportFor(context.Context, api.AttemptID, api.AgentReport) (api.AgentAnswer, error)
}

// AgentsConfig configures Agents.
type AgentsConfig struct {
	// Client makes the reviews.
	Client client.Client
	// Pods reads pods, from a cache if there is one; it needs their labels and
	// annotations, UID, scheduler and node.
	Pods     client.Reader
	State    State
	Audience string // empty: AgentAudience
	Now      func() time.Time
}

// Agents implements api.Agents for pods.
type Agents struct {
	reviewer reviewer
	pods     client.Reader
	state    State
	answers  *answers[speaker]
	now      func() time.Time

	mu    sync.Mutex
	fresh map[string]time.Time // by pod: when it may report a full burst again
}

var _ api.Agents = (*Agents)(nil)

// speaker is a pod and the attempt it may report for.
type speaker struct {
	attempt api.AttemptID
	pod     string // UID
}

// NewAgents returns Agents.
func NewAgents(c AgentsConfig) *Agents {
	if c.Audience == "" {
		c.Audience = AgentAudience
	}
	return &Agents{
		reviewer: reviewer{c.Client, c.Audience}, pods: c.Pods, state: c.State,
		answers: newAnswers[speaker](c.Now), now: c.Now, fresh: map[string]time.Time{},
	}
}

// Report implements api.Agents. The state checks whether the attempt still runs.
func (a *Agents) Report(ctx context.Context, secret string, r api.AgentReport) (api.AgentAnswer, error) {
	who, err := a.answers.find(secret, func() (speaker, error) {
		ctx, cancel := context.WithTimeout(ctx, reviewTime)
		defer cancel()
		user, err := a.reviewer.review(ctx, secret)
		if err != nil {
			return speaker{}, err
		}
		return a.speaker(ctx, user)
	})
	if err != nil {
		return api.AgentAnswer{}, err
	}
	if !a.take(who.pod) {
		return api.AgentAnswer{}, api.Errorf(api.TooMany, "too many reports from one pod").Try("report every few seconds")
	}
	return a.state.ReportFor(ctx, who.attempt, r)
}

// speaker finds the attempt that the holder of a token may report for.
func (a *Agents) speaker(ctx context.Context, user authenticationv1.UserInfo) (speaker, error) {
	namespace, ok := serviceAccountNamespace(user.Username)
	name, uid := one(user.Extra[extraPodName]), one(user.Extra[extraPodUID])
	if !ok || name == "" || uid == "" {
		return speaker{}, denied("the token does not belong to a pod")
	}
	var pod corev1.Pod
	err := a.pods.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod)
	switch {
	case apierrors.IsNotFound(err) || err == nil && string(pod.UID) != uid:
		// The cache may be behind, so the agent of a pod that has just started must
		// retry.
		return speaker{}, api.Errorf(api.Unavailable, "pod %s/%s is unknown, or not known yet", namespace, name)
	case err != nil:
		return speaker{}, api.Errorf(api.Unavailable, "read pod %s/%s: %w", namespace, name, err)
	}
	id, known := attemptOf(&pod)
	if !known || pod.Spec.SchedulerName != v1alpha1.SchedulerName || pod.Spec.NodeName == "" {
		return speaker{}, denied("pod %s/%s does not belong to a training job", namespace, name)
	}
	job, err := a.state.Job(api.Identity{Role: api.Admin}, id.Job)
	if err != nil || originNamespace(job.Origin) != namespace {
		return speaker{}, denied("pod %s/%s does not belong to a training job in its namespace", namespace, name)
	}
	return speaker{attempt: id, pod: uid}, nil
}

// attemptOf returns the attempt of a pod: from its labels if Fairway created it,
// otherwise, as for batch Jobs, from the annotations that its binding set.
func attemptOf(pod *corev1.Pod) (api.AttemptID, bool) {
	from := pod.Labels
	if from[v1alpha1.LabelID] == "" {
		from = pod.Annotations
	}
	number, err := strconv.Atoi(from[v1alpha1.LabelAttempt])
	id := api.AttemptID{Job: sched.JobID(from[v1alpha1.LabelID]), Number: number}
	return id, id.Job != "" && err == nil
}

func denied(format string, args ...any) error { return api.Errorf(api.Denied, format, args...) }

func one(values authenticationv1.ExtraValue) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// originNamespace returns the namespace of the object that a job was made from; see
// api.Task.
func originNamespace(origin string) string {
	parts := strings.Split(origin, "/")
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}

// take counts a report of a pod and returns whether it is allowed.
func (a *Agents) take(pod string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if a.fresh[pod].Sub(now) > (reportBurst-1)*reportEvery {
		return false
	}
	if len(a.fresh) >= maxPods {
		for k, t := range a.fresh {
			if !t.After(now) {
				delete(a.fresh, k)
			}
		}
	}
	full := a.fresh[pod]
	if full.Before(now) {
		full = now
	}
	a.fresh[pod] = full.Add(reportEvery)
	return true
}
