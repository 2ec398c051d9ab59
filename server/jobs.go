// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func (c *call) job() sched.JobID { return sched.JobID(c.r.PathValue("id")) }

func submit(c *call) (any, error) {
	s := c.body.(*api.Submission)
	if err := noOrigin(s); err != nil {
		return nil, err
	}
	begin := c.Now()
	jobs, err := c.Jobs.Submit(c.r.Context(), c.who, []api.Submission{*s})
	if err != nil {
		return nil, err
	}
	c.noteKnown(begin, []api.Submission{*s}, jobs)
	if s.Array != "" && len(jobs) > 0 && jobs[0].Member != nil {
		return c.Jobs.Job(c.who, sched.JobID(jobs[0].Member.Array))
	}
	if len(jobs) != 1 {
		return nil, fmt.Errorf("submit one job: got %d", len(jobs))
	}
	return jobs[0], nil
}

func previewJob(c *call) (any, error) {
	s := c.body.(*api.Submission)
	if err := noOrigin(s); err != nil {
		return nil, err
	}
	return c.Jobs.Preview(c.r.Context(), c.who, *s)
}

func readJobFile(c *call) (any, error) {
	if c.ReadJobs == nil {
		return nil, api.Errorf(api.Unavailable, "this daemon reads no job files").Try("submit the job as JSON")
	}
	jobs, err := c.ReadJobs([]byte(c.body.(*api.JobFile).Text))
	if err != nil {
		return nil, api.Errorf(api.Invalid, "%w", err)
	}
	return api.SubmissionList{Jobs: list(jobs)}, nil
}

// noOrigin refuses a job that says what it was made from: on a cluster, the executor
// would run what that names. It also refuses one that names the secrets of another.
func noOrigin(s *api.Submission) error {
	for field, value := range map[string]string{"origin": s.Origin, "secrets_ref": s.SecretsRef} {
		if value != "" {
			return api.Errorf(api.Invalid, "is filled in by the daemon").On(field).Try("leave it out")
		}
	}
	return nil
}

// noteKnown answers 200 instead of 201 if nothing new was made: jobs that are
// older than the request were found by their keys. Whoever keeps the jobs may
// round their times to milliseconds.
func (c *call) noteKnown(begin time.Time, asked []api.Submission, jobs []api.Job) {
	if slices.ContainsFunc(asked, func(s api.Submission) bool { return s.Key == "" }) {
		return
	}
	for _, j := range jobs {
		if !j.Submitted.Before(begin.Truncate(time.Millisecond)) {
			return
		}
	}
	c.status = 200
}

func listJobs(c *call) (any, error) {
	q := c.query
	page, err := c.Jobs.List(c.who, api.JobFilter{
		States: q["state"],
		Tenant: sched.TenantID(q.text("tenant")),
		App:    sched.AppID(q.text("app")),
		User:   q.text("user"),
		Search: q.text("search"),
		Sort:   q.text("sort"),
		After:  sched.JobID(q.text("after")),
		Limit:  int(q.count("limit")),
		Fold:   q.flag("fold"),
	})
	page.Jobs = list(page.Jobs)
	return page, err
}

// list makes an empty list of none: [] is easier on a reader than null.
func list[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

func showJob(c *call) (any, error) { return c.Jobs.Job(c.who, c.job()) }

func explainJob(c *call) (any, error) { return c.Jobs.Explain(c.who, c.job()) }

func showPoints(c *call) (any, error) {
	points, err := c.Jobs.Points(c.who, c.job())
	return api.PointList{Points: list(points)}, err
}

func showJobMetrics(c *call) (any, error) {
	out, err := c.Jobs.Metrics(c.who, c.job(), c.query["name"])
	out.Metrics = list(out.Metrics)
	return out, err
}

func showUsage(c *call) (any, error) {
	q := api.UsageQuery{By: c.query.text("by"), RollUp: c.query.flag("roll_up")}
	var err error
	if q.Since, err = c.query.time("since"); err != nil {
		return nil, err
	}
	if q.Until, err = c.query.time("until"); err != nil {
		return nil, err
	}
	out, err := c.Jobs.Usage(c.who, q)
	out.Rows = list(out.Rows)
	return out, err
}

func commandJob(c *call, cmd api.Command) (any, error) {
	return c.Jobs.Command(c.r.Context(), c.who, c.job(), cmd)
}

func showSubmission(c *call) (any, error) {
	return c.Jobs.Submission(c.r.Context(), c.who, c.job())
}

func handOver(c *call) (any, error) {
	return c.Jobs.HandOver(c.r.Context(), c.who, c.job(), *c.body.(*api.Handover))
}

func submitApp(c *call) (any, error) {
	app := c.body.(*api.AppSubmission)
	if err := checkName("id", string(app.ID)); err != nil {
		return nil, err
	}
	if err := api.MaySubmit(c.who, len(app.Jobs)); err != nil {
		return nil, err
	}
	for i := range app.Jobs {
		j := &app.Jobs[i]
		if j.App != "" && j.App != app.ID {
			return nil, api.Errorf(api.Invalid, "is %.60q, and the app is %.60q", j.App, app.ID).On(fmt.Sprintf("jobs[%d].app", i)).Try("leave it out")
		}
		j.App = app.ID
		if err := noOrigin(j); err != nil {
			return nil, err
		}
	}
	begin := c.Now()
	jobs, err := c.Jobs.Submit(c.r.Context(), c.who, app.Jobs)
	if err != nil {
		return nil, err
	}
	c.noteKnown(begin, app.Jobs, jobs)
	return api.JobList{Jobs: list(jobs)}, nil
}

func listApps(c *call) (any, error) {
	apps, err := c.Jobs.Apps(c.who)
	return api.AppList{Apps: list(apps)}, err
}

func commandApp(c *call, cmd api.Command) (any, error) {
	jobs, err := c.Jobs.CommandApp(c.r.Context(), c.who, sched.AppID(c.r.PathValue("id")), cmd)
	return api.JobList{Jobs: list(jobs)}, err
}
