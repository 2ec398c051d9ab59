// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// trainingJob updates the state from a training job, and the status of the training job
// from the state.
func (m *Mirror) trainingJob(ctx context.Context, k key) error {
	from := origin(k.kind, k.namespace, k.name)
	var job v1alpha1.TrainingJob
	err := read(ctx, m, k.at(), &job, func(uid string) bool {
		id, _ := m.index.job(uid)
		return len(m.index.others(from, id)) > 0
	})
	switch {
	case apierrors.IsNotFound(err) || err == nil && job.DeletionTimestamp != nil:
		return m.gone(ctx, k, from)
	case err != nil:
		return fmt.Errorf("read training job: %w", err)
	}
	id, known := m.index.job(string(job.UID))
	if err := m.cancel(ctx, m.index.others(from, id)); err != nil { // jobs of an earlier object with this name
		return err
	}
	suspended, err := m.suspended(ctx, &job)
	if err != nil {
		return err
	}
	if !known {
		if api.HasEnded(job.Status.State) { // long ago, and the state has forgotten it
			if err := m.writeJob(ctx, k, &job, job.Status); err != nil { // an older operator wrote no phase
				return err
			}
			return m.expire(ctx, k, &job)
		}
		if suspended {
			why := &refusal{reasonSuspended, "suspended: it will be submitted when suspend is false"}
			return m.writeJob(ctx, k, &job, refused(&job, why, metav1.ConditionUnknown, m.Now()))
		}
		if id, err = m.submitFound(ctx, &job); apierrors.IsNotFound(err) {
			return m.gone(ctx, k, from)
		}
		if err != nil {
			return m.refuse(ctx, k, &job, err)
		}
	}
	view, err := m.State.Job(cluster, id)
	if api.CodeOf(err) == api.Unknown && err != nil {
		return m.expire(ctx, k, &job) // it has ended, and the state has forgotten it
	}
	if err != nil {
		return err
	}
	if view, err = m.pause(ctx, view, suspended); err != nil {
		return err
	}
	if api.HasEnded(view.State) {
		m.dropConstraint(from)
	} else if known {
		if _, err := m.selectorFor(ctx, from, constraintPod(&job.Spec), &view.Selector); err != nil {
			return err
		}
	}
	m.requeue(k, &view)
	if m.transient(&view) {
		return nil // the next state follows at once: one write instead of two
	}
	s := statusOf(&view, &job, m.Now())
	m.setSharing(&s.Conditions, job.Spec.Share != nil && job.Spec.Share.Allow && !api.HasEnded(view.State), job.Generation, m.Now())
	if err := m.writeJob(ctx, k, &job, s); err != nil || !api.HasEnded(view.State) {
		return err
	}
	return m.expire(ctx, k, &job)
}

// expire deletes a training job that has ended if its time is over. Its status, as read,
// says when it ended: so everybody who watches the job has seen the end.
func (m *Mirror) expire(ctx context.Context, k key, job *v1alpha1.TrainingJob) error {
	ttl, ended := job.Spec.TTLSecondsAfterFinished, job.Status.CompletionTime
	if ttl == nil || ended == nil || !api.HasEnded(job.Status.State) {
		return nil
	}
	if wait := ended.Add(time.Duration(*ttl) * time.Second).Sub(m.Now()); wait > 0 {
		m.queue.AddAfter(k, wait)
		return nil
	}
	err := m.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete a training job that has ended: %w", err)
	}
	return nil
}

// read reads an object from the cache. If the state has jobs for another object of that
// name, it reads from the API server instead: the cache may be behind the submission,
// and jobs without an object are cancelled.
func read[T any, O interface {
	*T
	client.Object
}](ctx context.Context, m *Mirror, at client.ObjectKey, o O, otherJobs func(uid string) bool) error {
	err := m.Cache.Get(ctx, at, o)
	if client.IgnoreNotFound(err) != nil || !otherJobs(string(o.GetUID())) {
		return err
	}
	*o = *new(T)
	return m.Client.Get(ctx, at, o)
}

// undecided reports whether no policy has considered a job yet.
func undecided(job *api.Job) bool { return job.Reason != nil && job.Reason.Code == "new" }

// transient reports whether a job is in a state that it usually leaves at once: new, or
// starting.
func (m *Mirror) transient(job *api.Job) bool {
	const soon = 5 // times the gap
	switch {
	case undecided(job):
		return m.Now().Sub(job.Submitted) < soon*m.Gap
	case job.State == api.Starting:
		return m.Now().Sub(job.Status.Since) < soon*m.Gap
	}
	return false
}

