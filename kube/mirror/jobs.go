// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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

// Jobs is the job service of a cluster. Submitting a job file creates a TrainingJob, so
// that a job looks the same however it arrived; the state serves everything else. Jobs
// is for users: searches submit their trials to the state directly.
type Jobs struct {
	api.Jobs // the state
	Mirror   *Mirror
	// Image is the container image of jobs that name none; empty: they must name one.
	Image string
}

var _ api.Jobs = Jobs{}

// Submit implements api.Jobs: all jobs are accepted, or none. It creates an object for
// each job and submits all of them in one write, keyed by the UIDs of the objects. The
// mirror sees the objects later and submits them under the same keys, which changes
// nothing unless this process died in between.
func (s Jobs) Submit(ctx context.Context, who api.Identity, list []api.Submission) ([]api.Job, error) {
	if err := api.MaySubmit(who, len(list)); err != nil {
		return nil, err
	}
	objects, names := make([]*v1alpha1.TrainingJob, len(list)), map[string]string{}
	for i := range list {
		var err error
		if objects[i], err = s.object(ctx, who, &list[i]); err == nil {
			err = s.nameDependencies(who, objects[i], names)
		}
		if err != nil {
			return nil, api.InList(err, i, len(list))
		}
		names[list[i].Name] = objects[i].Name
	}
	release, err := s.Mirror.claims.take(ctx, keyed(objects)...)
	if err != nil {
		return nil, api.Errorf(api.Unavailable, "submit: %w", err)
	}
	defer release()
	var created []client.Object
	for i, o := range objects {
		made, err := s.create(ctx, o)
		if made {
			created = append(created, o)
		}
		if err != nil {
			return nil, s.undo(ctx, api.InList(err, i, len(list)), created...)
		}
	}
	jobs, err := s.submit(ctx, who, objects)
	if err != nil {
		return nil, s.undo(ctx, err, created...)
	}
	return jobs, nil
}

// submit hands created objects to the state.
func (s Jobs) submit(ctx context.Context, who api.Identity, objects []*v1alpha1.TrainingJob) ([]api.Job, error) {
	list, before := make([]api.Submission, len(objects)), map[string]bool{}
	for i, o := range objects {
		var err error
		if list[i], err = s.Mirror.submission(ctx, o); err == nil {
			err = s.Mirror.depend(ctx, o.Namespace, &list[i], before)
		}
		if err != nil {
			return nil, api.InList(asError(err), i, len(objects))
		}
		before[o.Name] = true
	}
	who.Owner = nobody
	return s.Mirror.submit(ctx, who, list)
}

// asError returns a refusal as an error of the API.
func asError(err error) error {
	if why := (*refusal)(nil); errors.As(err, &why) {
		return api.Errorf(api.Invalid, "%s", why.message)
	}
	return err
}

// object returns the training job of a submission, checked as far as possible.
func (s Jobs) object(ctx context.Context, who api.Identity, sub *api.Submission) (*v1alpha1.TrainingJob, error) {
	check := *sub
	if err := check.Complete(); err != nil {
		return nil, err
	}
	if err := sub.ExpandRun(); err != nil {
		return nil, err
	}
	sub.Name, sub.Roles = check.Name, check.Roles // with the commands of their scripts
	switch {
	case len(sub.SecretValues)+len(sub.Secrets) > 0:
		return nil, api.Errorf(api.Invalid, "are not kept on Kubernetes").On("secrets").Try("create a Secret and name it in the pod template of a TrainingJob")
	case sub.Origin != "":
		return nil, api.Errorf(api.Invalid, "%.40q is set", sub.Origin).On("origin").Try("leave it out")
	case len(sub.Notify) > 0:
		return nil, api.Errorf(api.Invalid, "is not supported on Kubernetes: nothing there keeps undelivered notices when the leader changes").On("notify").Try("watch the conditions of the TrainingJob, or GET /v1/events/stream")
	case sub.Array != "":
		return nil, api.Errorf(api.Invalid, "is not supported on Kubernetes, where each job is an object of its own").On("array").Try("submit a search with a grid, or a file of several jobs")
	case sub.Image == "" && s.Image == "":
		return nil, api.Errorf(api.Invalid, "is empty").On("image").Try("name the container image to run the job in")
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
	for name, text := range map[string]string{v1alpha1.AnnotationKey: sub.Key, v1alpha1.AnnotationMovedFrom: sub.MovedFrom} {
		if text != "" {
			o.Annotations[name] = text
		}
	}
	if suspended, err := s.Mirror.suspended(ctx, o); err != nil || suspended {
		return nil, cmp.Or(err, error(api.Errorf(api.Conflict, "%s/%s is suspended", o.Namespace, o.Spec.App).On("app").Try("resume the app first")))
	}
	return o, nil
}

// namespace returns the namespace for the jobs of a tenant: the first in its spec or,
// if there is no such Tenant object, the one with the tenant's name.
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

// keyLetters is how many letters of an object's name stand for its key.
const keyLetters = 8

// objectName derives the name of an object from the name of the job and, if it has one,
// its key, so that a repeated request finds the same object.
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
	if word == "" || word[0] >= '0' && word[0] <= '9' { // the name of a service cannot begin with a digit
		word = "job" + strings.TrimSuffix("-"+word[:min(len(word), most-4)], "-")
	}
	tail := strings.ToLower(rand.Text()[:6])
	if sub.Key != "" {
		hash := sha256.Sum256([]byte(string(tenant) + "\x00" + sub.Key))
		tail = hex.EncodeToString(hash[:keyLetters/2])
	}
	return word + "-" + tail
}

