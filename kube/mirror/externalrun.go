// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/kube/workload"
	"github.com/fairway-gpu/fairway/sched"
)

// External runs attempts of external workloads. It starts them by
// lifting their suspension, and places them by binding their pods. The controllers of
// those kinds create, replace and count the pods.
type External struct {
	Mirror *Mirror
	Now    func() time.Time
}

// Start lifts the suspension and binds the pods that wait: nodes holds the node of each
// rank. It is called again until the attempt ends, because pods may be replaced.
func (f External) Start(ctx context.Context, a api.Attempt, nodes []string) error {
	job, err := f.job(ctx, a.Job)
	if err != nil {
		return err
	}
	if job.ended {
		f.Mirror.bound.forget(a.Job)
		return nil
	}
	if err := f.suspend(ctx, job, false); err != nil {
		return err
	}
	pods, err := f.pods(ctx, job)
	if err != nil {
		return err
	}
	if job.podsFirst && !whole(pods, job.pods) {
		return nil
	}
	for _, b := range bindings(f.Mirror.bound.fill(a.Job, pods), nodes, max(1, a.Spec.TaskGPUs)) {
		// The API server copies the annotations of a binding to the pod. They tell the
		// pod, and the server that its agent reports to, which attempt it belongs to.
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				v1alpha1.LabelID: string(a.Job), v1alpha1.LabelAttempt: strconv.Itoa(a.Number),
			}},
			Target: corev1.ObjectReference{Kind: "Node", Name: b.node},
		}
		err := f.Mirror.Client.SubResource("binding").Create(ctx, b.pod, binding)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("bind pod %s/%s to node %s: %w", b.pod.Namespace, b.pod.Name, b.node, err)
		}
		if err == nil {
			f.Mirror.bound.note(a.Job, b.pod.UID, b.node)
		}
	}
	return nil
}

// Stop suspends the object, and its controller deletes the pods.
func (f External) Stop(ctx context.Context, id api.AttemptID) error {
	job, err := f.job(ctx, id.Job)
	f.Mirror.bound.forget(id.Job)
	if apierrors.IsNotFound(err) {
		return nil // Kubernetes deletes its pods with it
	}
	if err != nil {
		return err
	}
	if job.ended {
		return nil
	}
	return f.suspend(ctx, job, true)
}

// State returns the progress of an attempt, as the cache shows it.
func (f External) State(id api.AttemptID) workload.External {
	ctx := context.Background()
	job, err := f.job(ctx, id.Job)
	if apierrors.IsNotFound(err) {
		return workload.External{Gone: true, Exit: &api.Exit{AttemptID: id, At: f.Now(), Code: 1, Noticed: true, Why: "its object was deleted"}}
	}
	if err != nil {
		return workload.External{}
	}
	list, err := f.pods(ctx, job)
	if err != nil {
		return workload.External{}
	}
	n := count(list, job.podsFirst)
	s := workload.External{Up: n.up >= job.pods, Gone: n.left == 0 && (job.ended || job.suspended), Waits: n.waits, Idle: n.idle}
	if !job.ended && (job.podsFirst || !job.suspended) {
		s.Missing = max(0, job.pods-n.existing)
	}
	switch {
	case job.ended:
		s.Exit = &api.Exit{AttemptID: id, At: f.Now()}
		if !job.succeeded {
			s.Exit.Code, s.Exit.Why = 1, cut(job.why)
		}
	case !s.Up:
		given, gpus := f.submittedSize(id.Job)
		why := outgrown(job.pods, given, n.most, gpus)
		// Pods that are added to a running gang stay pending and do not affect it.
		if s.Up = n.placed > 0 && n.up >= given && given > 0; !s.Up && why != "" && (n.placed == 0 || n.most > int64(gpus)) {
			s.Exit = &api.Exit{AttemptID: id, At: f.Now(), Code: 1, Why: why}
		}
	}
	return s
}

