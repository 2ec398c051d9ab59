// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// values builds the parameters of a request and omits zero values.
type values url.Values

func (v values) text(name, value string) values {
	if value != "" {
		v[name] = []string{value}
	}
	return v
}

func (v values) count(name string, n uint64) values {
	if n != 0 {
		v[name] = []string{strconv.FormatUint(n, 10)}
	}
	return v
}

// number also keeps negative values, so that the daemon refuses them.
func (v values) number(name string, n int) values {
	if n != 0 {
		v[name] = []string{strconv.Itoa(n)}
	}
	return v
}

// Submit submits a job. With a key, repeating it creates the job only once, until at
// least 7 days after the job has ended.
func (c *Client) Submit(ctx context.Context, s api.Submission) (job api.Job, err error) {
	err = c.do(ctx, request{method: "POST", path: path("v1", "jobs"), body: s}, &job)
	return job, err
}

// Preview returns what submitting a job would do.
func (c *Client) Preview(ctx context.Context, s api.Submission) (preview api.Preview, err error) {
	err = c.do(ctx, request{method: "POST", path: path("v1", "preview"), body: s}, &preview)
	return preview, err
}

// ReadJobs returns what a job file asks for.
func (c *Client) ReadJobs(ctx context.Context, text string) ([]api.Submission, error) {
	var out api.SubmissionList
	err := c.do(ctx, request{method: "POST", path: path("v1", "jobfile"), body: api.JobFile{Text: text}}, &out)
	return out.Jobs, err
}

// SubmitApp submits the jobs of one app, all or none.
func (c *Client) SubmitApp(ctx context.Context, app sched.AppID, jobs []api.Submission) ([]api.Job, error) {
	var out api.JobList
	err := c.do(ctx, request{method: "POST", path: path("v1", "apps"), body: api.AppSubmission{ID: app, Jobs: jobs}}, &out)
	return out.Jobs, err
}

// Job returns a job.
func (c *Client) Job(ctx context.Context, id sched.JobID) (job api.Job, err error) {
	err = c.do(ctx, request{method: "GET", path: path("v1", "jobs", string(id))}, &job)
	return job, err
}

// Submission returns what to submit for another job like this one.
func (c *Client) Submission(ctx context.Context, id sched.JobID) (s api.Submission, err error) {
	err = c.do(ctx, request{method: "GET", path: path("v1", "jobs", string(id), "submission")}, &s)
	return s, err
}

// Page returns one page of jobs, newest first.
func (c *Client) Page(ctx context.Context, f api.JobFilter) (page api.JobPage, err error) {
	q := values{}.text("tenant", string(f.Tenant)).text("app", string(f.App)).text("user", f.User).
		text("search", f.Search).text("sort", f.Sort).text("after", string(f.After)).number("limit", f.Limit)
	if len(f.States) > 0 {
		q["state"] = f.States
	}
	if f.Fold {
		q.text("fold", "true")
	}
	err = c.do(ctx, request{method: "GET", path: path("v1", "jobs"), query: url.Values(q)}, &page)
	return page, err
}

// List iterates over all jobs of a filter, newest first, page by page; Limit is
// the page size. It ends after an error.
func (c *Client) List(ctx context.Context, f api.JobFilter) iter.Seq2[api.Job, error] {
	return func(yield func(api.Job, error) bool) {
		for {
			page, err := c.Page(ctx, f)
			if err != nil {
				yield(api.Job{}, err)
				return
			}
			for _, j := range page.Jobs {
				if !yield(j, nil) {
					return
				}
			}
			if page.Next == "" || page.Next == f.After {
				return
			}
			f.After = page.Next
		}
	}
}

// Command cancels, pauses or resumes a job.
func (c *Client) Command(ctx context.Context, id sched.JobID, cmd api.Command) (job api.Job, err error) {
	err = c.do(ctx, request{method: "POST", path: path("v1", "jobs", string(id), string(cmd))}, &job)
	return job, err
}

// HandOver ends a job that has never started, for a job of another cluster.
func (c *Client) HandOver(ctx context.Context, id sched.JobID, h api.Handover) (job api.Job, err error) {
	err = c.do(ctx, request{method: "POST", path: path("v1", "jobs", string(id), "handover"), body: h}, &job)
	return job, err
}

// CommandApp cancels, pauses or resumes all jobs of an app.
func (c *Client) CommandApp(ctx context.Context, id sched.AppID, cmd api.Command) ([]api.Job, error) {
	var out api.JobList
	err := c.do(ctx, request{method: "POST", path: path("v1", "apps", string(id), string(cmd))}, &out)
	return out.Jobs, err
}

