// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// TestTenantTree: what tenants below one hold counts for it too, users read why they wait,
// and what was used can be summed up by it.
func TestTenantTree(t *testing.T) {
	d := open(t)
	set := func(tenants ...sched.Tenant) error { return d.SetTenants(t.Context(), admin, tenants) }
	// A child may come before its parent where both come at once.
	if err := set(sched.Tenant{ID: "blue", Parent: "org", Quota: 1, Borrow: true}, sched.Tenant{ID: "red", Parent: "org"}, sched.Tenant{ID: "org", Quota: 2}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tenants []sched.Tenant
		want    string
	}{
		{[]sched.Tenant{{ID: "blue", Parent: "none"}}, `tenant blue: parent = "none"; want a tenant that exists`},
		{[]sched.Tenant{{ID: "org", Parent: "blue"}}, `tenant blue: parent = "org", which is below it; want a tenant that is not`},
		{[]sched.Tenant{{ID: "blue", Parent: "org", Quota: 3}},
			"tenant org: quota = 2, and the quotas of its children are 3 together; want at least as much as the children have"},
		{[]sched.Tenant{{ID: "org", Quota: 1}, {ID: "red", Parent: "org", Quota: 1}},
			"tenant org: quota = 1, and the quotas of its children are 2 together; want at least as much as the children have"},
	} {
		err := set(c.tenants...)
		wantCode(t, c.want, err, api.Invalid)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v; want %s", err, c.want)
		}
	}
	x, y := d.submit(ann, submission("x", 1)), d.submit(ann, submission("y", 1))
	z := d.submit(bob, submission("z", 1))
	d.run(wants{x: on(0), y: on(1)})
	d.mem.jobs[z].reason = sched.Reason{Code: sched.OverQuota, Need: 1}
	if text := d.explain(bob, z).Job.Reason.Text; !strings.HasSuffix(text, "its tenant may take 0 more; org, with all tenants below it, holds 2 of the 2 GPUs it may") {
		t.Errorf("z waits because it %s", text)
	}
	if ahead := d.explain(bob, z).Before; len(ahead) != 2 {
		t.Errorf("%d jobs stand in the way of z; want the two of the other tenant below org", len(ahead))
	}
	views, err := d.Tenants(admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		want := map[sched.TenantID]api.TenantView{
			"blue": {GPUs: 2, Share: 2, Borrowed: 1, Path: "org/blue", Standing: "org/blue may have 1 of org's 2, and 2 at most"},
			"red":  {Share: 2, Path: "org/red", Standing: "org/red shares what is left of org's 2, and 2 at most"},
			"org":  {Below: 2},
		}[v.ID]
		if v.GPUs != want.GPUs || v.Share != want.Share || v.Path != want.Path || v.Standing != want.Standing || v.Below != want.Below || v.Borrowed != want.Borrowed {
			t.Errorf("%s: %+v; want %+v", v.ID, v, want)
		}
	}
	d.clock.add(time.Hour)
	u, err := d.Usage(admin, api.UsageQuery{By: "tenant", RollUp: true})
	if err != nil {
		t.Fatal(err)
	}
	used := map[sched.TenantID]float64{}
	for _, r := range u.Rows {
		used[r.Tenant] = r.GPUs
	}
	if used["org"] != 7200 || used["blue"] != 7200 || u.Total.GPUs != 7200 {
		t.Errorf("used %v, %g in all; want 7200 by blue, by org and in all", used, u.Total.GPUs)
	}
	if own, err := d.Usage(ann, api.UsageQuery{By: "tenant", RollUp: true}); err != nil || len(own.Rows) != 1 || own.Rows[0].Tenant != "blue" {
		t.Errorf("ann sees %+v, %v; want her own tenant alone", own.Rows, err)
	}
	_, err = d.Usage(admin, api.UsageQuery{By: "day", RollUp: true})
	wantCode(t, "roll up days", err, api.Invalid)
	big := plain("big", 3)
	big.Preemptible = new(true)
	if _, err := d.Submit(t.Context(), bob, []api.Submission{big}); err == nil || !strings.Contains(err.Error(), "tenant red may hold 2") {
		t.Errorf("submit 3 GPUs: %v; want that red may hold 2", err)
	}
	d.wantDurable()
}

// TestTenantByType: a tenant is bounded by type of GPU, and its users read so.
func TestTenantByType(t *testing.T) {
	d := open(t)
	if _, err := d.SetTenant(t.Context(), admin, sched.Tenant{ID: "blue", MaxByType: map[sched.GPUType]int{"h200": 1}}); err != nil {
		t.Fatal(err)
	}
	s := plain("big", 2)
	s.Preemptible = new(true)
	if _, err := d.Submit(t.Context(), ann, []api.Submission{s}); err == nil || !strings.Contains(err.Error(), "it needs 2 GPUs, and tenant blue may hold 1") {
		t.Errorf("submit 2 GPUs: %v; want that blue may hold 1", err)
	}
	x, y := d.submit(ann, submission("x", 1)), d.submit(ann, submission("y", 1))
	d.run(wants{x: on(0)})
	d.mem.jobs[y].reason = sched.Reason{Code: sched.OverQuota, Need: 1}
	if text := d.explain(ann, y).Job.Reason.Text; !strings.HasSuffix(text, "; blue holds 1 of the 1 GPUs of type h200 it may") {
		t.Errorf("y waits because it %s", text)
	}
	d.wantDurable()
}

// TestTenantBeside: a tenant is bounded in CPUs and memory, with all below it, and its users
// read which bound holds a job back.
func TestTenantBeside(t *testing.T) {
	d := open(t)
	for _, tenant := range []sched.Tenant{{ID: "org", MaxCPUs: 8, MaxMemory: 100 << 30}, {ID: "blue", Parent: "org", Borrow: true}} {
		if _, err := d.SetTenant(t.Context(), admin, tenant); err != nil {
			t.Fatal(err)
		}
	}
	with := func(name string, gpus, cpus int, memory int64) api.Submission {
		s := submission(name, gpus)
		s.CPUs, s.Memory = cpus, memory<<30
		return s
	}
	const never = "it needs 2 GPUs, and tenant blue may hold 1; org holds 0 of the 8 CPUs it may, and this job needs 10"
	if _, err := d.Submit(t.Context(), ann, []api.Submission{with("big", 2, 5, 0)}); err == nil || !strings.Contains(err.Error(), never) {
		t.Errorf("submit 10 CPUs: %v; want %q", err, never)
	}
	x, y, z := d.submit(ann, with("x", 1, 6, 60)), d.submit(ann, with("y", 1, 3, 50)), d.submit(ann, with("z", 1, 2, 40))
	d.run(wants{x: on(0)})
	s, err := d.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan := sched.Ask(wants{x: on(0), z: on(1)}, s)
	for _, c := range []struct {
		id   sched.JobID
		want string
	}{
		{y, "; org holds 6 of the 8 CPUs it may, and this job needs 3; org holds 60 of the 100 GiB of memory it may, and this job needs 50"},
		{z, ""},
	} {
		i := slices.IndexFunc(s.Jobs, func(j *sched.Job) bool { return j.ID == c.id })
		d.mem.jobs[c.id].reason = plan.Why[i]
		if c.want == "" {
			if len(plan.Want[i]) == 0 {
				t.Errorf("%s waits because %v; want that it starts", c.id, plan.Why[i])
			}
			continue
		}
		if text := d.explain(ann, c.id).Job.Reason.Text; !strings.HasSuffix(text, c.want) {
			t.Errorf("%s waits because it %s; want %q", c.id, text, c.want)
		}
	}
	d.wantDurable()
}
