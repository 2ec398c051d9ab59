// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/tune"
)

// Step takes one step of one search: it decides, or else brings the jobs in line with
// earlier decisions.
func Step(ctx context.Context, c Config, s api.OpenSearch) error {
	if s.PausedBy != "" {
		return nil
	}
	h, err := newSearchRun(s)
	if err != nil { // a daemon that could run it accepted it
		return c.Ledger.NoteSearch(ctx, api.SearchRecord{ID: s.ID, State: api.Failed, Why: "it cannot be run: " + err.Error()})
	}
	app := h.app()
	p := h.tuner.Plan(app)
	if r := h.decide(p); r != nil {
		// The next step carries it out, when it is in the journal.
		if err := c.Ledger.NoteSearch(ctx, *r); err != nil {
			return fmt.Errorf("record a step: %w", err)
		}
		return nil
	}
	if stages := h.stages(app); moved(h.Stages, stages) {
		if err := c.Ledger.NoteStages(ctx, h.ID, stages); err != nil {
			return fmt.Errorf("record what is left: %w", err)
		}
	}
	return h.follow(ctx, c, p)
}

// follow brings the jobs of the trials in line. An error with one of them does not
// delay the others.
func (h *searchRun) follow(ctx context.Context, c Config, p tune.Plan) error {
	var faults []error
	for i := range h.Trials {
		if err := h.followTrial(ctx, c, i, p.Share[i] > 0); err != nil {
			faults = append(faults, fmt.Errorf("trial %d: %w", i, err))
			if ctx.Err() != nil {
				break
			}
		}
	}
	return errors.Join(faults...)
}

func (h *searchRun) followTrial(ctx context.Context, c Config, i int, run bool) error {
	t := &h.Trials[i]
	switch {
	case api.HasEnded(t.State):
		return nil
	case t.Job == "":
		return h.submit(ctx, c, t)
	case t.Early:
		return h.command(ctx, c, t, api.Cancel)
	case run && t.Held:
		return h.command(ctx, c, t, api.Resume)
	case !run && !t.Held && t.State != api.Paused: // if a user paused it, it stays paused
		return h.command(ctx, c, t, api.Pause)
	}
	return nil
}

// submit turns a trial into a job. A trial that cannot become one is recorded as
// failed.
func (h *searchRun) submit(ctx context.Context, c Config, t *api.Trial) error {
	who := api.Identity{User: h.User, Tenant: h.Tenant, Role: api.User, Owner: h.Owner}
	_, err := c.Jobs.Submit(ctx, who, []api.Submission{h.Spec.Submission(api.Proposal{Number: t.Number, Params: t.Params})})
	switch api.CodeOf(err) {
	case api.Invalid, api.Denied, api.TooLarge:
		if err != nil {
			return c.Ledger.NoteSearch(ctx, api.SearchRecord{ID: h.ID, Stop: []api.TrialStop{{Trial: t.Number, Why: err.Error(), Failed: true}}})
		}
	}
	return err
}

// command sends a command to a job. If the job has ended meanwhile, the next step
// sees that.
func (h *searchRun) command(ctx context.Context, c Config, t *api.Trial, cmd api.Command) error {
	who := api.Identity{User: api.SearchActor(h.ID), Tenant: h.Tenant, Role: api.User}
	_, err := c.Jobs.Command(ctx, who, t.Job, cmd)
	if code := api.CodeOf(err); err != nil && (code == api.Conflict || code == api.Unknown) {
		return nil
	}
	return err
}
