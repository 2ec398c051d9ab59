// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/access"
)

// TestNodes: an agent speaks for the node of its own pod, and nobody else for any.
func TestNodes(t *testing.T) {
	c, admin := open(t)
	namespace(t, c, "n-agents")
	namespace(t, c, "n-users")
	agents, users := account(t, admin, "n-agents", "trainer"), account(t, admin, "n-users", "trainer")
	agent := pod(t, admin, client.ObjectKey{Namespace: "n-agents", Name: "agent"}, api.AttemptID{})
	user := pod(t, admin, client.ObjectKey{Namespace: "n-users", Name: "agent"}, api.AttemptID{})
	const audience = "fairway-nodes"
	whose := access.Nodes(access.NodesConfig{Client: admin, Pods: admin, Audience: audience, Namespace: "n-agents", Account: "trainer", Now: time.Now})
	for _, x := range []struct {
		name, secret, node string
	}{
		{"the agent", token(t, admin, agents, audience, agent), "n0"},
		{"its account without a pod", token(t, admin, agents, audience, nil), ""},
		{"its token for something else", token(t, admin, agents, access.AgentAudience, agent), ""},
		{"a user's pod of the same name", token(t, admin, users, audience, user), ""},
		{"nothing", "", ""},
	} {
		node, err := whose(t.Context(), x.secret)
		if node != x.node || (err == nil) != (x.node != "") || err != nil && api.CodeOf(err) != api.Denied {
			t.Errorf("%s: node %q, %v; want %q", x.name, node, err, x.node)
		}
	}
}
