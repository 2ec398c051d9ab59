// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

// finish runs a job to its end.
func (d *daemon) finish(name, script string) api.Job {
	d.t.Helper()
	s := api.Submission{}
	s.Name, s.GPUs = name, 1
	return d.until(d.run(s, shell(script)...), api.Finished)
}

func (d *daemon) logOf(j api.Job) string {
	d.t.Helper()
	var log strings.Builder
	if err := d.Logs(context.Background(), j.ID, api.LogQuery{}, &log); err != nil {
		d.t.Fatal(err)
	}
	return log.String()
}

// TestJournalMovedAway: with a new journal, also one that does not even know that
// there was another, a job that gets an old name runs, and shows its own output.
func TestJournalMovedAway(t *testing.T) {
	t.Parallel()
	for _, lose := range [][]string{{"journal"}, {"journal", "journal.mark"}} {
		d := startDaemon(t, shortDir(t), "--slots", "1")
		old := d.finish("train", "echo secret of blue")
		if err := d.stop(); err != nil {
			t.Fatal(err)
		}
		for _, name := range lose {
			if err := os.Rename(filepath.Join(d.data, name), filepath.Join(d.data, name+".old")); err != nil {
				t.Fatal(err)
			}
		}
		d.start()
		if o, err := d.Overview(t.Context()); err != nil || !strings.Contains(o.Problem, "set aside") {
			t.Errorf("problem %q, %v; want what was set aside", o.Problem, err)
		}
		if err := d.Ready(t.Context()); err == nil {
			t.Error("the daemon says that it is ready")
		}
		now := d.finish("train", "echo red")
		if log := d.logOf(now); log != "red\n" {
			t.Errorf("%s after %s printed %q; want its own output", now.ID, old.ID, log)
		}
		if len(lose) == 1 && now.ID == old.ID {
			t.Errorf("the name %s was given again", now.ID)
		}
	}
}
