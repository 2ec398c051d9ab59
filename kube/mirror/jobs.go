// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// Jobs is the service of jobs in a cluster. Submitting a job file makes a
// TrainingJob of it, so that a job looks the same however it came; everything else
// is the book's. It is for users: what runs searches submits trials to the book.
type Jobs struct {
	api.Jobs // the book
	Mirror   *Mirror
	// Image is the container image of jobs that name none; empty: they have to.
	Image string
	// Patience is how long Submit waits until the mirror has taken a job on; 0: 10 s.
	Patience time.Duration
}

var _ api.Jobs = Jobs{}

// Submit implements api.Jobs. An object for each job is created; if one is refused,
// those created before it are deleted.
func (s Jobs) Submit(ctx context.Context, who api.Identity, list []api.Submission) ([]api.Job, error) {
	if who.Role < api.User {
		return nil, api.Errorf(api.Denied, "%s has the role %s", who.User, who.Role).Try("ask for a token with the role user")
	}
	const most = 1000
	if len(list) == 0 || len(list) > most {
		return nil, api.Errorf(api.Invalid, "has %d entries", len(list)).On("jobs").Try(fmt.Sprintf("send 1 to %d", most))
	}
	objects := make([]*v1alpha1.TrainingJob, len(list))
	for i := range list {
		var err error
		if objects[i], err = s.object(ctx, who, &list[i]); err != nil {
			return nil, inList(err, i, len(list))
		}
	}
	for i, o := range objects {
		if err := s.create(ctx, o); err != nil {
			s.undo(ctx, objects[:i])
			return nil, inList(err, i, len(list))
		}
	}
	out := make([]api.Job, len(objects))
	for i, o := range objects {
		job, err := s.await(ctx, who, o)
		if err != nil {
			s.undo(ctx, objects)
			return nil, inList(err, i, len(list))
		}
		out[i] = job
	}
	return out, nil
}

// object returns the training job of a submission, checked as far as possible.
func (s Jobs) object(ctx context.Context, who api.Identity, sub *api.Submission) (*v1alpha1.TrainingJob, error) {
	check := *sub
	check.ID, check.GPUs = "new", max(check.GPUs, 1, check.MinGPUs)
	switch {
	case sub.ID != "":
		return nil, api.Errorf(api.Invalid, "%.40q was given", sub.ID).On("id").Try("leave it out: it is chosen for you; use name, or key to submit only once")
	case sub.Origin != "":
		return nil, api.Errorf(api.Invalid, "%.40q was given", sub.Origin).On("origin").Try("leave it out")
	case sub.Image == "" && s.Image == "":
		return nil, api.Errorf(api.Invalid, "is empty").On("image").Try("name the container image to run the job in")
	}
	if err := check.Validate(); err != nil {
		return nil, err
	}
	tenant := sub.Tenant
	if tenant == "" {
		tenant = who.Tenant
	}
	switch {
	case tenant != who.Tenant && who.Role != api.Admin:
		return nil, api.Errorf(api.Denied, "%s may not submit for tenant %q", who.User, tenant).On("tenant")
	case tenant == "":
		return nil, api.Errorf(api.Invalid, "is empty, and %s belongs to none", who.User).On("tenant").Try("name the tenant whose namespace the job goes to")
	}
	namespace, declared, err := s.namespace(ctx, tenant)
	if err != nil {
		return nil, err
	}
	o, err := objectOf(sub, s.Image)
	if err != nil {
		return nil, err
	}
	o.Namespace, o.Name = namespace, objectName(sub, tenant)
	o.Spec.Tenant = ""
	if declared {
		o.Spec.Tenant = string(tenant)
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[v1alpha1.AnnotationUser] = who.User
	if sub.Key != "" {
		o.Annotations[v1alpha1.AnnotationKey] = sub.Key
	}
	return o, nil
}

// namespace returns where the jobs of a tenant go: the first of its namespaces, or
// that of its name if nobody declared it.
func (s Jobs) namespace(ctx context.Context, tenant sched.TenantID) (name string, declared bool, err error) {
	var object v1alpha1.Tenant
	err = s.Mirror.Cache.Get(ctx, client.ObjectKey{Name: string(tenant)}, &object)
	switch {
	case apierrors.IsNotFound(err):
		return string(tenant), false, nil
	case err != nil:
		return "", false, api.Errorf(api.Unavailable, "read tenant %s: %w", tenant, err)
	case len(object.Spec.Namespaces) == 0:
		return "", false, api.Errorf(api.Conflict, "tenant %s has no namespace", tenant).Try("have an administrator name one in spec.namespaces")
	}
	return object.Spec.Namespaces[0], true, nil
}

// objectName makes the name of an object from the job's own, and from its key if it
// has one: the same request makes the same object.
func objectName(sub *api.Submission, tenant sched.TenantID) string {
	const most = 40
	word := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, sub.Name), "-")
	word = strings.Trim(word[:min(len(word), most)], "-")
	if word == "" || word[0] >= '0' && word[0] <= '9' { // a service cannot begin with a digit
		word = "job" + strings.TrimSuffix("-"+word[:min(len(word), most-4)], "-")
	}
	tail := strings.ToLower(rand.Text()[:6])
	if sub.Key != "" {
		hash := sha256.Sum256([]byte(string(tenant) + "\x00" + sub.Key))
		tail = hex.EncodeToString(hash[:4])
	}
	return word + "-" + tail
}

