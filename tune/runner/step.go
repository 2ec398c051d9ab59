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

// Step takes one step of one search: it decides, or else makes the jobs follow
// what was decided before.
func Step(ctx context.Context, c Config, s api.OpenSearch) error {
	if s.PausedBy != "" {
		return nil
	}
	h, err := newSearchRun(s)
	if err != nil { // it was taken by a daemon that could run it
		return c.Ledger.NoteSearch(ctx, api.SearchRecord{ID: s.ID, State: api.Failed, Why: "it cannot be run: " + err.Error()})
	}
	p := h.tuner.Plan(h.app())
	if r := h.decide(p); r != nil {
		// What it asks for is done with the next look, which sees it as a fact.
		if err := c.Ledger.NoteSearch(ctx, *r); err != nil {
			return fmt.Errorf("note a step: %w", err)
		}
		return nil
	}
	return h.follow(ctx, c, p)
}

// follow makes the jobs of the trials what they should be. An error with one of
// them does not keep the others waiting.
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

// submit makes a trial a job. One that can never be is noted as failed.
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

// command tells a job what to do. If it has ended meanwhile, the next look says
// so.
func (h *searchRun) command(ctx context.Context, c Config, t *api.Trial, cmd api.Command) error {
	who := api.Identity{User: api.SearchActor(h.ID), Tenant: h.Tenant, Role: api.User}
	_, err := c.Jobs.Command(ctx, who, t.Job, cmd)
	if code := api.CodeOf(err); err != nil && (code == api.Conflict || code == api.Unknown) {
		return nil
	}
	return err
}
