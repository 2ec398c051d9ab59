// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// In an object, dependsOn names training jobs of the same namespace: names stay true when
// objects are applied together in any order, or to another cluster. In the state it names
// jobs by id.

// depend replaces the names of training jobs in what a submission depends on by the ids of
// their jobs. Those of together are submitted in the same request, and the state knows
// them by name. A training job that is not there yet is waited for.
func (m *Mirror) depend(ctx context.Context, namespace string, s *api.Submission, together map[string]bool) error {
	var list []string
	for _, text := range s.DependsOn {
		d, err := api.ParseDependency(text)
		if err != nil {
			return err
		}
		if d.Job == s.Name {
			return api.Errorf(api.Invalid, "names the job itself").On("spec.dependsOn").Try("name others")
		}
		if !together[d.Job] {
			name := d.Job
			if d.Job, err = m.dependency(ctx, client.ObjectKey{Namespace: namespace, Name: name}, d.Any); err != nil {
				return err
			}
		}
		if d.Job != "" {
			list = append(list, d.String())
		}
	}
	s.DependsOn = list
	return nil
}

// dependency returns the id of a training job's job; empty: it ended as it should long
// ago, and the state has forgotten it.
func (m *Mirror) dependency(ctx context.Context, at client.ObjectKey, anyEnd bool) (string, error) {
	if id := m.index.last(origin(kindTrainingJob, at.Namespace, at.Name)); id != "" {
		if _, err := m.State.Job(cluster, id); err == nil || api.CodeOf(err) != api.Unknown {
			return string(id), err
		}
	}
	notYet := func(what string) error {
		return errors.Join(&refusal{reasonDepends, fmt.Sprintf("spec.dependsOn: training job %s %s; it is waited for", at.Name, what)}, errRequeue)
	}
	var o v1alpha1.TrainingJob
	switch err := m.Cache.Get(ctx, at, &o); {
	case apierrors.IsNotFound(err):
		return "", notYet("does not exist in namespace " + at.Namespace)
	case err != nil:
		return "", fmt.Errorf("read training job %s: %w", at.Name, err)
	case !api.HasEnded(o.Status.State):
		return "", notYet("is not accepted yet")
	case o.Status.State != api.Finished && !anyEnd:
		return "", api.Errorf(api.Conflict, "%s cannot finish any more: it is %s", at.Name, o.Status.State).On("spec.dependsOn").Try(fmt.Sprintf("use %s:any if any end of it will do", at.Name))
	}
	return "", nil
}

// nameDependencies replaces what a submitted job depends on, in its object, by the names
// of the training jobs. Those of the same request before it are known by their names there.
func (s Jobs) nameDependencies(who api.Identity, o *v1alpha1.TrainingJob, before map[string]string) error {
	for i, text := range o.Spec.DependsOn {
		d, err := api.ParseDependency(text)
		if err != nil {
			return err
		}
		if name := before[d.Job]; name != "" {
			d.Job = name
		} else {
			job, err := s.Jobs.Job(who, sched.JobID(d.Job))
			if e := (*api.Error)(nil); errors.As(err, &e) {
				return e.On("depends_on")
			} else if err != nil {
				return err
			}
			name, ok := strings.CutPrefix(job.Origin, origin(kindTrainingJob, o.Namespace, ""))
			if !ok {
				return api.Errorf(api.Invalid, "%s is not a TrainingJob of namespace %s", job.ID, o.Namespace).On("depends_on").Try("name jobs of the same tenant that were submitted by the fairway command or as TrainingJobs")
			}
			d.Job = name
		}
		o.Spec.DependsOn[i] = d.String()
	}
	return nil
}
