// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"testing"
	"time"
)

func TestRunTimes(t *testing.T) {
	var r RunTimes
	ann := JobKey{Tenant: "lab", User: "ann", Model: "vgg16", GPUs: 4}
	if got := r.Estimate(ann); got != 0 {
		t.Errorf("nothing has ended, and the estimate is %s", got)
	}
	r.Learn(ann, 1*time.Hour)
	r.Learn(ann, 2*time.Hour)
	r.Learn(ann, 4*time.Hour)
	r.Learn(JobKey{Tenant: "lab", User: "bob", Model: "bert", GPUs: 1, App: "sweep"}, 10*time.Minute)
	r.Learn(JobKey{}, 5*time.Hour)
	r.Learn(ann, 0)
	for _, w := range []struct {
		name string
		job  JobKey
		want time.Duration
	}{
		{"the same again: the mean of the last two", ann, 3 * time.Hour},
		{"another size", JobKey{Tenant: "lab", User: "ann", Model: "vgg16", GPUs: 8}, 3 * time.Hour},
		{"another model", JobKey{Tenant: "lab", User: "ann", Model: "gnmt", GPUs: 4}, 3 * time.Hour},
		{"another user of the tenant", JobKey{Tenant: "lab", User: "eve", Model: "vgg16", GPUs: 4}, 3 * time.Hour},
		{"another tenant", JobKey{Tenant: "shop", User: "eve", Model: "vgg16", GPUs: 1}, 3 * time.Hour},
		{"the same name in another tenant", JobKey{Tenant: "shop", User: "ann", GPUs: 4}, 0},
		{"the app first", JobKey{Tenant: "lab", User: "ann", Model: "vgg16", GPUs: 1, App: "sweep"}, 10 * time.Minute},
		{"one past job", JobKey{Tenant: "lab", User: "bob"}, 10 * time.Minute},
		{"a model that nobody has trained", JobKey{Tenant: "lab", User: "eve", Model: "gnmt", GPUs: 1}, 0},
		{"a job that says nothing", JobKey{}, 0},
	} {
		if got := r.Estimate(w.job); got != w.want {
			t.Errorf("%s: %s; want %s", w.name, got, w.want)
		}
	}
}
