// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// declared returns the world of a cluster of so many GPUs with these tenants.
func declared(t interface{ Fatal(...any) }, gpus int, tenants ...Tenant) *Snapshot {
	var nodes []Node
	for i := 0; gpus > 0; i++ {
		nodes = append(nodes, Node{Name: fmt.Sprint("n", i), GPUs: min(8, gpus), Type: "t4"})
		gpus -= 8
	}
	c, err := NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	st := NewState(c)
	for _, tenant := range tenants {
		if err := st.Apply(Event{Kind: TenantSet, Tenant: &tenant}); err != nil {
			t.Fatal(err)
		}
	}
	return st.Snapshot(time.Time{})
}

func TestCheckTenants(t *testing.T) {
	cases := []struct {
		name    string
		tenants []Tenant
		want    string // "": nothing is wrong
	}{
		{"flat", []Tenant{{ID: "a", Quota: 4}, {ID: "b"}}, ""},
		{"three levels", []Tenant{{ID: "vit", Parent: "vision", Quota: 2}, {ID: "vision", Parent: "research", Quota: 4}, {ID: "research", Quota: 8}}, ""},
		{"a group without a quota", []Tenant{{ID: "a", Parent: "g", Quota: 6}, {ID: "b", Parent: "g", Quota: 6}, {ID: "g"}}, ""},
		{"itself", []Tenant{{ID: "a", Parent: "a"}}, `tenant a: parent = "a"; want another tenant, or none`},
		{"unknown", []Tenant{{ID: "a", Parent: "b"}}, `tenant a: parent = "b"; want a tenant that exists`},
		{"circle", []Tenant{{ID: "a", Parent: "c"}, {ID: "b", Parent: "a"}, {ID: "c", Parent: "b"}}, `tenant a: parent = "c", which is below it; want a tenant that is not`},
		{"twice", []Tenant{{ID: "a"}, {ID: "a"}}, "tenant a: id is there twice; ids must differ"},
		{"more than the parent", []Tenant{{ID: "a", Parent: "g", Quota: 6}, {ID: "b", Parent: "g", Quota: 6}, {ID: "g", Quota: 10}},
			"tenant g: quota = 10, and the quotas of its children are 12 together; want at least as much as the children have"},
		{"more than the parent, two levels down", []Tenant{{ID: "a", Parent: "b", Quota: 6}, {ID: "b", Parent: "g"}, {ID: "g", Quota: 4}},
			"tenant g: quota = 4, and the quotas of its children are 6 together; want at least as much as the children have"},
		{"more than the parent may hold", []Tenant{{ID: "a", Parent: "g", Quota: 6}, {ID: "g", Max: 4}},
			"tenant g: max_gpus = 4, and the quotas of its children are 6 together; want at least as much as the children have"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if err := CheckTenants(c.tenants); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	deep := []Tenant{{ID: "t0"}}
	for i := 1; i <= MaxDepth; i++ {
		deep = append(deep, Tenant{ID: TenantID(fmt.Sprint("t", i)), Parent: deep[i-1].ID})
	}
	if err := CheckTenants(deep[:MaxDepth]); err != nil {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
	if err := CheckTenants(deep); err == nil || !strings.Contains(err.Error(), "levels") {
		t.Errorf("%d levels: %v; want that there are too many", MaxDepth+1, err)
	}
}

// TestEntitle is the example of the documentation.
func TestEntitle(t *testing.T) {
	s := declared(t, 24,
		Tenant{ID: "ads", Quota: 8, Borrow: true},
		Tenant{ID: "nlp", Parent: "research", Quota: 4, Borrow: true},
		Tenant{ID: "research", Quota: 12, Borrow: true},
		Tenant{ID: "vision", Parent: "research", Quota: 4, Borrow: true},
	)
	for _, c := range []struct {
		name                       string
		ads, nlp, research, vision int // wanted
		want                       [4]int
	}{
		{"all want all", 24, 24, 24, 24, [4]int{10, 4, 6, 4}},
		{"idle GPUs go to siblings first", 24, 0, 0, 24, [4]int{10, 0, 0, 14}},
		{"then to the others", 24, 2, 0, 2, [4]int{20, 2, 0, 2}},
		{"a quota comes first", 24, 1, 0, 24, [4]int{10, 1, 0, 13}},
		{"the parent's jobs have what no child has", 24, 4, 24, 4, [4]int{10, 4, 6, 4}},
	} {
		if got := s.Entitle(24, []int{c.ads, c.nlp, c.research, c.vision}, nil).Own; !slices.Equal(got, c.want[:]) {
			t.Errorf("%s: ads, nlp, research and vision get %v; want %v", c.name, got, c.want)
		}
	}
}

// TestShares holds weights against what a person would divide.
func TestShares(t *testing.T) {
	s := declared(t, 8,
		Tenant{ID: "a", Parent: "org", Weight: 3}, Tenant{ID: "b", Parent: "org"},
		Tenant{ID: "idle", Parent: "org", Weight: 9}, Tenant{ID: "org", Weight: 2}, Tenant{ID: "other", Weight: 2},
	)
	for i, id := range []TenantID{"a", "b", "other"} {
		j := &Job{Spec: Spec{ID: JobID(fmt.Sprint(i)), Tenant: id, GPUs: 1}}
		j.tenant = 1 + slices.IndexFunc(s.Tenants, func(t Tenant) bool { return t.ID == id })
		s.Jobs = append(s.Jobs, j)
	}
	if got := s.Shares(); got[0] != 1.5 || got[1] != 0.5 || got[4] != 2 {
		t.Errorf("a, b and other have %g, %g and %g; want 1.5, 0.5 and 2", got[0], got[1], got[4])
	}
}

// drawTenants draws tenants that stand together, in order of their ids.
func drawTenants(t *rapid.T, nested bool) []Tenant {
	tenants := make([]Tenant, rapid.IntRange(1, 9).Draw(t, "tenants"))
	for i := range tenants {
		x := &tenants[i]
		x.ID = TenantID(fmt.Sprint("t", i))
		x.Weight = rapid.SampledFrom([]float64{0, 1, 2.5, 0.1}).Draw(t, "weight")
		x.Quota = rapid.SampledFrom([]int{0, 0, 1, 3, 6, 20}).Draw(t, "quota")
		x.Borrow = rapid.Bool().Draw(t, "borrow")
		x.Max = rapid.SampledFrom([]int{0, 0, 0, 20, 30}).Draw(t, "max")
		if nested && i > 0 && rapid.Bool().Draw(t, "nested") {
			x.Parent = TenantID(fmt.Sprint("t", rapid.IntRange(0, i-1).Draw(t, "parent")))
		}
	}
	return tenants
}

func drawAmounts(t *rapid.T, n int, name string) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = rapid.SampledFrom([]int{0, 1, 2, 5, 9, 40}).Draw(t, name)
	}
	return out
}

// TestEntitleFlat holds Entitle against how tenants without parents were always divided.
func TestEntitleFlat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := declared(t, 8, drawTenants(t, false)...)
		want, gpus := drawAmounts(t, len(s.Tenants), "want"), rapid.IntRange(0, 60).Draw(t, "gpus")
		got := s.Entitle(gpus, want, nil)
		limits := plainly(s.Tenants, gpus, slices.Clone(want))
		if got.Full != (limits == nil) || limits != nil && !slices.Equal(got.Own, limits) {
			t.Fatalf("got %v, want %v", got, limits)
		}
	})
}

