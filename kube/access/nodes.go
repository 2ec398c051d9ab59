// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
)

// NodesConfig configures Nodes.
type NodesConfig struct {
	Client    client.Client // makes the reviews
	Pods      client.Reader // reads pods, from a cache if there is one
	Audience  string        // of the tokens
	Namespace string        // of the agents
	Account   string        // their service account
	Now       func() time.Time
}

// Nodes returns a function that finds the node that the owner of a token runs on. The
// token must be that of a pod of the agents' account, so an agent speaks for its own node
// only.
func Nodes(c NodesConfig) func(ctx context.Context, token string) (node string, err error) {
	r, known := reviewer{c.Client, c.Audience}, newAnswers[string](c.Now)
	return func(ctx context.Context, token string) (string, error) {
		return known.find(token, func() (string, error) {
			ctx, cancel := context.WithTimeout(ctx, reviewTime)
			defer cancel()
			user, err := r.review(ctx, token)
			if err != nil {
				return "", err
			}
			name, uid := one(user.Extra[extraPodName]), one(user.Extra[extraPodUID])
			if user.Username != "system:serviceaccount:"+c.Namespace+":"+c.Account || name == "" || uid == "" {
				return "", denied("the token does not belong to a pod of the account %s in namespace %s", c.Account, c.Namespace)
			}
			var pod corev1.Pod
			err = c.Pods.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, &pod)
			switch {
			case apierrors.IsNotFound(err) || err == nil && (string(pod.UID) != uid || pod.Spec.NodeName == ""):
				return "", api.Errorf(api.Unavailable, "pod %s/%s is unknown, or not known yet", c.Namespace, name)
			case err != nil:
				return "", api.Errorf(api.Unavailable, "read pod %s/%s: %w", c.Namespace, name, err)
			}
			return pod.Spec.NodeName, nil
		})
	}
}
