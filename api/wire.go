// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// The bodies of the API that are not nouns by themselves. The server writes
// them and the client reads them, so that there is one of each.

// ErrorBody is the answer to a request that was refused.
type ErrorBody struct {
	Error *Error `json:"error"`
}

// AppSubmission is a request to run jobs that belong together: all or none.
type AppSubmission struct {
	ID   sched.AppID  `json:"id"`
	Jobs []Submission `json:"jobs"`
}

// JobList is the jobs of an app.
type JobList struct {
	Jobs []Job `json:"jobs"`
}

// AppList is all apps.
type AppList struct {
	Apps []AppView `json:"apps"`
}

// PointList is the measurements of a job, oldest first.
type PointList struct {
	Points []Point `json:"points"`
}

// LogList is the logs of a job, by attempt and rank.
type LogList struct {
	Logs []LogFile `json:"logs"`
}

// Handover says which job of another cluster a job is handed over to.
type Handover struct {
	To string `json:"to"` // CLUSTER/JOB
}

// Validate says what is wrong with it.
func (h *Handover) Validate() error {
	if h.To == "" || len(h.To) > maxMoved || strings.ContainsFunc(h.To, unprintable) {
		return Errorf(Invalid, "is %.40q", h.To).On("to").Try(fmt.Sprintf("name the job that replaces it as CLUSTER/JOB, in at most %d printable bytes", maxMoved))
	}
	return nil
}

// JobFile is the text of a job file.
type JobFile struct {
	Text string `json:"text"`
}

// SubmissionList is what a job file asks for.
type SubmissionList struct {
	Jobs []Submission `json:"jobs"`
}

// DamageList is what the journal had lost.
type DamageList struct {
	Damages []Damage `json:"damages"`
}

// LoginLink logs a browser in, once, within ten minutes.
type LoginLink struct {
	URL string `json:"url"`
}

// NodeList is all nodes.
type NodeList struct {
	Nodes []Node `json:"nodes"`
}

// NodeChange is a request to cordon a node ("cordoned") or to take it back
// ("ready").
type NodeChange struct {
	State string `json:"state"`
}

// TenantList is all tenants.
type TenantList struct {
	Tenants []TenantView `json:"tenants"`
}

// SampleList is the history of the cluster, oldest first.
type SampleList struct {
	Samples []Sample `json:"samples"`
}

// PolicySpec is the policy at work, as a spec.
type PolicySpec struct {
	Policy string `json:"policy"`
}

// PolicySwitch is a request to switch the policy, or to say what that would do.
type PolicySwitch struct {
	Policy string `json:"policy"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// PolicyList is all policies that can be asked for.
type PolicyList struct {
	Policies []PolicyEntry `json:"policies"`
}

// PolicyEntry describes a policy to a person.
type PolicyEntry struct {
	Name     string          `json:"name"`
	Summary  string          `json:"summary"`
	Paper    string          `json:"paper,omitempty"`
	Variants []PolicyVariant `json:"variants,omitempty"`
	Knobs    []PolicyKnob    `json:"knobs,omitempty"`
	Agents   bool            `json:"agents,omitempty"` // works with jobs whose agents report and adapt
	Losses   bool            `json:"losses,omitempty"` // plans with the loss that jobs report
	Oracle   bool            `json:"oracle,omitempty"` // plans with the truth: only in the simulator
}

// PolicyVariant is a named setting of several knobs.
type PolicyVariant struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
}

// PolicyKnob is one setting of a policy.
type PolicyKnob struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	Help    string `json:"help"`
}

// TokenList is all tokens, without their hashes.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// NewToken is a token and its secret, which is shown once.
type NewToken struct {
	Token  Token  `json:"token"`
	Secret string `json:"secret"`
}