func plainly(tenants []Tenant, rest int, wanted []int) []int {
	limits := make([]int, len(wanted))
	for t, tenant := range tenants {
		wanted[t] = min(wanted[t], tenant.Limit())
		limits[t] = min(wanted[t], tenant.Quota)
		rest -= limits[t]
	}
	for rest > 0 {
		share, hungry := 0.0, []int{}
		for t, tenant := range tenants {
			if limits[t] < wanted[t] {
				share += tenant.Share()
				hungry = append(hungry, t)
			}
		}
		if len(hungry) == 0 {
			return nil
		}
		given := 0
		for _, t := range hungry {
			more := min(wanted[t]-limits[t], int(float64(rest)*tenants[t].Share()/share))
			limits[t] += more
			given += more
		}
		if given == 0 {
			limits[hungry[len(hungry)-1]]++
			given = 1
		}
		rest -= given
	}
	return limits
}

// TestEntitleProperties lets random trees divide random clusters.
func TestEntitleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenants := drawTenants(t, true)
		s := declared(t, 8, tenants...)
		n := len(tenants)
		want, gpus := drawAmounts(t, n, "want"), rapid.IntRange(0, 60).Draw(t, "gpus")
		e := s.Entitle(gpus, want, nil)
		valid := CheckTenants(tenants) == nil
		below, quotas, demand := make([]int, n), make([]int, n), make([]int, n) // of children and own jobs
		for i := n - 1; i >= 0; i-- {                                           // parents come first
			below[i] += e.Own[i]
			demand[i] = min(demand[i]+want[i], tenants[i].Limit())
			if below[i] > e.All[i] {
				t.Errorf("%s and those below it get %d of %d", tenants[i].ID, below[i], e.All[i])
			}
			if e.All[i] > s.Limit(i) || e.Own[i] > want[i] {
				t.Errorf("%s gets %d (%d for its own jobs, which want %d); its limit is %d", tenants[i].ID, e.All[i], e.Own[i], want[i], s.Limit(i))
			}
			// Nothing that a family has is idle while one of it wants more.
			if below[i] != e.All[i] {
				t.Errorf("%s has %d, and uses %d", tenants[i].ID, e.All[i], below[i])
			}
			p := s.Parent(i)
			if p >= 0 {
				below[p] += e.All[i]
				demand[p] += demand[i]
			}
			if least := min(demand[i], s.Owned(i)); valid && e.All[i] < least {
				t.Errorf("%s gets %d; it wants %d, and its quota is %d", tenants[i].ID, e.All[i], demand[i], s.Owned(i))
			}
			if least := min(want[i], s.Quota(i)); valid && e.Own[i] < least {
				t.Errorf("jobs of %s get %d; they want %d, and the quota is %d", tenants[i].ID, e.Own[i], want[i], s.Quota(i))
			}
			quotas[i] = s.Owned(i)
		}
		given, owned, wanted := 0, 0, 0
		for i := range tenants {
			if s.Parent(i) < 0 {
				given += e.All[i]
				owned += min(demand[i], quotas[i])
				wanted += demand[i]
			}
		}
		if most := max(owned, min(gpus, wanted)); given != most {
			t.Errorf("%d of %d GPUs are given; %d are wanted, %d by those that own them", given, gpus, wanted, owned)
		}
	})
}

