// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Submission implements api.Jobs.
func (b *Store) Submission(_ context.Context, who api.Identity, id sched.JobID) (api.Submission, error) {
	j, err := b.job(who, id)
	if err != nil {
		return api.Submission{}, err
	}
	s := api.Submission{Spec: j.Spec, Task: j.Task}
	own := string(j.ID) // the app of a job that named none
	if j.Member != nil {
		own = j.Member.Array
	}
	if j.Members != nil {
		if s.Array, err = b.arrayText(who, *j.Member); err != nil {
			return s, err
		}
	}
	if s.App = sched.AppID(strings.TrimPrefix(string(s.App), string(j.Tenant)+"/")); string(s.App) == own {
		s.App = ""
	}
	if j.Spec.Screen > 0 {
		s.Screen = j.Spec.Screen.String()
	}
	s.ID, s.Submitted, s.Protected, s.Spec.Screen = "", time.Time{}, false, 0
	s.Origin, s.MovedFrom, s.Member, s.DependsOn, s.SecretsRef = "", "", nil, nil, ""
	if s.Preemptible != nil {
		s.NonPreemptible = false // Preemptible says it
	}
	return s, nil
}

// arrayText returns the array that a job is of, as far as its jobs are still known.
func (b *Store) arrayText(who api.Identity, m api.Member) (string, error) {
	var indexes []int
	for f := (api.JobFilter{Search: m.Array, Limit: api.MaxPage}); ; {
		page, err := b.List(who, f)
		if err != nil {
			return "", err
		}
		for _, j := range page.Jobs {
			if j.Member != nil && j.Member.Array == m.Array {
				indexes = append(indexes, j.Member.Index)
			}
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	slices.Sort(indexes)
	text := api.Ranges(indexes)
	if m.Most > 0 {
		text += fmt.Sprintf("%%%d", m.Most)
	}
	return text, nil
}
