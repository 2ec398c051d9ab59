// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package share_test

import (
	"testing"

	"github.com/fairway-gpu/fairway/policy/policytest"
)

func TestScenarios(t *testing.T) { policytest.Run(t, "testdata", table.New) }
