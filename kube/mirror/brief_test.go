// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"testing"
	"unicode/utf8"

	"github.com/fairway-gpu/fairway/api"
)

// TestBrief: the reason of a job in a column of "kubectl get".
func TestBrief(t *testing.T) {
	waits := func(code, text string) api.Job {
		return api.Job{State: api.Waiting, Reason: &api.Reason{Code: code, Text: text}}
	}
	tried := waits("back-off", "in back-off until its next attempt at 12:00:05; the last attempt ended: rank 3 exited with code 1")
	tried.Exit = &api.Exit{Rank: 3, Code: 1}
	for _, c := range []struct {
		job  api.Job
		want string
	}{
		{waits("full", "needs 8 GPUs; 3 are free in the cluster"), "needs 8 GPUs; 3 are free in the cluster"},
		{waits("full", "needs 8 GPUs; 3 are free in the cluster until about 12:30"), "needs 8 GPUs; 3 are free in the cluster"},
		{waits("full", "needs 8 GPUs; 3 are free on the nodes matching nodeSelector {disk=fast}"), "needs 8 GPUs; 3 are free on the nodes…"},
		{waits("impossible", "needs 64 GPUs; no node matching nodeSelector {a=b} could hold it"), "impossible: needs 64 GPUs…"},
		{waits("over-quota", "needs 16 GPUs; its tenant may take 4 more"), "needs 16 GPUs; its tenant may take 4…"},
		{tried, "back-off: rank 3 exited with code 1"},
		{api.Job{State: api.Running}, ""},
		{api.Job{State: api.Starting}, "its pods are starting"},
		{waits("odd", "Donaudampfschifffahrtsgesellschaftskapitänsmützen"), "Donaudampfschifffahrtsgesellschaftskapi…"},
	} {
		got := briefOf(&c.job)
		if got != c.want || utf8.RuneCountInString(got) > 40 {
			t.Errorf("%q: %q; want %q", whyOf(&c.job), got, c.want)
		}
	}
}