// TestCaps: whoever keeps to the caps, or holds what is firm, keeps all limits.
func TestCaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenants := drawTenants(t, true)
		s := declared(t, 8, tenants...)
		n := len(tenants)
		firm, want := drawAmounts(t, n, "firm"), drawAmounts(t, n, "want")
		for i := range want {
			want[i] += firm[i]
		}
		caps := s.Caps(want, firm, nil)
		hold, fixed := make([]int, n), make([]int, n)
		for i := n - 1; i >= 0; i-- {
			hold[i] += max(firm[i], min(want[i], caps[i]))
			fixed[i] += firm[i]
			if most := max(fixed[i], tenants[i].Limit()); hold[i] > most {
				t.Errorf("%s and those below it may hold %d; want %d at most", tenants[i].ID, hold[i], most)
			}
			if p := s.Parent(i); p >= 0 {
				hold[p] += hold[i]
				fixed[p] += fixed[i]
			}
		}
	})
}

// TestCapsLeaveRoomForTheFirst: a family of two has a limit of 4, which would be divided
// equally, and each has a job of 4.
func TestCapsLeaveRoomForTheFirst(t *testing.T) {
	s := declared(t, 8, Tenant{ID: "a", Max: 4}, Tenant{ID: "b", Parent: "a"}, Tenant{ID: "c", Parent: "a"})
	job := func(tenant TenantID) *Job {
		st := s.State()
		if err := st.Apply(Event{Kind: JobSubmitted, At: s.Now, Spec: &Spec{ID: JobID("of-" + tenant), Tenant: tenant, GPUs: 4, Submitted: s.Now}}); err != nil {
			t.Fatal(err)
		}
		j, _ := st.Job(JobID("of-" + tenant))
		return j
	}
	want, none := []int{0, 4, 4}, []int{0, 0, 0}
	if got := s.Caps(want, none, nil); !slices.Equal(got, []int{0, 2, 2}) {
		t.Errorf("without jobs the caps are %d; want equal parts", got)
	}
	if got := s.Caps(want, none, []*Job{job("c"), job("b")}); !slices.Equal(got, []int{0, 0, 4}) {
		t.Errorf("the caps are %d; want all for the first job", got)
	}
	if got := s.Caps(want, []int{0, 2, 0}, []*Job{job("c"), job("b")}); got[2] >= 4 || got[1] < 2 {
		t.Errorf("the caps are %d; want what is firm to stay", got)
	}
}