// requeue reconciles a job again for changes that leave no record: the first decision
// about it, and the start of its pods (if Started does not report it first).
func (m *Mirror) requeue(k key, job *api.Job) {
	switch {
	case job.State == api.Starting:
		m.queue.AddAfter(k, 5*m.Gap)
	case undecided(job):
		m.queue.AddAfter(k, m.Gap/2)
	}
}

// Started reconciles the object of a job whose pods are up.
func (m *Mirror) Started(id sched.JobID) {
	if from := m.index.originOf(id); from != "" {
		m.enqueue(from)
	}
}

// gone cancels the jobs of an object that no longer exists.
func (m *Mirror) gone(ctx context.Context, k key, from string) error {
	m.mu.Lock()
	delete(m.written, k)
	delete(m.turns, k)
	m.mu.Unlock()
	if err := m.cancel(ctx, m.index.others(from, "")); err != nil {
		return err
	}
	m.index.forget(from)
	m.dropConstraint(from)
	return nil
}

// cancel cancels jobs. A job that has ended in the meantime is not an error.
func (m *Mirror) cancel(ctx context.Context, ids []sched.JobID) error {
	for _, id := range ids {
		_, err := m.State.Command(ctx, cluster, id, api.Cancel)
		if code := api.CodeOf(err); err != nil && code != api.Conflict && code != api.Unknown {
			return fmt.Errorf("cancel job %s: %w", id, err)
		}
		m.enqueueTenant(m.index.tenantOf(id)) // the record may come when the index has forgotten the job
		m.index.end(id)
	}
	return nil
}

// suspended reports whether a job or its app is suspended.
func (m *Mirror) suspended(ctx context.Context, job *v1alpha1.TrainingJob) (bool, error) {
	if job.Spec.Suspend || job.Spec.App == "" {
		return job.Spec.Suspend, nil
	}
	var app v1alpha1.App
	err := m.Cache.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: job.Spec.App}, &app)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return app.Spec.Suspend, err
}

// identityOf returns the identity under which the job of an object is submitted.
func identityOf(o client.Object, tenant sched.TenantID) api.Identity {
	user := o.GetAnnotations()[v1alpha1.AnnotationUser]
	if user == "" || len(user) > 100 || strings.ContainsFunc(user, func(r rune) bool { return !unicode.IsPrint(r) }) {
		user = "namespace/" + o.GetNamespace()
	}
	return api.Identity{User: user, Tenant: tenant, Role: api.User, Owner: nobody}
}

// submission returns what a training job asks for, with its tenant and user.
func (m *Mirror) submission(ctx context.Context, job *v1alpha1.TrainingJob) (api.Submission, error) {
	tenant, err := m.tenantFor(ctx, job.Namespace, job.Spec.Tenant)
	if err != nil {
		return api.Submission{}, err
	}
	if err := m.checkResource("spec", &job.Spec); err != nil {
		return api.Submission{}, err
	}
	s, err := submissionOf(job)
	if err != nil {
		return s, err
	}
	s.Tenant = tenant
	pod, err := m.admitted(ctx, gangPod(&job.Spec))
	if err != nil {
		return s, err
	}
	s.CPUs, s.Memory = perGPU(pod, int64(perPod(&job.Spec)))
	if err := m.prioritise(ctx, &s, gangPod(&job.Spec).PriorityClassName); err != nil {
		return s, err
	}
	s.Selector, err = m.selectorFor(ctx, s.Origin, constraintPod(&job.Spec), nil)
	return s, err
}

// submit hands jobs to the state and indexes them by their objects.
func (m *Mirror) submit(ctx context.Context, who api.Identity, list []api.Submission) ([]api.Job, error) {
	jobs, err := m.State.Submit(ctx, who, list)
	for i := range jobs {
		m.index.put(state.Mirrored{ID: jobs[i].ID, Tenant: jobs[i].Tenant, Origin: list[i].Origin, Key: list[i].Key, Ended: api.HasEnded(jobs[i].State)})
	}
	return jobs, err
}

