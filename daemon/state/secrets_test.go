// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// safe keeps secrets in memory, and remembers in which order things happened.
type safe struct {
	tape *tape
	sets []map[string]string
	open []string // not decided
	fail error
	late bool // kept after a record named it
}

func (s *safe) Keep(values map[string]string) (string, error) {
	if s.fail != nil {
		return "", s.fail
	}
	s.sets = append(s.sets, values)
	ref := fmt.Sprintf("ref-%d", len(s.sets))
	s.open = append(s.open, ref)
	s.late = s.late || bytes.Contains(bytes.Join(s.tape.copyTape().records, nil), []byte(ref))
	return ref, nil
}

func (s *safe) Decided(ref string) {
	s.open = slices.DeleteFunc(s.open, func(o string) bool { return o == ref })
}

// TestSecretsStayOutOfTheJournal: no record, answer or snapshot holds the value of a
// secret, its attempts name where it is, and what has ended needs it no longer.
func TestSecretsStayOutOfTheJournal(t *testing.T) {
	s := &safe{}
	d := open(t, func(c *Config) { s.tape = c.Journal.(*tape); c.Secrets = s })
	job := submission("net", 1)
	job.Env = map[string]string{"HF_TOKEN": "xyzzy", "SEED": "1"}
	job.SecretValues = map[string]string{"LICENCE": "xyzzy2"}
	id := d.submit(ann, job)
	pair, err := d.Submit(t.Context(), ann, []api.Submission{job, job})
	if err != nil {
		t.Fatal(err)
	}
	spec := sweep("sweep")
	spec.Trial.Env = map[string]string{"WANDB_API_KEY": "xyzzy3"}
	search := d.create(spec)
	d.noteSearch(api.SearchRecord{ID: search.ID, Propose: []api.Proposal{{Number: 0, Params: map[string]string{"x": "1"}}}})
	trial := d.submit(ann, search.Spec.Submission(api.Proposal{Number: 0, Params: map[string]string{"x": "1"}}))
	if len(s.sets) != 3 || len(s.open) != 0 || s.late {
		t.Errorf("%d sets, not decided: %v, late: %v; want one for each request, kept before the record, and all decided", len(s.sets), s.open, s.late)
	}
	d.decide(wants{id: on(0), trial: on(1)})
	got := map[sched.JobID]string{}
	for _, a := range d.Attempts() {
		got[a.Job] = a.Task.SecretsRef + " " + strings.Join(a.Task.Secrets, ",") + " " + a.Task.Env["SEED"]
	}
	if got[id] != "ref-1 HF_TOKEN,LICENCE 1" || got[trial] != "ref-3 WANDB_API_KEY " {
		t.Errorf("attempts: %v", got)
	}
	view, err := d.Job(ann, id)
	if err != nil || view.SecretsRef != "" || !slices.Equal(view.Secrets, []string{"HF_TOKEN", "LICENCE"}) {
		t.Errorf("%v, %q, %v; want the names alone", view.Secrets, view.SecretsRef, err)
	}
	answer, _ := json.Marshal([]any{view, d.search(), pair})
	again := reopen(t, d.tape.copyTape(), d.clock)
	snapshot, err := json.Marshal(again.mem.save())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"journal": bytes.Join(d.tape.copyTape().records, nil), "answers": answer, "snapshot": snapshot} {
		if bytes.Contains(text, []byte("xyzzy")) {
			t.Errorf("the %s holds a secret", name)
		}
	}
	inUse := func(b *desk, want ...string) {
		t.Helper()
		used, err := b.SecretsInUse()
		delete(used, "")
		if err != nil || len(used) != len(want) || slices.ContainsFunc(want, func(ref string) bool { return !used[ref] }) {
			t.Errorf("in use: %v, %v; want %v", used, err, want)
		}
	}
	inUse(again, "ref-1", "ref-2", "ref-3")
	d.command(id, api.Cancel)
	d.command(pair[0].ID, api.Cancel)
	d.command(trial, api.Cancel)
	inUse(d, "ref-2", "ref-3")
	d.command(pair[1].ID, api.Cancel)
	if _, err := d.CommandApp(t.Context(), ann, "sweep", api.Cancel); err != nil {
		t.Fatal(err)
	}
	inUse(d)
}

// TestSecretsRefused: without a place to keep them, secrets are refused by name, and a
// failure to keep them refuses the job.
func TestSecretsRefused(t *testing.T) {
	d := open(t)
	job := submission("net", 1)
	job.SecretValues = map[string]string{"A": "b"}
	if _, err := d.Submit(t.Context(), ann, []api.Submission{job}); err == nil || !strings.Contains(err.Error(), "secrets: are not kept here") {
		t.Errorf("%v; want a refusal", err)
	}
	job.SecretValues, job.Env = nil, map[string]string{"HF_TOKEN": "x"}
	if id := d.submit(ann, job); d.mem.jobs[id].Task.Env["HF_TOKEN"] != "x" {
		t.Error("a variable was lost")
	}
	s := &safe{fail: errDisk}
	d = open(t, func(c *Config) { c.Secrets = s })
	before := d.tape.last()
	if _, err := d.Submit(t.Context(), ann, []api.Submission{job}); !errors.Is(err, errDisk) || d.tape.last() != before {
		t.Errorf("%v; want the disk's error and no record", err)
	}
}