// tally counts the training pods by their progress.
type tally struct {
	existing int             // exist, ended or not, and are not being deleted
	placed   int             // have a node
	up       int             // run
	idle     int             // have no container that runs yet
	left     int             // pods, with or without GPUs, that may hold resources
	waits    *corev1.PodSpec // one that waits for a node; nil: none does
	most     int64           // GPUs that one of these requests, at most
}

func count(pods []*corev1.Pod, loose bool) (n tally) {
	for _, p := range pods {
		gpus, _ := podGPUs(&p.Spec)
		trains, stays := gpus > 0, p.DeletionTimestamp == nil
		if trains && stays {
			n.existing++
		}
		if trains && stays && request.Idle(p) {
			n.idle++
		}
		if trains && p.Spec.NodeName != "" {
			n.placed++
		}
		if trains && stays && p.Spec.NodeName == "" {
			n.waits, n.most = &p.Spec, max(n.most, gpus)
		}
		if request.Ended(p) || loose && p.Spec.NodeName == "" {
			continue
		}
		n.left++
		if trains && stays && p.Status.Phase == corev1.PodRunning {
			n.up++
		}
	}
	return n
}

// submittedSize returns the number of pods that a job was submitted with, and the GPUs of each;
// 0: unknown.
func (f External) submittedSize(id sched.JobID) (pods, gpus int) {
	view, err := f.Mirror.State.Job(cluster, id)
	if err != nil {
		return 0, 0
	}
	gpus = max(1, view.TaskGPUs)
	return view.GPUs / gpus, gpus
}

// outgrown says how a gang is larger than it was at submission; empty: it is not. It
// may have been changed while it was suspended, or the template of its runtime may ask
// for more. Its pods would take GPUs of other jobs, or some of them would wait forever.
func outgrown(pods, givenPods int, gpus int64, givenGPUs int) string {
	const mend = "; delete it and create it again"
	switch {
	case givenPods == 0:
	case gpus > int64(givenGPUs):
		return fmt.Sprintf("its pods request %d GPUs each, but it was submitted with %d%s", gpus, givenGPUs, mend)
	case pods > givenPods:
		return fmt.Sprintf("it is a gang of %d pods, but it was submitted with %d%s", pods, givenPods, mend)
	}
	return ""
}

// job returns the object that a job was made from.
func (f External) job(ctx context.Context, id sched.JobID) (*externalWorkload, error) {
	from := f.Mirror.index.originOf(id)
	if from == "" { // the index is behind
		view, err := f.Mirror.State.Job(cluster, id)
		if err != nil && api.CodeOf(err) != api.Unknown {
			return nil, fmt.Errorf("find the object of %s: %w", id, err)
		}
		from = view.Origin
	}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, string(id))
	parts := strings.SplitN(from, "/", 3)
	if len(parts) != 3 || !isExternal(parts[0]) {
		return nil, fmt.Errorf("find the object of %s: %w", id, gone)
	}
	job, err := f.Mirror.external(ctx, key{parts[0], parts[1], parts[2]})
	if err != nil {
		return nil, fmt.Errorf("find the object of %s: %w", id, err)
	}
	switch own, known := f.Mirror.index.job(string(job.GetUID())); {
	case !known:
		return nil, fmt.Errorf("find the object of %s: %w", id, errUnseen)
	case own != id:
		return nil, fmt.Errorf("find the object of %s: %w", id, gone)
	}
	return job, nil
}

