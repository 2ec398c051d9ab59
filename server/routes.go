// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"math"

	"github.com/fairway-gpu/fairway/live"
	"github.com/fairway-gpu/fairway/sched"
)

// The limits of bodies, in bytes.
const (
	maxJob    = 1 << 20
	maxApp    = 8 << 20
	maxReport = 256 << 10
	maxSmall  = 64 << 10
)

// states are the values of the parameter "state".
func states() []string {
	return []string{live.Waiting, live.Starting, live.Running, live.Paused, live.Stopping, live.Finished, live.Killed, live.Failed}
}

func eventParams() []param {
	return []param{
		{name: "after", kind: countParam, most: math.MaxUint64, help: "only records behind this sequence number"},
		{name: "job", help: "only records about this job"},
		{name: "kind", help: "only records of this kind, such as job-started"},
	}
}

// table returns all routes but those of the dashboard.
func table() []*route {
	var all []*route
	for _, part := range [][]*route{jobRoutes(), appRoutes(), searchRoutes(), bidderRoutes(), clusterRoutes(), policyRoutes(), feedRoutes(), accessRoutes(), ownRoutes()} {
		all = append(all, part...)
	}
	return all
}

func jobRoutes() []*route {
	out := []*route{
		{method: "POST", path: "/v1/jobs", role: live.User, summary: "Submit a job; with a key that is known, find the job that was submitted with it (200)",
			in: live.Submission{}, required: []string{"command", "gpus"}, limit: maxJob, out: live.Job{}, status: 201, handle: submit},
		{method: "GET", path: "/v1/jobs", role: live.Viewer, summary: "List jobs, newest first", out: live.JobPage{}, handle: listJobs,
			params: []param{
				{name: "state", choice: states(), repeat: true, help: "only jobs in one of these states"},
				{name: "tenant", help: "only jobs of this tenant"},
				{name: "app", help: "only jobs of this app"},
				{name: "user", help: "only jobs of this user"},
				{name: "search", help: "only jobs with this in their id or name"},
				{name: "after", help: "go on behind the job with this id: next of the page before"},
				{name: "limit", kind: countParam, most: live.MaxPage, help: "jobs of a page; 0: 100"},
			}},
		{method: "GET", path: "/v1/jobs/{id}", role: live.Viewer, summary: "Show a job", out: live.Job{}, handle: showJob},
		{method: "GET", path: "/v1/jobs/{id}/explain", role: live.Viewer, summary: "Explain why a job waits, or runs where it runs", out: live.Explanation{}, handle: explainJob},
		{method: "GET", path: "/v1/jobs/{id}/points", role: live.Viewer, summary: "Show what a job's agent measured over time", out: live.PointList{}, handle: showPoints},
		{method: "GET", path: "/v1/jobs/{id}/logs", role: live.Viewer, summary: "Show what a job printed", kind: "text/plain", writes: true, streams: true, handle: copyLog,
			params: []param{
				{name: "attempt", kind: countParam, most: math.MaxInt32, help: "which run of the job, from 1; 0: the last"},
				{name: "rank", kind: countParam, most: math.MaxInt32, help: "process of the gang"},
				{name: "stream", choice: []string{"stdout", "stderr"}, help: "only this stream; both if left out"},
				{name: "tail", kind: countParam, most: math.MaxInt32, help: "only so many last lines; 0: all that is kept"},
				{name: "follow", kind: flagParam, help: "go on until the job ends"},
			}},
	}
	for _, cmd := range []live.Command{live.Cancel, live.Pause, live.Resume} {
		out = append(out, &route{method: "POST", path: "/v1/jobs/{id}/" + string(cmd), role: live.User, summary: commandHelp[cmd] + " a job",
			out: live.Job{}, handle: func(c *call) (any, error) { return commandJob(c, cmd) }})
	}
	return out
}

var commandHelp = map[live.Command]string{
	live.Cancel: "End", live.Pause: "Stop, until it is resumed,", live.Resume: "Let the scheduler start again",
}

func appRoutes() []*route {
	out := []*route{
		{method: "POST", path: "/v1/apps", role: live.User, summary: "Submit jobs that belong together: all or none",
			in: live.AppSubmission{}, required: []string{"id", "jobs"}, limit: maxApp, out: live.JobList{}, status: 201, handle: submitApp},
		{method: "GET", path: "/v1/apps", role: live.Viewer, summary: "List apps", out: live.AppList{}, handle: listApps},
	}
	for _, cmd := range []live.Command{live.Cancel, live.Pause, live.Resume} {
		out = append(out, &route{method: "POST", path: "/v1/apps/{id}/" + string(cmd), role: live.User, summary: commandHelp[cmd] + " all jobs of an app",
			out: live.JobList{}, handle: func(c *call) (any, error) { return commandApp(c, cmd) }})
	}
	return out
}

