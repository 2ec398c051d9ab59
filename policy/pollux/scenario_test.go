// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pollux_test

import (
	"testing"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
)

// TestScenarios plays jobs without agents; see TestDecisions for those with.
func TestScenarios(t *testing.T) { policytest.Run(t, "testdata/scenarios", policy.Builtin().New) }
