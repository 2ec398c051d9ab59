// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// attempt identifies one attempt of a job.
type attempt struct {
	job    string // its ID in Fairway
	number int
}

// story is the history of one pod.
type story struct {
	namespace, name string
	attempt         attempt // empty: it belongs to no training job
	rank            int
	role            string
	node            string
	gpus            int64
	chosen          string // the GPUs of its node that Fairway chose
	phase           corev1.PodPhase
	asked           bool // to stop, before it ended
	gone            bool
	version         string
}

// holds reports whether the pod holds its GPUs.
func (s *story) holds() bool {
	return s.node != "" && !s.gone && s.phase != corev1.PodSucceeded && s.phase != corev1.PodFailed
}

// ledger follows all pods of the cluster.
type ledger struct {
	client client.WithWatch
	// shared says that other schedulers place pods, too: a node may be over-committed
	// for a while, which is counted and is no failure.
	shared bool
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	pods    map[types.UID]*story
	onNode  map[string]map[types.UID]*story
	ofJob   map[string]map[types.UID]*story
	placed  map[string]string // by namespace/name: the node of the first pod of that name
	faults  []string
	crowded int // how often a node was over-committed in a shared cluster
	changes int
}

// follow starts a ledger.
func follow(t *testing.T, c client.WithWatch, shared bool) *ledger {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &ledger{
		client: c, stop: stop, shared: shared,
		pods: map[types.UID]*story{}, onNode: map[string]map[types.UID]*story{}, ofJob: map[string]map[types.UID]*story{}, placed: map[string]string{},
	}
	version, err := l.list(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l.done.Go(func() { l.run(ctx, version) })
	t.Cleanup(l.close)
	return l
}

func (l *ledger) close() {
	l.stop()
	l.done.Wait()
}

// run watches until the context ends. A broken watch resumes where it stopped.
func (l *ledger) run(ctx context.Context, version string) {
	for ctx.Err() == nil {
		next, err := l.watch(ctx, version)
		if next != "" {
			version = next
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			// Changes in between are lost; the present state counts.
			if fresh, err := l.list(ctx); err == nil {
				version = fresh
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// list records the present state of all pods.
func (l *ledger) list(ctx context.Context) (version string, err error) {
	var pods corev1.PodList
	if err := l.client.List(ctx, &pods); err != nil {
		return "", fmt.Errorf("list pods: %w", err)
	}
	there := map[types.UID]bool{}
	for i := range pods.Items {
		there[pods.Items[i].UID] = true
		l.note(&pods.Items[i], false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, s := range l.pods {
		if !there[id] {
			s.gone = true
			l.place(id, s)
		}
	}
	return pods.ResourceVersion, nil
}

func (l *ledger) watch(ctx context.Context, version string) (last string, err error) {
	w, err := l.client.Watch(ctx, &corev1.PodList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}})
	if err != nil {
		return "", err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		switch p := e.Object.(type) {
		case *corev1.Pod:
			last = p.ResourceVersion
			if e.Type != watch.Bookmark {
				l.note(p, e.Type == watch.Deleted)
			}
		case *metav1.Status:
			return last, apierrors.FromObject(p)
		}
	}
	return last, errors.New("the watch ended")
}

// note records a change of a pod.
func (l *ledger) note(p *corev1.Pod, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	s := l.pods[p.UID]
	if s == nil {
		s = &story{namespace: p.Namespace, name: p.Name, gpus: kubetest.Request(p, kubetest.GPU), chosen: p.Annotations[v1alpha1.AnnotationGPUs]}
		number, _ := strconv.Atoi(p.Labels[v1alpha1.LabelAttempt])
		if owner := metav1.GetControllerOf(p); s.gpus > 0 && owner != nil && strings.HasPrefix(owner.APIVersion, v1alpha1.GroupVersion.Group+"/") {
			s.attempt = attempt{p.Labels[v1alpha1.LabelID], number}
			s.rank, _ = strconv.Atoi(p.Labels[v1alpha1.LabelRank])
			s.role = p.Labels[v1alpha1.LabelRole]
		}
		l.pods[p.UID] = s
	}
	if p.DeletionTimestamp != nil && s.phase != corev1.PodSucceeded && s.phase != corev1.PodFailed {
		s.asked = true
	}
	s.node, s.phase, s.gone, s.version = p.Spec.NodeName, p.Status.Phase, gone, p.ResourceVersion
	l.place(p.UID, s)
	l.checkNode(s)
	l.checkJob(s)
}

// place updates the indexes: pods that hold GPUs, by node and by job.
func (l *ledger) place(id types.UID, s *story) {
	for _, x := range []struct {
		index map[string]map[types.UID]*story
		key   string
	}{{l.onNode, s.node}, {l.ofJob, s.attempt.job}} {
		if x.index[x.key] == nil {
			x.index[x.key] = map[types.UID]*story{}
		}
		delete(x.index[x.key], id)
		if s.holds() {
			x.index[x.key][id] = s
		}
	}
}

func (l *ledger) fault(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(l.faults) < 20 && !slices.Contains(l.faults, text) {
		l.faults = append(l.faults, text)
	}
}

// checkNode checks whether the node of a pod gives out more GPUs than it has.
func (l *ledger) checkNode(s *story) {
	if !s.holds() || !strings.HasPrefix(s.node, gpuNode+"-") {
		return
	}
	total := int64(0)
	taken := map[string]*story{}
	for _, other := range l.onNode[s.node] {
		total += other.gpus
		if other.attempt.job == "" {
			continue
		}
		for _, g := range expand(other.chosen) {
			if first := taken[g]; first != nil {
				l.fault("GPU %s of node %s is given to %s and to %s", g, s.node, first.name, other.name)
			}
			taken[g] = other
		}
	}
	switch {
	case total <= nodeGPUs:
	case l.shared:
		l.crowded++
	default:
		var names []string
		for _, other := range l.onNode[s.node] {
			names = append(names, fmt.Sprintf("%s=%d", other.name, other.gpus))
		}
		slices.Sort(names)
		l.fault("node %s gives out %d of %d GPUs: %v", s.node, total, nodeGPUs, names)
	}
}

// expand lists the numbers in a printed GPUSet, such as 0-2,5.
func expand(set string) []string {
	var out []string
	for part := range strings.SplitSeq(set, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		a, errA := strconv.Atoi(low)
		b, errB := strconv.Atoi(high)
		if errA != nil || errB != nil {
			continue
		}
		for ; a <= b; a++ {
			out = append(out, strconv.Itoa(a))
		}
	}
	return out
}

// checkJob checks whether the job of a pod runs twice.
func (l *ledger) checkJob(s *story) {
	if s.attempt.job == "" || s.node == "" {
		return
	}
	name := s.namespace + "/" + s.name
	if first, known := l.placed[name]; known && first != s.node {
		l.fault("pod %s was on node %s, and another of that name is on %s", name, first, s.node)
	}
	l.placed[name] = s.node
	if !s.holds() {
		return
	}
	for _, other := range l.ofJob[s.attempt.job] {
		if other.attempt.number != s.attempt.number {
			l.fault("job %s holds GPUs twice: as attempt %d (%s) and as attempt %d (%s)", s.attempt.job, s.attempt.number, s.name, other.attempt.number, other.name)
		}
	}
}

// catchUp waits until the ledger has the present state of all pods.
func (l *ledger) catchUp(t *testing.T) {
	t.Helper()
	eventually(t, "the ledger knows all pods", func() error {
		var pods corev1.PodList
		if err := l.client.List(t.Context(), &pods); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range pods.Items {
			if s := l.pods[pods.Items[i].UID]; s == nil || s.version != pods.Items[i].ResourceVersion {
				return fmt.Errorf("pod %s is behind", pods.Items[i].Name)
			}
		}
		return nil
	})
}

// attempts returns the pods of every attempt, by rank.
func (l *ledger) attempts() map[attempt][]*story {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[attempt][]*story{}
	for _, s := range l.pods {
		if s.attempt.job != "" {
			copied := *s
			out[s.attempt] = append(out[s.attempt], &copied)
		}
	}
	for a := range maps.Keys(out) {
		slices.SortFunc(out[a], func(x, y *story) int { return cmp.Compare(x.rank, y.rank) })
	}
	return out
}

// crowdedNow returns the nodes that are over-committed at this moment.
func (l *ledger) crowdedNow() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for node, pods := range l.onNode {
		total := int64(0)
		for _, s := range pods {
			total += s.gpus
		}
		if strings.HasPrefix(node, gpuNode+"-") && total > nodeGPUs {
			out = append(out, fmt.Sprintf("%s gives out %d of %d", node, total, nodeGPUs))
		}
	}
	slices.Sort(out)
	return out
}

// report fails the test with everything that was wrong at any moment.
func (l *ledger) report(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		t.Error("ledger: " + f)
	}
	t.Logf("ledger: %d changes of %d pods", l.changes, len(l.pods))
}
