// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor/executortest"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/journal"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/nodeagent"
	"github.com/fairway-gpu/fairway/kube/nodes"
	"github.com/fairway-gpu/fairway/kube/pods"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/kube/workload"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

var shared = kubetest.Shared{Options: kubetest.Options{KWOK: true}}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // without a logger, clients print a warning
	os.Exit(shared.Main(m))
}

var (
	worlds  atomic.Int32
	install sync.Once
)

// world is a cluster, a state and an executor, which can crash and restart.
type world struct {
	t         testing.TB
	cluster   *kubetest.Cluster
	client    client.Client
	scheme    *runtime.Scheme
	namespace string
	prefix    string // of its nodes
	config    func(*pods.Config)
	connect   func(*nodeagent.Hub) // lets the agent of the node speak to a new operator

	mu      sync.Mutex
	state   *state.Store
	jobs    map[string]map[string]string // annotations of the pods, by name of the job
	image   map[string]string
	names   map[sched.JobID]string
	pods    map[types.UID]*corev1.Pod // as seen by the test's own watch
	started map[sched.JobID]map[types.UID]bool
	boots   int
	stop    func()

	constraints *constraint.Registry
}

// newWorld creates a namespace and nodes for the test.
func newWorld(t testing.TB, spec kubetest.NodeSpec, config func(*pods.Config)) *world {
	t.Helper()
	return newWorldWith(t, spec, config, nil)
}

func newWorldWith(t testing.TB, spec kubetest.NodeSpec, config func(*pods.Config), connect func(*nodeagent.Hub)) *world {
	t.Helper()
	c := shared.Cluster(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	install.Do(func() {
		o := envtest.CRDInstallOptions{Paths: []string{"../../deploy/chart/crds/fairway.dev_journalpages.yaml"}, ErrorIfPathMissing: true}
		if _, err := envtest.InstallCRDs(c.Admin(), o); err != nil {
			t.Fatal(err)
		}
	})
	direct, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	number := worlds.Add(1)
	w := &world{
		t: t, cluster: c, client: direct, scheme: scheme, namespace: fmt.Sprintf("world-%d", number), prefix: fmt.Sprintf("w%d", number),
		config: config, connect: connect, jobs: map[string]map[string]string{}, image: map[string]string{}, names: map[sched.JobID]string{},
		pods: map[types.UID]*corev1.Pod{}, started: map[sched.JobID]map[types.UID]bool{},
	}
	if err := c.Namespace(t.Context(), w.namespace); err != nil {
		t.Fatal(err)
	}
	spec.Prefix = w.prefix
	if err := c.AddNodes(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	w.watch()
	w.boot()
	t.Cleanup(func() {
		w.stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		zero := client.GracePeriodSeconds(0)
		for _, o := range []client.Object{&corev1.Pod{}, &corev1.Node{}} {
			opts := []client.DeleteAllOfOption{zero}
			if _, ok := o.(*corev1.Pod); ok {
				opts = append(opts, client.InNamespace(w.namespace))
			}
			if err := direct.DeleteAllOf(ctx, o, opts...); err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

func (w *world) startCache(ctx context.Context, o cache.Options) cache.Cache {
	w.t.Helper()
	o.Scheme = w.scheme
	c, err := cache.New(w.cluster.Admin(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	go func() { _ = c.Start(ctx) }()
	return c
}

// watch follows the pods of the world, independently of the executor.
func (w *world) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	c := w.startCache(ctx, cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}})
	informer, err := c.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		w.t.Fatal(err)
	}
	see := func(o any) {
		p := o.(*corev1.Pod)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pods[p.UID] = p
		if p.Labels[v1alpha1.LabelRank] == "0" && p.Spec.NodeName != "" {
			id := sched.JobID(p.Labels[v1alpha1.LabelID])
			if w.started[id] == nil {
				w.started[id] = map[types.UID]bool{}
			}
			w.started[id][p.UID] = true
		}
	}
	handler := toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }, DeleteFunc: func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.pods, o.(*corev1.Pod).UID)
	}}
	if _, err := informer.AddEventHandler(handler); err != nil {
		w.t.Fatal(err)
	}
}

// boot starts an operator.
func (w *world) boot() { w.bootWith(false) }

// bootBlind starts an operator whose state receives no updates about nodes.
func (w *world) bootBlind() { w.bootWith(true) }

