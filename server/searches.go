// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// searches returns the service of searches, if there is one.
func (c *call) searches() (api.Searches, error) {
	if c.Searches == nil {
		return nil, api.Errorf(api.Unavailable, "this daemon runs no searches")
	}
	return c.Searches, nil
}

func createSearch(c *call) (any, error) {
	service, err := c.searches()
	if err != nil {
		return nil, err
	}
	spec := c.body.(*api.SearchSpec)
	if err := checkName("id", string(spec.ID)); err != nil {
		return nil, err
	}
	if err := noOrigin(&spec.Trial); err != nil {
		return nil, err
	}
	begin := c.Now()
	s, err := service.CreateSearch(c.r.Context(), c.who, *spec)
	if err == nil && spec.Key != "" && s.Submitted.Before(begin.Truncate(time.Millisecond)) {
		c.status = 200 // it was known
	}
	s.Trials = list(s.Trials)
	return s, err
}

func listSearches(c *call) (any, error) {
	service, err := c.searches()
	if err != nil {
		return nil, err
	}
	all, err := service.Searches(c.who)
	for i := range all {
		all[i].Trials = list(all[i].Trials)
	}
	return api.SearchList{Searches: list(all)}, err
}

func showSearch(c *call) (any, error) {
	service, err := c.searches()
	if err != nil {
		return nil, err
	}
	s, err := service.Search(c.who, sched.AppID(c.r.PathValue("id")))
	s.Trials = list(s.Trials)
	return s, err
}
