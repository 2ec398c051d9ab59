// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// TestUnbounded: who has no quota is not told that it is used up.
func TestUnbounded(t *testing.T) {
	c, err := sched.NewCluster([]sched.Node{{Name: "n", GPUs: 8}})
	if err != nil {
		t.Fatal(err)
	}
	over := sched.Reason{Code: sched.OverQuota, Need: 6, Have: 3}
	for name, test := range map[string]struct {
		tenants []sched.Tenant
		want    sched.Code
	}{
		"no quota":            {[]sched.Tenant{{ID: "blue"}, {ID: "red"}}, sched.Behind},
		"a bound":             {[]sched.Tenant{{ID: "blue", Max: 4}, {ID: "red"}}, sched.OverQuota},
		"a quota":             {[]sched.Tenant{{ID: "blue", Quota: 4}, {ID: "red"}}, sched.OverQuota},
		"others have a quota": {[]sched.Tenant{{ID: "blue"}, {ID: "red", Quota: 4, Borrow: true}}, sched.OverQuota},
		"nobody knows of it":  {[]sched.Tenant{{ID: "red"}}, sched.OverQuota},
	} {
		st := sched.NewState(c)
		events := []sched.Event{}
		for _, tenant := range test.tenants {
			events = append(events, sched.Event{Kind: sched.TenantSet, At: time.Unix(1, 0), Tenant: &tenant})
		}
		events = append(events, sched.Event{Kind: sched.JobSubmitted, At: time.Unix(1, 0), Job: "j", Spec: &sched.Spec{ID: "j", Tenant: "blue", GPUs: 6}})
		for _, e := range events {
			if err := st.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		s := st.Snapshot(time.Unix(2, 0))
		if got := unbounded(s, s.Jobs[0], over); got.Code != test.want || got.Need != 6 || got.Have != 3 {
			t.Errorf("%s: %+v; want code %v", name, got, test.want)
		}
	}
}
