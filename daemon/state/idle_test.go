// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// TestIdle: a job whose GPUs do nothing for long is not stopped, but its owner is
// told, once.
func TestIdle(t *testing.T) {
	util := 0.5
	d := open(t, func(c *Config) {
		c.Use = func() []*api.GPUUse { return []*api.GPUUse{{Util: util}, {Util: util}, nil, nil} }
	})
	id := d.submit(ann, submission("x", 2))
	d.decide(wants{id: on(0, 1)})
	d.Started(api.AttemptID{Job: id, Number: 1})
	pass := func(minutes int) string {
		t.Helper()
		for range minutes {
			d.clock.add(time.Minute)
			d.takeSample()
			if err := d.CheckIdle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return d.job(id).Warning
	}
	if w := pass(60); w != "" {
		t.Errorf("while its GPUs work: %q", w)
	}
	util = 0
	if w := pass(29); w != "" {
		t.Errorf("after 29 idle minutes: %q; want nothing yet", w)
	}
	up := d.up // while it is suspended, it is no fault of the job's that its GPUs are idle
	d.up = nil
	pass(30)
	d.up = up
	if w := pass(29); w != "" {
		t.Errorf("29 minutes after it went on: %q; want nothing yet", w)
	}
	if w := pass(2); !strings.HasPrefix(w, "its GPUs have done nothing for 30m") {
		t.Errorf("after 31 idle minutes: %q", w)
	}
	pass(60)
	if n := len(d.records("job-warned")); n != 1 || d.job(id).State != api.Running {
		t.Errorf("%d warnings, the job is %s; want one and running", n, d.job(id).State)
	}
}