// create creates the object, or finds the one that an earlier copy of the request
// created; made is false if it did not create it.
func (s Jobs) create(ctx context.Context, o *v1alpha1.TrainingJob) (made bool, err error) {
	sent := o.Annotations[v1alpha1.AnnotationKey]
	err = s.Mirror.Client.Create(ctx, o)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsAlreadyExists(err) && sent != "":
		if err := s.Mirror.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return false, api.Errorf(api.Unavailable, "read training job %s/%s: %w", o.Namespace, o.Name, err)
		}
		if o.Annotations[v1alpha1.AnnotationKey] != sent {
			return false, exists(o)
		}
		if _, known := s.Mirror.index.job(string(o.UID)); !known && api.HasEnded(o.Status.State) {
			return false, api.Errorf(api.Conflict, "training job %s/%s was submitted with this key and is %s", o.Namespace, o.Name, o.Status.State).On("key").Try("choose another key")
		}
		return false, nil
	}
	return false, refusedByCluster(err, o)
}

// refusedByCluster turns an error of the API server into one of Fairway's API.
func refusedByCluster(err error, o client.Object) error {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return api.Errorf(api.Invalid, "the API server rejected it: %w", err)
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return api.Errorf(api.Denied, "the API server rejected it in namespace %q: %w", o.GetNamespace(), err)
	case apierrors.IsRequestEntityTooLargeError(err):
		return api.Errorf(api.TooLarge, "too large for the API server: %w", err)
	}
	return api.Errorf(api.Unavailable, "write %s/%s: %w", o.GetNamespace(), o.GetName(), err)
}

// undo deletes the objects that a request created before it failed, and returns why it did.
// Objects with a key stay unless the request was refused: its sender repeats it, and the
// mirror may have submitted them.
func (s Jobs) undo(ctx context.Context, why error, objects ...client.Object) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, o := range slices.Backward(objects) {
		uid, key := o.GetUID(), o.GetAnnotations()[v1alpha1.AnnotationKey]
		if uid == "" || key != "" && api.CodeOf(why) == api.Unavailable {
			continue
		}
		err := s.Mirror.Client.Delete(ctx, o, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) == nil {
			continue
		}
		s.Mirror.Log.Warn("delete the object of a failed request", "namespace", o.GetNamespace(), "name", o.GetName(), "err", err)
		if key != "" { // it may run after all
			why = api.Errorf(api.Unavailable, "%w; and its object %s/%s could not be deleted: %w", why, o.GetNamespace(), o.GetName(), err)
		}
	}
	return why
}

// Command implements api.Jobs. Resuming lifts spec.suspend and takes off what a copy was
// moved from, which would otherwise pause the job again.
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
	if err != nil || who.Role < api.User || job.PausedBy != suspendActor && job.MovedFrom == "" {
		return err
	}
	parts := strings.SplitN(job.Origin, "/", 3)
	if len(parts) != 3 || parts[0] != kindTrainingJob {
		return nil
	}
	o := &v1alpha1.TrainingJob{}
	o.Namespace, o.Name = parts[1], parts[2]
	err = s.Mirror.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationMovedFrom+`":null}},"spec":{"suspend":false}}`)))
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
