// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// statusOf returns the status of an accepted training job.
func statusOf(job *api.Job, old *v1alpha1.TrainingJob, now time.Time) v1alpha1.TrainingJobStatus {
	s := v1alpha1.TrainingJobStatus{
		State: job.State, GPUs: clip(job.HeldGPUs()), Size: sizeOf(job), Roles: job.RolesShown(), Nodes: nodesOf(job.Held), Tenant: string(job.Tenant), ID: string(job.ID),
		Attempt: int32(job.Status.Starts), Preemptions: int32(job.Status.Preemptions), Failures: int32(job.Status.Failures),
		ObservedGeneration: old.Generation, Conditions: slices.Clone(old.Status.Conditions),
		StartTime: timeOf(job.Status.FirstStart), CompletionTime: timeOf(job.Ended),
		Why: whyOf(job), Brief: briefOf(job), Rho: digits(job.Rho),
	}
	if job.Plan != nil {
		s.Plan = job.Plan.String()
	}
	if job.Last != nil {
		s.Goodput = digits(job.Last.Goodput)
	}
	s.Metrics = v1alpha1.TrainingJobMetrics{Goodput: numberIn(s.Goodput), Rho: numberIn(s.Rho)}
	if job.Reason != nil && !job.Reason.Until.IsZero() {
		// Rounding, because forecasts shift a little all the time.
		s.Until = timeOf(job.Reason.Until.Round(10 * time.Second))
	}
	set := func(c metav1.Condition) {
		c.ObservedGeneration, c.LastTransitionTime = old.Generation, metav1.NewTime(now.Truncate(time.Second))
		meta.SetStatusCondition(&s.Conditions, c)
	}
	set(metav1.Condition{Type: v1alpha1.Accepted, Status: metav1.ConditionTrue, Reason: "Submitted", Message: "accepted as " + string(job.ID)})
	set(runningCondition(job))
	switch job.State {
	case api.Finished:
		set(metav1.Condition{Type: v1alpha1.Finished, Status: metav1.ConditionTrue, Reason: "Completed", Message: "completed"})
	case api.Failed, api.Cancelled:
		set(failedCondition(job))
	}
	return s
}

// runningCondition says whether the pods are up, and if not, why.
func runningCondition(job *api.Job) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.Running, Status: metav1.ConditionFalse, Reason: camel(job.State), Message: whyOf(job)}
	switch {
	case job.State == api.Running:
		c.Status = metav1.ConditionTrue
		if job.Status.Screening {
			c.Reason = "Screening"
		}
		c.Message = "on " + nodesOf(job.Held)
	case job.State == api.Waiting && job.Reason != nil:
		c.Reason = camel(job.Reason.Code)
	}
	return c
}

// failedCondition says why a job failed, and what was done or can be done about it.
func failedCondition(job *api.Job) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.Failed, Status: metav1.ConditionTrue, Reason: "Error", Message: "failed"}
	if job.State == api.Cancelled {
		c.Reason, c.Message = "Cancelled", "cancelled"
		if job.MovedTo != "" {
			c.Reason, c.Message = "Moved", cut("moved to "+job.MovedTo)
		}
		return c
	}
	if job.Why != "" {
		c.Reason, c.Message = "TimeLimit", cut(job.Why)
		return c
	}
	if job.Exit == nil {
		return c
	}
	parts := []string{job.Exit.Text()}
	if cause := job.Exit.Cause(); cause != "" {
		c.Reason = camel(job.Exit.Finding.Reason)
		parts = append(parts, cause)
	}
	if job.Exit.Next != "" {
		parts = append(parts, job.Exit.Next)
	}
	c.Message = cut(strings.Join(parts, "; "))
	return c
}

// whyOf says why a job does not run, or how it ended.
func whyOf(job *api.Job) string {
	switch {
	case job.Reason != nil:
		return cut(job.Reason.Text)
	case job.State == api.Failed && (job.Exit != nil || job.Why != ""):
		return cut(failedCondition(job).Message)
	case job.State == api.Starting:
		return "its pods are starting"
	case job.State == api.Stopping:
		return "stopping: it was asked to save its work"
	case job.State == api.Cancelled:
		return failedCondition(job).Message
	}
	return ""
}

// briefOf is whyOf in a few words. The time is in a column of its own.
func briefOf(job *api.Job) string {
	text := whyOf(job)
	switch {
	case job.Reason == nil:
	case job.Reason.Code == sched.BackOff.String() && job.Exit != nil:
		text = "back-off: " + job.Exit.Text()
	case job.Reason.Code == sched.Impossible.String():
		text = "impossible: " + text
	}
	return brief(text)
}

