// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

// TestImageRefused: where nothing runs containers, a job with an image is refused with the
// reason and what would help; other jobs are not.
func TestImageRefused(t *testing.T) {
	d := open(t, func(c *Config) { c.NoContainers = "podman is not installed" })
	s := plain("a", 1)
	s.Image = "torch:2"
	_, err := d.Submit(t.Context(), admin, []api.Submission{s})
	if err == nil || api.CodeOf(err) != api.Invalid || !strings.Contains(err.Error(), `image: "torch:2" cannot be run here: podman is not installed`) {
		t.Errorf("%v; want that the image cannot be run, and why", err)
	}
	d.submit(admin, plain("b", 1))
	nodes, err := d.Nodes(admin)
	if err != nil || len(nodes) != 1 || nodes[0].NoContainers != "podman is not installed" {
		t.Errorf("%+v, %v; want a node without containers", nodes, err)
	}

	d = open(t, func(c *Config) { c.Containers = "podman 5.4.2" })
	d.submit(admin, s)
	for _, bad := range []string{"--privileged", "a b", "a\nb", strings.Repeat("x", 1001)} {
		s.Image = bad
		if _, err := d.Submit(t.Context(), admin, []api.Submission{s}); api.CodeOf(err) != api.Invalid {
			t.Errorf("image %.20q: %v; want that it is not valid", bad, err)
		}
	}
}