// Apps returns all apps.
func (c *Client) Apps(ctx context.Context) ([]api.AppView, error) {
	var out api.AppList
	err := c.do(ctx, request{method: "GET", path: path("v1", "apps")}, &out)
	return out.Apps, err
}

// CreateSearch starts a hyper-parameter search. With a key, repeating it creates
// the search only once.
func (c *Client) CreateSearch(ctx context.Context, s api.SearchSpec) (out api.Search, err error) {
	err = c.do(ctx, request{method: "POST", path: path("v1", "searches"), body: s}, &out)
	return out, err
}

// Search returns a search with all its trials.
func (c *Client) Search(ctx context.Context, id sched.AppID) (out api.Search, err error) {
	err = c.do(ctx, request{method: "GET", path: path("v1", "searches", string(id))}, &out)
	return out, err
}

// Searches returns all searches, newest first, without the curves of their trials.
func (c *Client) Searches(ctx context.Context) ([]api.Search, error) {
	var out api.SearchList
	err := c.do(ctx, request{method: "GET", path: path("v1", "searches")}, &out)
	return out.Searches, err
}

// Explain returns why a job waits, or why it runs where it runs.
func (c *Client) Explain(ctx context.Context, id sched.JobID) (e api.Explanation, err error) {
	err = c.do(ctx, request{method: "GET", path: path("v1", "jobs", string(id), "explain")}, &e)
	return e, err
}

// Points returns what a job's agent measured, oldest first.
func (c *Client) Points(ctx context.Context, id sched.JobID) ([]api.Point, error) {
	var out api.PointList
	err := c.do(ctx, request{method: "GET", path: path("v1", "jobs", string(id), "points")}, &out)
	return out.Points, err
}

// JobMetrics returns what a job has reported of its metrics: of those with these names, or
// of all.
func (c *Client) JobMetrics(ctx context.Context, id sched.JobID, names ...string) (out api.MetricList, err error) {
	q := url.Values{}
	if len(names) > 0 {
		q["name"] = names
	}
	err = c.do(ctx, request{method: "GET", path: path("v1", "jobs", string(id), "metrics"), query: q}, &out)
	return out, err
}

// Usage returns what jobs used, by user, tenant, job or day.
func (c *Client) Usage(ctx context.Context, q api.UsageQuery) (out api.Usage, err error) {
	v := values{}.text("by", q.By)
	for name, t := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !t.IsZero() {
			v.text(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if q.RollUp {
		v.text("roll_up", "true")
	}
	err = c.do(ctx, request{method: "GET", path: path("v1", "usage"), query: url.Values(v)}, &out)
	return out, err
}

// Logs copies a log to w; with Follow, until the job or the context ends.
func (c *Client) Logs(ctx context.Context, id sched.JobID, q api.LogQuery, w io.Writer) error {
	v := values{}.number("attempt", q.Attempt).number("rank", q.Rank).text("stream", q.Stream).number("tail", q.Tail)
	for name, set := range map[string]bool{"follow": q.Follow, "all_ranks": q.AllRanks, "all_attempts": q.AllAttempts, "collapse": q.Collapse} {
		if set {
			v.text(name, "true")
		}
	}
	if v.text("grep", q.Grep); !q.Since.IsZero() {
		v.text("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	resp, err := c.send(ctx, request{method: "GET", path: path("v1", "jobs", string(id), "logs"), query: url.Values(v), accept: "text/plain"})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := copyLog(w, resp.Body); err != nil {
		if fault, local := err.(writeError); local {
			return fault.error
		}
		return c.unreachable(ctx, err)
	}
	if text := resp.Trailer.Get(api.ErrorTrailer); text != "" {
		refused := &api.Error{}
		if err := json.Unmarshal([]byte(text), refused); err == nil {
			return refused
		}
	}
	return ctx.Err()
}

// LogFiles returns which logs of a job there are.
func (c *Client) LogFiles(ctx context.Context, id sched.JobID) ([]api.LogFile, error) {
	var out api.LogList
	err := c.do(ctx, request{method: "GET", path: path("v1", "jobs", string(id), "logs", "files")}, &out)
	return out.Logs, err
}

// writeError is an error of the caller's writer.
type writeError struct{ error }

// copyLog copies bytes as they arrive, and marks errors of the writer.
func copyLog(w io.Writer, r io.Reader) error {
	in := bufio.NewReaderSize(r, 32<<10)
	for {
		if _, err := in.Peek(1); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		b, _ := in.Peek(in.Buffered())
		if _, err := w.Write(b); err != nil {
			return writeError{err}
		}
		if _, err := in.Discard(len(b)); err != nil {
			return err
		}
	}
}
