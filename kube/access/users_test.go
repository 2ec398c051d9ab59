// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/access"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// ownTokens is a state that has issued one token.
type ownTokens struct{ api.Access }

func (ownTokens) Authenticate(secret string) (api.Identity, error) {
	if secret != "fw_good" {
		return api.Identity{}, api.Errorf(api.Denied, "the token is not valid")
	}
	return api.Identity{User: "eve", Tenant: "speech", Role: api.User}, nil
}

// summary is the part of an identity that the tests compare.
type summary struct {
	User   string
	Tenant sched.TenantID
	Role   api.Role
	Code   api.Code
}

func ask(u *access.Users, secret string) summary {
	who, err := u.Authenticate(secret)
	s := summary{User: who.User, Tenant: who.Tenant, Role: who.Role}
	if err != nil {
		s.Code = api.CodeOf(err)
	}
	return s
}

func TestUsers(t *testing.T) {
	c, admin := open(t)
	for _, n := range []string{"u-vision", "u-vision-2", "u-lone", "u-tools"} {
		namespace(t, c, n)
	}
	create(t, admin, &v1alpha1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: "vision"},
		Spec:       v1alpha1.TenantSpec{Namespaces: []string{"u-vision", "u-vision-2"}},
	}, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "u-admin"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"fairway.dev"}, Resources: []string{"schedulingpolicies"}, Verbs: []string{"get", "update"}}},
	})
	trainer, looker := account(t, admin, "u-vision", "trainer"), account(t, admin, "u-vision", "looker")
	lone, nobody := account(t, admin, "u-lone", "trainer"), account(t, admin, "u-lone", "nobody")
	ci, boss := account(t, admin, "u-tools", "ci"), account(t, admin, "u-tools", "boss")
	allow(t, admin, trainer, "u-vision", "create", "list")
	allow(t, admin, looker, "u-vision", "get", "list")
	allow(t, admin, lone, "u-lone", "create")
	allow(t, admin, ci, "u-vision-2", "create")
	create(t, admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "u-admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "u-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "u-tools", Name: "boss"}},
	})
	good := token(t, admin, trainer, access.UserAudience, nil)
	for _, x := range []struct {
		name, secret string
		want         summary
	}{
		{"may create", good, summary{"system:serviceaccount:u-vision:trainer", "vision", api.User, ""}},
		{"may list", token(t, admin, looker, access.UserAudience, nil), summary{"system:serviceaccount:u-vision:looker", "vision", api.Viewer, ""}},
		{"of a namespace that is no tenant's", token(t, admin, lone, access.UserAudience, nil), summary{"system:serviceaccount:u-lone:trainer", "u-lone", api.User, ""}},
		{"may do nothing", token(t, admin, nobody, access.UserAudience, nil), summary{Code: api.Denied}},
		{"may create elsewhere", token(t, admin, ci, access.UserAudience, nil), summary{"system:serviceaccount:u-tools:ci", "vision", api.User, ""}},
		{"may change the policy", token(t, admin, boss, access.UserAudience, nil), summary{"system:serviceaccount:u-tools:boss", "u-tools", api.Admin, ""}},
		{"for another audience", token(t, admin, trainer, "somebody-else", nil), summary{Code: api.Denied}},
		{"for the API server", token(t, admin, trainer, "https://kubernetes.default.svc", nil), summary{Code: api.Denied}},
		{"for agents", token(t, admin, trainer, access.AgentAudience, nil), summary{Code: api.Denied}},
		{"signature broken", good[:len(good)-8] + "AAAAAAAA", summary{Code: api.Denied}},
		{"no token at all", "x", summary{Code: api.Denied}},
		{"empty", "", summary{Code: api.Denied}},
		{"huge", strings.Repeat("a", 1<<20), summary{Code: api.Denied}},
		{"signed again unchanged", resign(t, c, good, func(map[string]any) {}), summary{"system:serviceaccount:u-vision:trainer", "vision", api.User, ""}},
		{"expired", resign(t, c, good, func(m map[string]any) { m["exp"] = time.Now().Add(-time.Hour).Unix() }), summary{Code: api.Denied}},
		{"the state's own", "fw_good", summary{"eve", "speech", api.User, ""}},
		{"wrong one of the state", "fw_bad", summary{Code: api.Denied}},
	} {
		t.Run(x.name, func(t *testing.T) {
			u := access.NewUsers(access.UsersConfig{Client: admin, State: ownTokens{}, Tenants: access.TenantObjects{Reader: admin}, Now: time.Now})
			if diff := cmp.Diff(x.want, ask(u, x.secret)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRoleTakenBack: an answer of the API server is used for a minute and no longer.
func TestRoleTakenBack(t *testing.T) {
	c, admin := open(t)
	namespace(t, c, "u-back")
	a := account(t, admin, "u-back", "trainer")
	allow(t, admin, a, "u-back", "create")
	now := time.Now()
	u := access.NewUsers(access.UsersConfig{Client: admin, State: ownTokens{}, Tenants: access.TenantObjects{Reader: admin}, Now: func() time.Time { return now }})
	secret := token(t, admin, a, access.UserAudience, nil)
	if got := ask(u, secret); got.Role != api.User {
		t.Fatalf("got %+v; want a user", got)
	}
	before := admin.creates.Load()
	for range 20 {
		ask(u, secret)
	}
	if n := admin.creates.Load() - before; n != 0 {
		t.Errorf("the API server was asked %d times; want none within a minute", n)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "u-back", Name: "allow-u-back-trainer"}}
	if err := admin.Delete(context.Background(), binding); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is denied", func() bool { // RBAC has a cache, too
		now = now.Add(2 * time.Minute)
		return ask(u, secret).Code == api.Denied
	})
}

func TestAPIServerAway(t *testing.T) {
	_, admin := open(t)
	u := access.NewUsers(access.UsersConfig{Client: away{admin}, State: ownTokens{}, Tenants: access.TenantObjects{Reader: admin}, Now: time.Now})
	if got := ask(u, "a.b.c"); got.Code != api.Unavailable {
		t.Errorf("got %+v; want unavailable: whoever is right must not be told that he is wrong", got)
	}
}
