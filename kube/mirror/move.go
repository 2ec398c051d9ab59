// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// Jobs move between clusters by way of Fairway's API: see docs/clusters.md. The operator
// orders every start in its journal, so handing a job over is one commit there, as on one
// machine, and the object follows: its status says where the job went. A copy says in its
// object what it was moved from, so that an operator that finds only the object submits it
// paused too.

// Preview implements api.Jobs: it refuses what Submit would refuse, and knows the nodes that
// the pods may use.
func (s Jobs) Preview(ctx context.Context, who api.Identity, sub api.Submission) (api.Preview, error) {
	if err := api.MaySubmit(who, 1); err != nil {
		return api.Preview{}, err
	}
	o, err := s.object(ctx, who, &sub)
	if err != nil {
		return api.Preview{}, err
	}
	known, err := s.holder(ctx, o)
	if err != nil {
		return api.Preview{}, err
	}
	o.Name = "(preview " + rand.Text() + ")" // no object can have it
	full, err := s.Mirror.submission(ctx, o)
	defer s.Mirror.dropConstraint(origin(kindTrainingJob, o.Namespace, o.Name))
	if err != nil {
		return api.Preview{}, asError(err)
	}
	out, err := s.Jobs.Preview(ctx, who, full)
	out.Known = known
	return out, err
}

// madeFrom returns the training job that a job was made from.
func (s Jobs) madeFrom(who api.Identity, id sched.JobID) (at client.ObjectKey, job api.Job, err error) {
	if job, err = s.Jobs.Job(who, id); err != nil {
		return at, job, err
	}
	parts := strings.SplitN(job.Origin, "/", 3)
	if len(parts) != 3 || parts[0] != kindTrainingJob {
		return at, job, api.Errorf(api.Conflict, "job %s was made from %s, which no other cluster has", id, cmp.Or(job.Origin, "nothing that is known"))
	}
	return client.ObjectKey{Namespace: parts[1], Name: parts[2]}, job, nil
}

// HandOver implements api.Jobs.
func (s Jobs) HandOver(ctx context.Context, who api.Identity, id sched.JobID, h api.Handover) (api.Job, error) {
	if _, _, err := s.madeFrom(who, id); err != nil {
		return api.Job{}, err
	}
	return s.Jobs.HandOver(ctx, who, id, h)
}

// Submission implements api.Jobs. The object says more than the state, and may say more than
// a submission can.
func (s Jobs) Submission(ctx context.Context, who api.Identity, id sched.JobID) (api.Submission, error) {
	at, job, err := s.madeFrom(who, id)
	if err != nil {
		return api.Submission{}, err
	}
	var o v1alpha1.TrainingJob
	if err := s.Mirror.Client.Get(ctx, at, &o); client.IgnoreNotFound(err) != nil {
		return api.Submission{}, api.Errorf(api.Unavailable, "read training job %s: %w", at, err)
	}
	if of, _ := s.Mirror.index.job(string(o.UID)); of != job.ID {
		return api.Submission{}, api.Errorf(api.Conflict, "training job %[2]s of job %[1]s was deleted", id, at)
	}
	out, err := repeat(&o)
	if err != nil {
		return out, err
	}
	out.Tenant, out.User = job.Tenant, job.User
	return out, nil
}

// repeat returns the submission that a training job could have been made from. To find out
// whether that says everything, it makes a training job from it.
func repeat(o *v1alpha1.TrainingJob) (api.Submission, error) {
	s, err := submissionOf(o)
	if err != nil {
		return s, asError(err)
	}
	have := o.Spec.DeepCopy()
	for _, t := range have.Templates() {
		plain(&t.Spec)
	}
	if perPod(have) == 1 {
		have.GPUsPerPod = nil
	}
	if have.GPUResource == string(request.UsualGPU) { // the API server fills it in
		have.GPUResource = ""
	}
	pod := &have.Templates()[0].Spec
	s.Selector = pod.NodeSelector[v1alpha1.LabelPool]
	s.Env = map[string]string{}
	for _, c := range pod.Containers[:min(1, len(pod.Containers))] {
		for _, v := range c.Env {
			s.Env[v.Name] = unescape(v.Value)
		}
	}
	s.Name, s.App = jobName(o), sched.AppID(o.Spec.App)
	s.Key, s.Origin, s.MovedFrom, s.DependsOn = "", "", "", nil
	again, err := specOf(&s, "")
	if err != nil {
		return s, err
	}
	// These say where and when it runs, or are said by the caller.
	have.Suspend, have.DependsOn = false, nil
	have.Tenant, again.Tenant = "", ""
	if at := difference("spec", asJSON(have), asJSON(&again)); at != "" {
		return s, api.Errorf(api.Conflict, "%s of training job %s/%s is more than a submission can say", at, o.Namespace, o.Name)
	}
	return s, nil
}

// plain writes a pod as the pods of submissions are written, where that means the same.
func plain(pod *corev1.PodSpec) {
	if len(pod.Containers) == 0 {
		return
	}
	c := &pod.Containers[0]
	c.Name = containerName
	if len(c.Command) > 0 {
		c.Command, c.Args = slices.Concat(c.Command, c.Args), nil
	}
	slices.SortStableFunc(c.Env, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	if memory, ok := c.Resources.Requests[corev1.ResourceMemory]; ok {
		c.Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(memory.Value(), resource.BinarySI)
	}
}

// jobName returns the name that a job was submitted with, as far as its object's name tells.
func jobName(o *v1alpha1.TrainingJob) string {
	if key := o.Annotations[v1alpha1.AnnotationKey]; key != "" {
		if i := strings.LastIndex(o.Name, "-"); i > 0 && len(o.Name)-i-1 == keyLetters {
			return o.Name[:i]
		}
	}
	return o.Name
}

func asJSON(v any) (out any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(fmt.Sprintf("a training job cannot be written as JSON: %v", err)) // its types can
	}
	return out
}

// difference returns where two JSON values first differ; empty: nowhere.
func difference(at string, a, b any) string {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		both := maps.Clone(x)
		maps.Copy(both, y)
		for _, name := range slices.Sorted(maps.Keys(both)) {
			if d := difference(at+"."+name, x[name], y[name]); d != "" {
				return d
			}
		}
		return ""
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		for i := range x {
			if d := difference(fmt.Sprintf("%s[%d]", at, i), x[i], y[i]); d != "" {
				return d
			}
		}
		return ""
	default:
		if a == b {
			return ""
		}
	}
	return at
}
