// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"math"

	"github.com/fairway-gpu/fairway/api"
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
	return []string{api.Waiting, api.Starting, api.Running, api.Paused, api.Stopping, api.Finished, api.Cancelled, api.Failed}
}

func eventParams() []param {
	return []param{
		{name: "after", kind: countParam, most: math.MaxUint64, help: "only records behind this sequence number"},
		{name: "job", help: "only records about this job, or the jobs of this array"},
		{name: "app", help: "only records about this app and its jobs"},
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
		{method: "POST", path: "/v1/jobs", role: api.User, summary: "Submit a job; with a key that is known, find the job that was submitted with it (200; 409 if that job has ended and is no longer kept: keys are remembered for at least 7 days after the end)",
			in: api.Submission{}, required: []string{"command", "gpus"}, limit: maxJob, out: api.Job{}, status: 201, handle: submit},
		{method: "POST", path: "/v1/preview", role: api.User, summary: "Say when a job would start, which jobs would make room for it, and which smaller size would start sooner; nothing is submitted",
			in: api.Submission{}, required: []string{"command", "gpus"}, limit: maxJob, out: api.Preview{}, handle: previewJob},
		{method: "POST", path: "/v1/jobfile", role: api.User, summary: "Read a job file in YAML: what it asks for, or what is wrong in it; nothing is submitted",
			in: api.JobFile{}, required: []string{"text"}, limit: maxJob, out: api.SubmissionList{}, handle: readJobFile},
		{method: "GET", path: "/v1/jobs", role: api.Viewer, summary: "List jobs, newest first", out: api.JobPage{}, handle: listJobs,
			params: []param{
				{name: "state", choice: states(), repeat: true, help: "only jobs in one of these states"},
				{name: "tenant", help: "only jobs of this tenant"},
				{name: "app", help: "only jobs of this app"},
				{name: "user", help: "only jobs of this user"},
				{name: "search", help: "only jobs with this in their id or name"},
				{name: "sort", choice: api.JobOrders(), help: "sort by this, with - the other way round; the newest first if left out"},
				{name: "after", help: "go on behind the job with this id: next of the page before"},
				{name: "limit", kind: countParam, most: api.MaxPage, help: "jobs of a page; 0: 100"},
				{name: "fold", kind: flagParam, help: "list an array as one job, with members"},
			}},
		{method: "GET", path: "/v1/jobs/{id}", role: api.Viewer, summary: "Show a job", out: api.Job{}, handle: showJob},
		{method: "GET", path: "/v1/jobs/{id}/submission", role: api.User, summary: "Show what to submit for another job like this one", out: api.Submission{}, handle: showSubmission},
		{method: "GET", path: "/v1/jobs/{id}/explain", role: api.Viewer, summary: "Explain why a job waits, or runs where it runs", out: api.Explanation{}, handle: explainJob},
		{method: "GET", path: "/v1/jobs/{id}/points", role: api.Viewer, summary: "Show what a job's agent measured over time", out: api.PointList{}, handle: showPoints},
		{method: "GET", path: "/v1/jobs/{id}/metrics", role: api.Viewer, summary: "Show what a job reported of its loss and other metrics, by step and time", out: api.MetricList{}, handle: showJobMetrics,
			params: []param{{name: "name", repeat: true, help: "only the metrics with these names"}}},
		{method: "GET", path: "/v1/jobs/{id}/logs", role: api.Viewer, summary: "Show what a job printed", kind: "text/plain", writes: true, streams: true, handle: copyLog,
			params: []param{
				{name: "attempt", kind: countParam, most: math.MaxInt32, help: "which run of the job, from 1; 0: the last"},
				{name: "rank", kind: countParam, most: math.MaxInt32, help: "process of the gang"},
				{name: "stream", choice: []string{"stdout", "stderr"}, help: "only this stream; both if left out"},
				{name: "tail", kind: countParam, most: math.MaxInt32, help: "only so many last lines; 0: all that is kept"},
				{name: "follow", kind: flagParam, help: "go on until the job ends"},
				{name: "since", help: "only what was printed since this time (RFC 3339), to within 10 seconds"},
				{name: "all_ranks", kind: flagParam, help: "all processes of the gang; each line begins with its rank"},
				{name: "all_attempts", kind: flagParam, help: "from the first attempt to the last"},
				{name: "grep", help: "only lines that match this regular expression (RE2)"},
				{name: "collapse", kind: flagParam, help: "of a line that rewrites itself, such as a progress bar, only the last state"},
				{name: "download", kind: flagParam, help: "tell a browser to save it as a file"},
			}},
		{method: "GET", path: "/v1/jobs/{id}/logs/files", role: api.Viewer, summary: "List the logs of a job: which attempts and processes", out: api.LogList{}, handle: listLogs},
	}
	for _, cmd := range []api.Command{api.Cancel, api.Pause, api.Resume} {
		out = append(out, &route{method: "POST", path: "/v1/jobs/{id}/" + string(cmd), role: api.User, summary: commandHelp[cmd] + " a job",
			out: api.Job{}, handle: func(c *call) (any, error) { return commandJob(c, cmd) }})
	}
	out = append(out, &route{method: "POST", path: "/v1/jobs/{id}/handover", role: api.User, summary: "End a job that has never started, because a job of another cluster replaces it",
		in: api.Handover{}, required: []string{"to"}, limit: maxJob, out: api.Job{}, handle: handOver})
	return out
}