// submitFound submits the job of an object that the state does not know. If the object has a
// key, the request that made it may be about to submit it, or to be refused and delete it.
func (m *Mirror) submitFound(ctx context.Context, job *v1alpha1.TrainingJob) (sched.JobID, error) {
	if names := keyed([]*v1alpha1.TrainingJob{job}); len(names) > 0 {
		release, err := m.claims.take(ctx, names...)
		if err != nil {
			return "", err
		}
		defer release()
		var now v1alpha1.TrainingJob
		if err := m.Client.Get(ctx, names[0], &now); err != nil {
			return "", err
		}
		if now.UID != job.UID {
			return "", errRequeue // the cache is behind
		}
	}
	s, err := m.submission(ctx, job)
	if err == nil {
		err = m.depend(ctx, job.Namespace, &s, nil)
	}
	if err != nil {
		return "", err
	}
	return m.submitOne(ctx, job, s)
}

// submitOne submits the job of an object as the user of the object.
func (m *Mirror) submitOne(ctx context.Context, o client.Object, s api.Submission) (sched.JobID, error) {
	jobs, err := m.submit(ctx, identityOf(o, s.Tenant), []api.Submission{s})
	if err != nil {
		return "", err
	}
	return jobs[0].ID, nil
}

func (m *Mirror) tenantFor(ctx context.Context, namespace, asked string) (sched.TenantID, error) {
	var tenants v1alpha1.TenantList
	if err := m.Cache.List(ctx, &tenants, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list tenants: %w", err)
	}
	return tenantOf(tenants.Items, namespace, asked)
}

// refuse writes why a job was refused. A refusal that may be temporary is retried.
func (m *Mirror) refuse(ctx context.Context, k key, job *v1alpha1.TrainingJob, err error) error {
	why, final := refusalOf(err)
	if why == nil {
		return err
	}
	status := metav1.ConditionFalse
	if !final {
		status = metav1.ConditionUnknown
	}
	if err := m.writeJob(ctx, k, job, refused(job, why, status, m.Now())); err != nil {
		return err
	}
	if !final {
		return errRequeue
	}
	return nil
}

// refusalOf returns the refusal that an error is to the owner of the object; nil: the
// owner can do nothing about it. A refusal that is not final may go away by itself.
func refusalOf(err error) (why *refusal, final bool) {
	if errors.As(err, &why) {
		return why, !errors.Is(err, errRequeue)
	}
	var e *api.Error
	if !errors.As(err, &e) {
		return nil, false
	}
	switch e.Code {
	case api.Invalid, api.Denied, api.Conflict, api.TooLarge:
		return &refusal{camel(string(e.Code)), refusalText(e)}, true
	case api.TooMany:
		return &refusal{camel(string(e.Code)), refusalText(e)}, false
	case api.Unavailable:
		if e.Field != "" { // it is about the object, and not about the API server
			return &refusal{camel(string(e.Code)), refusalText(e)}, false
		}
	}
	return nil, false
}

// suspendActor is the user that pauses suspended jobs. Jobs that somebody else paused
// are not resumed.
const suspendActor = "spec.suspend"

// pause pauses or resumes a job as its suspend field says.
func (m *Mirror) pause(ctx context.Context, job api.Job, suspended bool) (api.Job, error) {
	who := cluster
	who.User = suspendActor
	switch {
	case api.HasEnded(job.State), job.Reason != nil && job.Reason.Code == api.WaitsForJobs: // it is paused when it queues
		return job, nil
	case suspended && job.PausedBy == "":
		return m.State.Command(ctx, who, job.ID, api.Pause)
	case !suspended && job.PausedBy == suspendActor:
		return m.State.Command(ctx, who, job.ID, api.Resume)
	}
	return job, nil
}

// writeJob writes the status of a training job if it differs, and emits events for what
// went wrong. What goes as it should is in the conditions, with its time: an event would
// be one more write for every start and every end.
func (m *Mirror) writeJob(ctx context.Context, k key, job *v1alpha1.TrainingJob, s v1alpha1.TrainingJobStatus) error {
	s.Phase = phaseOf(s.State)
	if sameStatus(&job.Status, &s) {
		m.returnTurn(k)
		return nil
	}
	next := job.DeepCopy()
	next.Status = s
	done, err := m.write(ctx, k, job, next, urgent(&job.Status, &s))
	if !done || err != nil {
		return err
	}
	for kind, wrong := range map[string]metav1.ConditionStatus{v1alpha1.Accepted: metav1.ConditionFalse, v1alpha1.Failed: metav1.ConditionTrue} {
		is := meta.FindStatusCondition(s.Conditions, kind)
		if is != nil && is.Status == wrong && !meta.IsStatusConditionPresentAndEqual(job.Status.Conditions, kind, wrong) {
			m.Event(job, "Warning", is.Reason, is.Message)
		}
	}
	return nil
}
