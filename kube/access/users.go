// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// The audiences of the tokens that Fairway accepts.
const (
	UserAudience  = "fairway"
	AgentAudience = "fairway-agents"
)

// ownPrefix is the prefix of tokens that Fairway issued.
const ownPrefix = "fw_"

// maxAsked bounds the namespaces that are checked for one token.
const maxAsked = 64

// Tenants maps namespaces to tenants.
type Tenants interface {
	// Of returns the tenants of a namespace, the one that counts first; none: no jobs
	// can run there.
	Of(ctx context.Context, namespace string) ([]sched.TenantID, error)
	// Namespaces returns the namespaces of a tenant.
	Namespaces(ctx context.Context, tenant sched.TenantID) ([]string, error)
	// All returns the tenants, by name.
	All(ctx context.Context) ([]sched.TenantID, error)
}

// UsersConfig configures Users.
type UsersConfig struct {
	// Client makes the reviews. It reads nothing.
	Client client.Client
	// State handles the tokens that Fairway issued.
	State    api.Access
	Tenants  Tenants
	Audience string // empty: UserAudience
	Now      func() time.Time
}

// Users implements api.Access with the cluster's own accounts.
type Users struct {
	api.Access
	reviewer reviewer
	tenants  Tenants
	answers  *answers[api.Identity]
}

var _ api.Access = (*Users)(nil)

// NewUsers returns Users.
func NewUsers(c UsersConfig) *Users {
	if c.Audience == "" {
		c.Audience = UserAudience
	}
	return &Users{
		Access: c.State, reviewer: reviewer{c.Client, c.Audience}, tenants: c.Tenants, answers: newAnswers[api.Identity](c.Now),
	}
}

// Authenticate implements api.Access.
func (u *Users) Authenticate(secret string) (api.Identity, error) {
	if strings.HasPrefix(secret, ownPrefix) {
		return u.Access.Authenticate(secret)
	}
	return u.answers.find(secret, func() (api.Identity, error) {
		ctx, cancel := context.WithTimeout(context.Background(), reviewTime)
		defer cancel()
		who, err := u.reviewer.review(ctx, secret)
		if err != nil {
			return api.Identity{}, err
		}
		return u.identity(ctx, who)
	})
}

// identity finds the tenant and the role of an account.
func (u *Users) identity(ctx context.Context, who authenticationv1.UserInfo) (api.Identity, error) {
	id := api.Identity{User: who.Username, Owner: api.Owner{UID: -1, GID: -1}}
	home, _ := serviceAccountNamespace(who.Username)
	tenants, err := u.candidates(ctx, home)
	if err != nil {
		return api.Identity{}, unavailable(err)
	}
	admin, err := u.may(ctx, who, authorizationv1.ResourceAttributes{Verb: "update", Resource: "schedulingpolicies", Name: "cluster"})
	if err != nil {
		return api.Identity{}, err
	}
	if admin {
		id.Role, id.Tenant = api.Admin, "default"
		if len(tenants) > 0 {
			id.Tenant = tenants[0]
		}
		return id, nil
	}
	asked := 0
	for _, tenant := range tenants {
		namespaces, err := u.tenants.Namespaces(ctx, tenant)
		if err != nil {
			return api.Identity{}, unavailable(err)
		}
		role, err := u.roleIn(ctx, who, homeFirst(namespaces, home), &asked)
		if err != nil {
			return api.Identity{}, err
		}
		if role != api.NoRole {
			id.Role, id.Tenant = role, tenant
			return id, nil
		}
	}
	return api.Identity{}, api.Errorf(api.Denied, "%s has no permission on training jobs", who.Username).
		Try("ask an administrator for a role binding to fairway-user or fairway-viewer in a namespace of your tenant")
}

// candidates returns the tenants that a user may belong to; those of a service
// account's namespace come first.
func (u *Users) candidates(ctx context.Context, home string) ([]sched.TenantID, error) {
	var out []sched.TenantID
	if home != "" {
		own, err := u.tenants.Of(ctx, home)
		if err != nil {
			return nil, err
		}
		out = append(out, own...)
	}
	all, err := u.tenants.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out, nil
}

// roleIn returns the highest role that a user has in any of a tenant's namespaces.
func (u *Users) roleIn(ctx context.Context, who authenticationv1.UserInfo, namespaces []string, asked *int) (api.Role, error) {
	role := api.NoRole
	for _, ns := range namespaces {
		if *asked >= maxAsked {
			break
		}
		*asked++
		for _, r := range []struct {
			verb string
			role api.Role
		}{{"create", api.User}, {"list", api.Viewer}} {
			if role >= r.role {
				continue
			}
			ok, err := u.may(ctx, who, authorizationv1.ResourceAttributes{Verb: r.verb, Resource: "trainingjobs", Namespace: ns})
			if err != nil {
				return api.NoRole, err
			}
			if ok {
				role = r.role
			}
		}
		if role == api.User {
			break
		}
	}
	return role, nil
}

// may asks the API server whether a user may do something.
func (u *Users) may(ctx context.Context, who authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	what.Group, what.Version = v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range who.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	q := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &what, User: who.Username, UID: who.UID, Groups: who.Groups, Extra: extra,
	}}
	if err := u.reviewer.client.Create(ctx, q); err != nil {
		return false, unavailable(err)
	}
	return q.Status.Allowed && !q.Status.Denied, nil
}

func unavailable(err error) error {
	return api.Errorf(api.Unavailable, "check the permissions of the token's owner: %w", err)
}

func homeFirst(namespaces []string, home string) []string {
	if !slices.Contains(namespaces, home) {
		return namespaces
	}
	out := []string{home}
	for _, n := range namespaces {
		if n != home {
			out = append(out, n)
		}
	}
	return out
}

// serviceAccountNamespace returns the namespace of a service account.
func serviceAccountNamespace(username string) (string, bool) {
	rest, ok := strings.CutPrefix(username, "system:serviceaccount:")
	if !ok {
		return "", false
	}
	namespace, _, ok := strings.Cut(rest, ":")
	return namespace, ok
}