var commandHelp = map[api.Command]string{
	api.Cancel: "End", api.Pause: "Stop, until it is resumed,", api.Resume: "Let the scheduler start again",
}

func appRoutes() []*route {
	out := []*route{
		{method: "POST", path: "/v1/apps", role: api.User, summary: "Submit jobs that belong together: all or none",
			in: api.AppSubmission{}, required: []string{"id", "jobs"}, limit: maxApp, out: api.JobList{}, status: 201, handle: submitApp},
		{method: "GET", path: "/v1/apps", role: api.Viewer, summary: "List apps", out: api.AppList{}, handle: listApps},
	}
	for _, cmd := range []api.Command{api.Cancel, api.Pause, api.Resume} {
		out = append(out, &route{method: "POST", path: "/v1/apps/{id}/" + string(cmd), role: api.User, summary: commandHelp[cmd] + " all jobs of an app",
			out: api.JobList{}, handle: func(c *call) (any, error) { return commandApp(c, cmd) }})
	}
	return out
}

func searchRoutes() []*route {
	return []*route{
		{method: "POST", path: "/v1/searches", role: api.User, summary: "Search for hyper-parameters: an app that chooses its jobs and stops bad ones early",
			in: api.SearchSpec{}, required: []string{"id", "parameters", "trial"}, limit: maxJob, out: api.Search{}, status: 201, handle: createSearch},
		{method: "GET", path: "/v1/searches", role: api.Viewer, summary: "List searches, newest first, without the curves of their trials", out: api.SearchList{}, handle: listSearches},
		{method: "GET", path: "/v1/searches/{id}", role: api.Viewer, summary: "Show a search with all its trials", out: api.Search{}, handle: showSearch},
	}
}