func (f External) suspend(ctx context.Context, job *externalWorkload, to bool) error {
	switch {
	case job.suspended == to || job.podsFirst && !to:
		return nil
	case job.podsFirst:
		return f.release(ctx, job)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"suspend":%v}}`, job.GetUID(), to)
	if err := f.Mirror.Client.Patch(ctx, job.copied(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("set suspend of %s/%s to %v: %w", job.GetNamespace(), job.GetName(), to, err)
	}
	return nil
}

// podIndex is the cache index that finds the pods of an object. Without it, each object
// would scan all pods of its namespace.
const podIndex = "fairway-pods"

// IndexPods adds the index to a cache. It must be called once, before the cache starts.
func IndexPods(ctx context.Context, cache client.FieldIndexer) error {
	err := cache.IndexField(ctx, &corev1.Pod{}, podIndex, func(o client.Object) []string {
		var out []string
		for _, label := range []string{batchv1.JobNameLabel, jobSetLabel, rayClusterLabel} {
			if name := o.GetLabels()[label]; name != "" {
				out = append(out, label+"="+name)
			}
		}
		if p, ok := o.(*corev1.Pod); ok && groupOf(p) != "" {
			out = append(out, kindPodGroup+"="+groupOf(p))
		}
		return out
	})
	if err != nil {
		return fmt.Errorf("index pods: %w", err)
	}
	return nil
}

// podsWith selects pods by a label, or by their PodGroup.
func podsWith(label, value string) client.MatchingFields {
	return client.MatchingFields{podIndex: label + "=" + value}
}

// pods returns the pods of an object, in order of their index and name.
func (f External) pods(ctx context.Context, job *externalWorkload) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := f.Mirror.Cache.List(ctx, &list, client.InNamespace(job.GetNamespace()), job.selects)
	if err != nil {
		return nil, fmt.Errorf("list pods of %s/%s: %w", job.GetNamespace(), job.GetName(), err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if p := &list.Items[i]; job.owns(p) {
			out = append(out, p)
		}
	}
	index := func(p *corev1.Pod) int {
		n, _ := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
		return n
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(index(a), index(b)), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// binding is a pod and its node.
type binding struct {
	pod  *corev1.Pod
	node string
}

// bound remembers where pods were bound until the cache shows it: otherwise a pod that comes
// a moment later would be given the same place.
type bound struct {
	mu sync.Mutex
	at map[sched.JobID]map[types.UID]string // the node of each
}

func (b *bound) note(job sched.JobID, pod types.UID, node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == nil {
		b.at = map[sched.JobID]map[types.UID]string{}
	}
	if b.at[job] == nil {
		b.at[job] = map[types.UID]string{}
	}
	b.at[job][pod] = node
}

// fill returns the pods of a job as they are, not as the cache shows them.
func (b *bound) fill(job sched.JobID, pods []*corev1.Pod) []*corev1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := slices.Clone(pods)
	for i, p := range out {
		if node := b.at[job][p.UID]; node != "" && p.Spec.NodeName == "" {
			there := *p
			there.Spec.NodeName = node
			out[i] = &there
		}
	}
	return out
}

func (b *bound) forget(job sched.JobID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.at, job)
}

// bindings assigns the free places of a gang to its waiting pods, in order. A pod that
// has ended holds no place; a pod that is being deleted still does. A pod without GPUs,
// such as one that fetches data first, needs no place and goes to the first node. A pod
// that requests more GPUs than a place has is not bound.
func bindings(pods []*corev1.Pod, nodes []string, perPod int) []binding {
	free := slices.Clone(nodes)
	var waiting []*corev1.Pod
	var out []binding
	for _, p := range pods {
		gpus, _ := podGPUs(&p.Spec)
		ours := p.DeletionTimestamp == nil && p.Spec.SchedulerName == v1alpha1.SchedulerName
		switch {
		case gpus == 0:
			if ours && p.Spec.NodeName == "" && len(nodes) > 0 {
				out = append(out, binding{p, nodes[0]})
			}
		case request.Ended(p):
		case p.Spec.NodeName != "":
			if i := slices.Index(free, p.Spec.NodeName); i >= 0 {
				free = slices.Delete(free, i, i+1)
			}
		case ours && gpus <= int64(perPod):
			waiting = append(waiting, p)
		}
	}
	for i := range min(len(free), len(waiting)) {
		out = append(out, binding{waiting[i], free[i]})
	}
	return out
}