// brief shortens a text to what fits in a column of a table, at the end of a clause or of a
// word.
func brief(text string) string {
	const most = 40
	text, _, _ = strings.Cut(text, " until about ")
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	head := letters[:most-1] // and a sign that there is more
	for i := len(head) - 1; i > most/2; i-- {
		switch {
		case letters[i] == ';' || letters[i] == ':' && letters[i+1] == ' ':
			return string(head[:i]) + "…"
		case letters[i] == ' ' && len(head) == most-1:
			head = head[:i] // unless a clause ends before
		}
	}
	return strings.TrimRight(string(head), " ,;:(") + "…"
}

// cut bounds a text for a status.
func cut(text string) string {
	const most = 1024
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// sizeOf prints the GPUs held and asked for, such as 4/1-8.
func sizeOf(job *api.Job) string {
	held := job.HeldGPUs()
	if job.MaxGPUs > job.MinGPUs {
		return fmt.Sprintf("%d/%d-%d", held, job.MinGPUs, job.MaxGPUs)
	}
	return fmt.Sprintf("%d/%d", held, job.GPUs)
}

// nodesOf prints nodes with their GPUs, such as "a:0-3, b:0,2", and cuts a long list.
func nodesOf(held []api.Held) string {
	const most = 64
	var parts []string
	for i, h := range held {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(held)-most))
			break
		}
		parts = append(parts, h.Node+":"+api.Ranges(h.GPUs))
	}
	return strings.Join(parts, ", ")
}

// camel turns a code into the reason of a condition: over-quota becomes OverQuota.
func camel(code string) string {
	var b strings.Builder
	upper := true
	for _, r := range code {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		switch {
		case !letter && (r < '0' || r > '9' || b.Len() == 0):
			upper = true
		case upper:
			b.WriteString(strings.ToUpper(string(r)))
			upper = false
		default:
			b.WriteRune(r)
		}
	}
	if b.Len() == 0 {
		return "Unknown"
	}
	return b.String()
}

// digits prints a number with three significant digits, and nothing for 0, which means
// unknown.
func digits(v float64) string {
	switch {
	case v <= 0:
		return ""
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// numberIn returns the number that digits has printed: both change together, so that a
// status is written no more often for having both.
func numberIn(text string) float64 {
	v, _ := strconv.ParseFloat(text, 64)
	return v
}

// phaseOf returns the phase for a state; none for none.
func phaseOf(state string) string {
	if state == "" {
		return ""
	}
	return camel(state)
}

func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}

// refused returns a status that says why a job was refused. If the condition's status
// is Unknown, the job may still be accepted.
func refused(old *v1alpha1.TrainingJob, why *refusal, status metav1.ConditionStatus, now time.Time) v1alpha1.TrainingJobStatus {
	s := *old.Status.DeepCopy()
	s.State, s.Why, s.Brief, s.ObservedGeneration = v1alpha1.Refused, cut(why.message), brief(why.message), old.Generation
	switch {
	case why.reason == reasonSuspended:
		s.State = api.Paused
	case status == metav1.ConditionUnknown:
		s.State = api.Waiting
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: v1alpha1.Accepted, Status: status, Reason: why.reason, Message: cut(why.message),
		ObservedGeneration: old.Generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
	return s
}

// sameStatus reports whether there is nothing to write.
func sameStatus(a, b *v1alpha1.TrainingJobStatus) bool { return equality.Semantic.DeepEqual(a, b) }

// urgent reports whether people wait for a change. Texts that change all the time are
// not urgent.
func urgent(a, b *v1alpha1.TrainingJobStatus) bool {
	if a.State != b.State || a.ID != b.ID || a.Attempt != b.Attempt || a.ObservedGeneration != b.ObservedGeneration {
		return true
	}
	reason := func(s *v1alpha1.TrainingJobStatus, kind string) (string, string) {
		c := meta.FindStatusCondition(s.Conditions, kind)
		if c == nil {
			return "", ""
		}
		return c.Reason, c.Message
	}
	was, text := reason(a, v1alpha1.Accepted)
	is, now := reason(b, v1alpha1.Accepted)
	if was != is || text != now {
		return true
	}
	was, _ = reason(a, v1alpha1.Running)
	is, _ = reason(b, v1alpha1.Running)
	// The first decision about a job, and that it can never run, are urgent.
	return was != is && (was == "New" || is == "Impossible" || was == "Impossible")
}