func (w *world) bootWith(blind bool) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.boots++
	pages, err := journal.Open(ctx, journal.Config{Pages: journal.Objects{Client: w.client, Namespace: w.namespace}, Leader: strconv.Itoa(w.boots)})
	if err != nil {
		w.t.Fatal(err)
	}
	failures, err := diagnose.Builtin()
	if err != nil {
		w.t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		quiet = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	b, err := state.Open(ctx, state.Config{
		Journal: pages, Policies: policy.Builtin(), Standard: "fifo", Key: []byte("key"), Now: time.Now, Log: quiet, Failures: failures,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.state = b
	w.mu.Unlock()
	c := w.startCache(ctx, cache.Options{})
	config := pods.Config{Client: w.client, Cache: c, Templates: w, API: "http://fairway", Replicas: nodes.Replicas, MPS: nodes.MPS, Pin: true, Log: quiet, LostAfter: 3 * time.Second, Confirm: pages.Confirm}
	if w.config != nil {
		w.config(&config)
	}
	grace := 2 * time.Second
	if config.LostAfter < grace {
		grace = time.Minute // the executor should be the first to count pods as gone
	}
	able := func(string) (bool, string) { return false, "no agent" }
	if config.Hands != nil {
		able = config.Hands.Able
	}
	watcher := nodes.New(nodes.Config{Cache: c, State: b, Log: quiet, Pin: true, Grace: grace, Able: able})
	w.constraints = watcher.Constraints
	executor := pods.New(config)
	if hub, ok := config.Hands.(*nodeagent.Hub); ok {
		hub.Changed = func() { watcher.Recheck(); executor.Recheck() }
		w.connect(hub)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if blind {
			return
		}
		if err := watcher.Run(ctx); err != nil && ctx.Err() == nil {
			w.t.Error(err)
		}
	})
	running.Go(func() {
		if err := executor.Run(ctx, b); err != nil && ctx.Err() == nil {
			w.t.Error(err)
		}
	})
	w.stop = func() { cancel(); running.Wait(); b.Close() }
	w.wait("the nodes are known", func() bool {
		s, err := b.Snapshot(ctx)
		return err == nil && s.Cluster.GPUs() > 0 && (blind || config.Hands == nil || s.Cluster.Nodes[0].Suspend)
	})
}

// patience is how long a test waits for something that is quick on an idle machine.
const patience = 3 * time.Minute

func (w *world) wait(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within %s; pods: %v", what, patience, w.text())
		}
	}
}

// catchUp waits until the test's own watch, which may be behind the operator's, has
// seen the present pods.
func (w *world) catchUp() {
	w.t.Helper()
	w.wait("the test sees all pods as they are", func() bool {
		list := &corev1.PodList{}
		if err := w.client.List(w.t.Context(), list, client.InNamespace(w.namespace)); err != nil {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range list.Items {
			if p := w.pods[list.Items[i].UID]; p == nil || p.ResourceVersion != list.Items[i].ResourceVersion {
				return false
			}
		}
		return len(list.Items) == len(w.pods)
	})
}

func (w *world) text() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, p := range w.pods {
		out = append(out, fmt.Sprintf("%s on %q %s %s", p.Name, p.Spec.NodeName, p.Status.Phase, p.Annotations[v1alpha1.AnnotationGPUs]))
	}
	return out
}

// selector is an annotation with the value that the node's label "disk" must have.
const selector = "test/disk"

// probe is an annotation of pods that have a liveness probe.
const probe = "test/probe"

// port is an annotation with a port of the node that a pod listens on.
const port = "test/port"

// Template implements pods.Templates.
func (w *world) Template(_ context.Context, a api.Attempt) (workload.Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := a.Task.Name
	annotations, ok := w.jobs[name]
	if !ok {
		return workload.Pod{}, pods.ErrGone
	}
	image := w.image[name]
	if image == "" {
		image = "trainer"
	}
	var chooses map[string]string
	if disk, ok := annotations[selector]; ok {
		chooses = map[string]string{"disk": disk}
	}
	trainer := corev1.Container{Name: "trainer", Image: image}
	if annotations[probe] != "" {
		trainer.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	}
	if number, err := strconv.Atoi(annotations[port]); err == nil {
		trainer.Ports = []corev1.ContainerPort{{ContainerPort: int32(number), HostPort: int32(number)}}
	}
	spec := corev1.PodSpec{NodeSelector: chooses, Containers: []corev1.Container{trainer}}
	var templates []corev1.PodTemplateSpec
	for i := range max(1, len(a.Task.Roles)) {
		own := spec.DeepCopy()
		if len(a.Task.Roles) > 0 {
			own.Containers[0].Image = a.Task.Roles[i].Name
		}
		templates = append(templates, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: maps.Clone(annotations)}, Spec: *own})
	}
	return workload.Pod{
		Templates: templates,
		Owner:     metav1.OwnerReference{APIVersion: "fairway.dev/v1alpha1", Kind: "TrainingJob", Name: name, UID: types.UID(name)},
		Namespace: w.namespace, Name: name, GPUResource: kubetest.GPU,
	}, nil
}

