// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro_test

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/lab/repro"
)

// dataFolder is the folder of the Pollux artifact, if present.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("FAIRWAY_TEST_DATA")
	if dir == "" {
		dir = "../../../shared/data"
	}
	dir += "/pollux"
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the Pollux artifact is not at %s; set FAIRWAY_TEST_DATA", dir)
	}
	return dir
}

func TestTiresiasIsWithinFivePercentOfTheReference(t *testing.T) {
	dir := dataFolder(t)
	a, err := repro.OpenArtifact(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := a.Compare(repro.ReferenceTiresias, func() time.Duration { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		t.Logf("%s/%s: reference %.1f s, ours %.1f s (%+.2f %%), %d of %d jobs within 1 %%", r.Folder, r.Workload, r.Reference, r.Ours, 100*r.Error(), r.Same, r.Jobs)
		if math.Abs(r.Error()) > 0.05 {
			t.Errorf("%s/%s is off by %.1f %%", r.Folder, r.Workload, 100*r.Error())
		}
	}
}

// The targets for the policies that resize jobs: optimus within 5 % of the
// reference on each workload, pollux no worse than 1.03 times it. The light
// workloads stand for all; "fairway repro pollux" runs them all.
func TestElasticPoliciesAgainstTheReference(t *testing.T) {
	a, err := repro.OpenArtifact(os.DirFS(dataFolder(t)))
	if err != nil {
		t.Fatal(err)
	}
	for spec, within := range map[string][2]float64{"optimus": {-0.05, 0.05}, "pollux": {-1, 0.03}} {
		rows, err := a.Compare(spec, func() time.Duration { return 0 }, "workloads-0.5")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			t.Logf("%s on %s: reference %.1f s, ours %.1f s (%+.1f %%)", spec, r.Workload, r.Reference, r.Ours, 100*r.Error())
			if e := r.Error(); e < within[0] || e > within[1] {
				t.Errorf("%s on %s is off by %.1f %%", spec, r.Workload, 100*e)
			}
		}
	}
}