func clusterRoutes() []*route {
	return []*route{
		{method: "GET", path: "/v1/overview", role: api.Viewer, summary: "Show the state of the whole", out: api.Overview{}, handle: overview},
		{method: "GET", path: "/v1/usage", role: api.Viewer, summary: "Sum what jobs used, by user, tenant, job or day; also of jobs that are no longer kept, for 400 days", out: api.Usage{}, handle: showUsage,
			params: []param{
				{name: "by", choice: api.UsageKinds(), help: "what to sum by; left out: user"},
				{name: "since", help: "from the day (UTC) that holds this time (RFC 3339); left out: all that is kept"},
				{name: "until", help: "to the day that holds this time; left out: today"},
				{name: "roll_up", kind: flagParam, help: "by tenant: count what a tenant uses for all tenants above it too"},
			}},
		{method: "GET", path: "/v1/whoami", role: api.Viewer, summary: "Show who asks", out: api.Identity{},
			handle: func(c *call) (any, error) { return c.who, nil }},
		{method: "GET", path: "/v1/nodes", role: api.Viewer, summary: "List machines and their GPUs", out: api.NodeList{}, handle: listNodes},
		{method: "PUT", path: "/v1/nodes/{name}", role: api.Admin, summary: "Cordon a machine, or take it back",
			in: api.NodeChange{}, required: []string{"state"}, limit: maxSmall, out: api.Node{}, handle: setNode},
		{method: "POST", path: "/v1/journal/acknowledge", role: api.Admin, summary: "Acknowledge that the journal has lost records: readiness and metrics report it until then",
			out: api.DamageList{}, handle: acknowledgeDamage},
		{method: "GET", path: "/v1/tenants", role: api.Viewer, summary: "List tenants and what they have", out: api.TenantList{}, handle: listTenants},
		{method: "PUT", path: "/v1/tenants/{id}", role: api.Admin, summary: "Declare or change a tenant",
			in: sched.Tenant{}, limit: maxSmall, out: api.TenantView{}, handle: setTenant},
	}
}

func policyRoutes() []*route {
	return []*route{
		{method: "GET", path: "/v1/policy", role: api.Viewer, summary: "Show the policy at work", out: api.PolicySpec{}, handle: showPolicy},
		{method: "PUT", path: "/v1/policy", role: api.Admin, summary: "Switch the policy, or say what that would do",
			in: api.PolicySwitch{}, required: []string{"policy"}, limit: maxSmall, out: api.PolicyChange{}, handle: setPolicy},
		{method: "GET", path: "/v1/policies", role: api.Viewer, summary: "List the policies there are", out: api.PolicyList{}, handle: listPolicies},
	}
}

func feedRoutes() []*route {
	page := append(eventParams(), param{name: "limit", kind: countParam, most: api.MaxPage, help: "records of a page; 0: 100"})
	return []*route{
		{method: "GET", path: "/v1/events", role: api.Viewer, summary: "List what happened, oldest first", out: api.RecordPage{}, params: page, handle: listRecords},
		{method: "GET", path: "/v1/events/stream", role: api.Viewer, summary: "Watch what happens, as server-sent events",
			kind: "text/event-stream", writes: true, streams: true, params: eventParams(), handle: watchRecords},
		{method: "GET", path: "/v1/history", role: api.Viewer, summary: "Show the cluster over time", out: api.SampleList{}, handle: history},
	}
}

func accessRoutes() []*route {
	return []*route{
		{method: "GET", path: "/v1/tokens", role: api.Admin, summary: "List tokens", out: api.TokenList{}, handle: listTokens},
		{method: "POST", path: "/v1/tokens", role: api.Admin, summary: "Make a token; its secret is shown once",
			in: api.Token{}, required: []string{"user", "role"}, limit: maxSmall, out: api.NewToken{}, status: 201, handle: createToken},
		{method: "DELETE", path: "/v1/tokens/{id}", role: api.Admin, summary: "Revoke a token", handle: revokeToken},
		{method: "POST", path: "/v1/login", role: api.Viewer, summary: "Make a link that logs a browser in as the caller, once, within ten minutes",
			out: api.LoginLink{}, status: 201, handle: createLogin},
		{method: "POST", path: "/v1/agent/report", agent: true, summary: "Take the report of a job's agent",
			in: api.AgentReport{}, limit: maxReport, out: api.AgentAnswer{}, handle: agentReport},
	}
}

// ownRoutes are about the server itself.
func ownRoutes() []*route {
	return []*route{
		{method: "GET", path: "/healthz", summary: "Say whether the daemon lives", kind: "text/plain", writes: true, handle: health},
		{method: "GET", path: "/readyz", summary: "Say whether the daemon can work", kind: "text/plain", writes: true, handle: ready},
		{method: "GET", path: "/metrics", role: api.Viewer, summary: "Show metrics for Prometheus", kind: "text/plain", writes: true, handle: showMetrics},
		{method: "GET", path: "/openapi.json", summary: "Show this document", kind: "application/json", writes: true, handle: showOpenAPI},
	}
}