var admin = api.Identity{User: "root", Role: api.Admin, Tenant: "default"}

func (w *world) now() *state.Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// submit submits a job whose pods have annotations.
func (w *world) submit(spec sched.Spec, annotations map[string]string) sched.JobID {
	w.t.Helper()
	return w.submitAs(spec, nil, annotations, new(true))
}

// submitPlain submits a job that would lose work if it were stopped.
func (w *world) submitPlain(spec sched.Spec, annotations map[string]string) sched.JobID {
	w.t.Helper()
	return w.submitAs(spec, nil, annotations, nil)
}

func (w *world) submitAs(spec sched.Spec, roles []api.JobRole, annotations map[string]string, preemptible *bool) sched.JobID {
	w.t.Helper()
	w.mu.Lock()
	name := fmt.Sprintf("job%d", len(w.jobs))
	w.jobs[name] = annotations
	w.mu.Unlock()
	task := api.Task{Name: name, Command: []string{"train"}, Origin: "TrainingJob/" + w.namespace + "/" + name, GracePeriod: sched.Duration(20 * time.Second), Preemptible: preemptible, Roles: roles}
	jobs, err := w.now().Submit(w.t.Context(), admin, []api.Submission{{Spec: spec, Task: task}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[jobs[0].ID] = name
	return jobs[0].ID
}

func (w *world) Backend() loop.Backend { return w.now() }

func (w *world) Submit(t *testing.T, j executortest.Job) sched.JobID {
	t.Helper()
	annotations := map[string]string{}
	if j.Linger > 0 {
		annotations[kubetest.StopAfter] = j.Linger.String()
	}
	if j.Plain {
		return w.submitPlain(j.Spec, annotations)
	}
	return w.submit(j.Spec, annotations)
}

func (w *world) Cancel(t *testing.T, id sched.JobID) {
	t.Helper()
	if _, err := w.now().Command(t.Context(), admin, id, api.Cancel); err != nil {
		t.Fatal(err)
	}
}

// of returns the live pods of a job that are bound.
func (w *world) of(id sched.JobID) []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*corev1.Pod
	for _, p := range w.pods {
		if sched.JobID(p.Labels[v1alpha1.LabelID]) == id && p.Spec.NodeName != "" && !kubetest.Ended(p) {
			out = append(out, p)
		}
	}
	return out
}

func (w *world) End(t *testing.T, id sched.JobID, code int) {
	t.Helper()
	for _, p := range w.of(id) {
		if err := w.cluster.EndPod(t.Context(), client.ObjectKeyFromObject(p), code); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) Cordon(t *testing.T, node string, cordoned bool) {
	t.Helper()
	n := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		t.Fatal(err)
	}
	before := n.DeepCopy()
	n.Spec.Unschedulable = cordoned
	if err := w.client.Patch(t.Context(), n, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	want := sched.Ready
	if cordoned {
		want = sched.Cordoned
	}
	w.wait("the state knows that "+node+" is "+strconv.FormatBool(cordoned), func() bool {
		all, err := w.now().Nodes(admin)
		for _, n := range all {
			if n.Name == node {
				return err == nil && n.State == want
			}
		}
		return false
	})
}

func (w *world) Running() map[sched.JobID][]executortest.GPU {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[sched.JobID][]executortest.GPU{}
	for _, p := range w.pods {
		if p.Spec.NodeName == "" || kubetest.Ended(p) {
			continue
		}
		id := sched.JobID(p.Labels[v1alpha1.LabelID])
		g, err := strconv.Atoi(p.Annotations[v1alpha1.AnnotationGPUs])
		if err != nil {
			w.t.Errorf("pod %s has GPUs %q; want one", p.Name, p.Annotations[v1alpha1.AnnotationGPUs])
		}
		out[id] = append(out[id], executortest.GPU{Node: p.Spec.NodeName, Index: g})
	}
	return out
}

func (w *world) Starts(id sched.JobID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.started[id])
}

func (w *world) Phase(id sched.JobID) sched.Phase {
	j, err := w.now().Job(admin, id)
	if err != nil {
		return sched.Pending
	}
	return j.Status.Phase
}

func (w *world) Restart(t *testing.T) {
	t.Helper()
	w.stop()
	w.boot()
}

// TestBackend: on a real API server, the state and the executor keep the rules of the
// executor port.
func TestBackend(t *testing.T) {
	pace := executortest.Pace{Patience: patience, Calm: 400 * time.Millisecond, Linger: 300 * time.Millisecond}
	executortest.Run(t, pace, func(t *testing.T) executortest.World {
		return newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4, Type: "NVIDIA-A100-SXM4-80GB"}, nil)
	})
}