func searchRoutes() []*route {
	return []*route{
		{method: "POST", path: "/v1/searches", role: live.User, summary: "Search for hyper-parameters: an app that chooses its jobs and stops bad ones early",
			in: live.SearchSpec{}, required: []string{"id", "parameters", "trial"}, limit: maxJob, out: live.Search{}, status: 201, handle: createSearch},
		{method: "GET", path: "/v1/searches", role: live.Viewer, summary: "List searches, newest first, without the curves of their trials", out: live.SearchList{}, handle: listSearches},
		{method: "GET", path: "/v1/searches/{id}", role: live.Viewer, summary: "Show a search with all its trials", out: live.Search{}, handle: showSearch},
	}
}

func clusterRoutes() []*route {
	return []*route{
		{method: "GET", path: "/v1/overview", role: live.Viewer, summary: "Show the state of the whole", out: live.Overview{}, handle: overview},
		{method: "GET", path: "/v1/whoami", role: live.Viewer, summary: "Show who asks", out: live.Identity{},
			handle: func(c *call) (any, error) { return c.who, nil }},
		{method: "GET", path: "/v1/nodes", role: live.Viewer, summary: "List machines and their GPUs", out: live.NodeList{}, handle: listNodes},
		{method: "PUT", path: "/v1/nodes/{name}", role: live.Admin, summary: "Cordon a machine, or take it back",
			in: live.NodeChange{}, required: []string{"state"}, limit: maxSmall, out: live.Node{}, handle: setNode},
		{method: "GET", path: "/v1/tenants", role: live.Viewer, summary: "List tenants and what they have", out: live.TenantList{}, handle: listTenants},
		{method: "PUT", path: "/v1/tenants/{id}", role: live.Admin, summary: "Declare or change a tenant",
			in: sched.Tenant{}, limit: maxSmall, out: live.TenantView{}, handle: setTenant},
	}
}

func policyRoutes() []*route {
	return []*route{
		{method: "GET", path: "/v1/policy", role: live.Viewer, summary: "Show the policy at work", out: live.PolicySpec{}, handle: showPolicy},
		{method: "PUT", path: "/v1/policy", role: live.Admin, summary: "Switch the policy, or say what that would do",
			in: live.PolicySwitch{}, required: []string{"policy"}, limit: maxSmall, out: live.PolicyChange{}, handle: setPolicy},
		{method: "GET", path: "/v1/policies", role: live.Viewer, summary: "List the policies there are", out: live.PolicyList{}, handle: listPolicies},
	}
}

func feedRoutes() []*route {
	page := append(eventParams(), param{name: "limit", kind: countParam, most: live.MaxPage, help: "records of a page; 0: 100"})
	return []*route{
		{method: "GET", path: "/v1/events", role: live.Viewer, summary: "List what happened, oldest first", out: live.RecordPage{}, params: page, handle: listRecords},
		{method: "GET", path: "/v1/events/stream", role: live.Viewer, summary: "Watch what happens, as server-sent events",
			kind: "text/event-stream", writes: true, streams: true, params: eventParams(), handle: watchRecords},
		{method: "GET", path: "/v1/history", role: live.Viewer, summary: "Show the cluster over time", out: live.SampleList{}, handle: history},
	}
}

func accessRoutes() []*route {
	return []*route{
		{method: "GET", path: "/v1/tokens", role: live.Admin, summary: "List tokens", out: live.TokenList{}, handle: listTokens},
		{method: "POST", path: "/v1/tokens", role: live.Admin, summary: "Make a token; its secret is shown once",
			in: live.Token{}, required: []string{"user", "role"}, limit: maxSmall, out: live.NewToken{}, status: 201, handle: createToken},
		{method: "DELETE", path: "/v1/tokens/{id}", role: live.Admin, summary: "Revoke a token", handle: revokeToken},
		{method: "POST", path: "/v1/agent/report", agent: true, summary: "Take the report of a job's agent",
			in: live.AgentReport{}, limit: maxReport, out: live.AgentAnswer{}, handle: agentReport},
	}
}

// ownRoutes are about the server itself.
func ownRoutes() []*route {
	return []*route{
		{method: "GET", path: "/healthz", summary: "Say whether the daemon lives", kind: "text/plain", writes: true, handle: health},
		{method: "GET", path: "/readyz", summary: "Say whether the daemon can work", kind: "text/plain", writes: true, handle: ready},
		{method: "GET", path: "/metrics", role: live.Viewer, summary: "Show metrics for Prometheus", kind: "text/plain", writes: true, handle: showMetrics},
		{method: "GET", path: "/openapi.json", summary: "Show this document", kind: "application/json", writes: true, handle: showOpenAPI},
	}
}