// create makes the object, or finds the one that the same request made before.
func (s Jobs) create(ctx context.Context, o *v1alpha1.TrainingJob) error {
	sent := o.Annotations[v1alpha1.AnnotationKey]
	err := s.Mirror.Client.Create(ctx, o)
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err) && sent != "":
		if err := s.Mirror.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return api.Errorf(api.Unavailable, "read training job %s/%s: %w", o.Namespace, o.Name, err)
		}
		if o.Annotations[v1alpha1.AnnotationKey] != sent {
			return api.Errorf(api.Conflict, "there is a training job %s/%s already", o.Namespace, o.Name).On("name").Try("choose another name")
		}
		return nil
	}
	return refusedByCluster(err, o)
}

// refusedByCluster says what the API server said.
func refusedByCluster(err error, o client.Object) error {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return api.Errorf(api.Invalid, "the cluster refuses it: %w", err)
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return api.Errorf(api.Denied, "the cluster refuses it in namespace %q: %w", o.GetNamespace(), err)
	case apierrors.IsRequestEntityTooLargeError(err):
		return api.Errorf(api.TooLarge, "it is too large for the cluster: %w", err)
	}
	return api.Errorf(api.Unavailable, "write %s/%s: %w", o.GetNamespace(), o.GetName(), err)
}

func (s Jobs) patience() time.Duration {
	if s.Patience == 0 {
		return 10 * time.Second
	}
	return s.Patience
}

// await waits until the mirror has taken an object on.
func (s Jobs) await(ctx context.Context, who api.Identity, o *v1alpha1.TrainingJob) (api.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if id, ok := s.Mirror.index.job(string(o.UID)); ok {
			return s.Jobs.Job(who, id)
		}
		var now v1alpha1.TrainingJob
		if err := s.Mirror.Cache.Get(ctx, client.ObjectKeyFromObject(o), &now); err == nil && now.UID == o.UID {
			for _, c := range now.Status.Conditions {
				if c.Type == v1alpha1.Accepted && c.Status == "False" {
					return api.Job{}, api.Errorf(api.Invalid, "%s", c.Message)
				}
			}
		}
		select {
		case <-ctx.Done():
			return api.Job{}, api.Errorf(api.Unavailable, "training job %s/%s was created and not looked at yet", o.Namespace, o.Name).Try("look at it with kubectl, or send the request again with a key")
		case <-tick.C:
		}
	}
}

// undo deletes objects that were created for a request which failed. Those with a
// key may be another request's.
func (s Jobs) undo(ctx context.Context, objects []*v1alpha1.TrainingJob) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, o := range slices.Backward(objects) {
		if o.UID == "" || o.Annotations[v1alpha1.AnnotationKey] != "" {
			continue
		}
		if err := s.Mirror.Client.Delete(ctx, o, client.Preconditions{UID: &o.UID}); client.IgnoreNotFound(err) != nil {
			s.Mirror.Log.Warn("delete the object of a failed request", "namespace", o.Namespace, "name", o.Name, "err", err)
		}
	}
}

// Command implements api.Jobs. Resuming lifts spec.suspend, which would otherwise
// pause the job again.
func (s Jobs) Command(ctx context.Context, who api.Identity, id sched.JobID, c api.Command) (api.Job, error) {
	if c == api.Resume {
		if err := s.unsuspend(ctx, who, id); err != nil {
			return api.Job{}, err
		}
	}
	return s.Jobs.Command(ctx, who, id, c)
}

func (s Jobs) unsuspend(ctx context.Context, who api.Identity, id sched.JobID) error {
	job, err := s.Jobs.Job(who, id)
	if err != nil || who.Role < api.User || job.PausedBy != suspendActor {
		return err
	}
	parts := strings.SplitN(job.Origin, "/", 3)
	if len(parts) != 3 || parts[0] != kindTrainingJob {
		return nil
	}
	o := &v1alpha1.TrainingJob{}
	o.Namespace, o.Name = parts[1], parts[2]
	err = s.Mirror.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`)))
	if client.IgnoreNotFound(err) != nil {
		return api.Errorf(api.Unavailable, "resume training job %s/%s: %w", o.Namespace, o.Name, err)
	}
	return nil
}

// CommandApp implements api.Jobs.
func (s Jobs) CommandApp(ctx context.Context, who api.Identity, app sched.AppID, c api.Command) ([]api.Job, error) {
	if c == api.Resume {
		page, err := s.Jobs.List(who, api.JobFilter{App: app, States: []string{api.Paused, api.Stopping}, Limit: api.MaxPage})
		if err != nil {
			return nil, err
		}
		for i := range page.Jobs {
			if err := s.unsuspend(ctx, who, page.Jobs[i].ID); err != nil {
				return nil, err
			}
		}
	}
	return s.Jobs.CommandApp(ctx, who, app, c)
}

// inList says which job of several is at fault.
func inList(err error, i, n int) error {
	if e, ok := err.(*api.Error); ok && n > 1 {
		c := *e
		c.Field = strings.TrimSuffix(fmt.Sprintf("jobs[%d].%s", i, e.Field), ".")
		return &c
	}
	return err
}

// Job implements api.Jobs.
func (s Jobs) Job(who api.Identity, id sched.JobID) (api.Job, error) {
	job, err := s.Jobs.Job(who, id)
	s.Mirror.inWords(&job)
	return job, err
}

// Explain implements api.Jobs.
func (s Jobs) Explain(who api.Identity, id sched.JobID) (api.Explanation, error) {
	e, err := s.Jobs.Explain(who, id)
	e.Summary = s.Mirror.worded(e.Job.Selector, e.Summary)
	s.Mirror.inWords(&e.Job)
	return e, err
}

// List implements api.Jobs.
func (s Jobs) List(who api.Identity, f api.JobFilter) (api.JobPage, error) {
	page, err := s.Jobs.List(who, f)
	for i := range page.Jobs {
		s.Mirror.inWords(&page.Jobs[i])
	}
	return page, err
}
