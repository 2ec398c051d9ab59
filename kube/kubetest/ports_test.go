// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import "testing"

// TestFreePorts: clusters that start in parallel choose different ports, although
// nothing listens on them yet.
func TestFreePorts(t *testing.T) {
	const clusters, each = 2, 300 // of 12,000: without claims some would be chosen twice
	chosen := map[int]bool{}
	for range clusters {
		ports, err := freePorts("127.0.0.1", each)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ports {
			if chosen[p] {
				t.Errorf("port %d was chosen twice", p)
			}
			chosen[p] = true
		}
	}
}
