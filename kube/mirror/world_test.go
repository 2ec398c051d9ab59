// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

var shared = kubetest.Shared{Options: kubetest.Options{
	ControllerManager: true, APIServerFlags: []string{"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"},
	Nodes: []kubetest.NodeSpec{{Count: 2, GPUs: 8, Type: "h200"}},
}}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(shared.Main(m))
}

// crds installs the CRDs once.
var crds struct {
	once sync.Once
	err  error
}

func install(c *kubetest.Cluster) error {
	crds.once.Do(func() {
		_, crds.err = envtest.InstallCRDs(c.Admin(), envtest.CRDInstallOptions{Paths: []string{"../../deploy/chart/crds"}, ErrorIfPathMissing: true})
	})
	return crds.err
}

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// tape is a journal in memory.
type tape struct {
	mu      sync.Mutex
	records [][]byte
}

func (j *tape) Append(_ context.Context, payloads ...[]byte) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := uint64(len(j.records)) + 1
	for _, p := range payloads {
		j.records = append(j.records, bytes.Clone(p))
	}
	return first, nil
}

func (j *tape) Snapshot() ([]byte, uint64, bool) { return nil, 0, false }

func (j *tape) ReadHot(from uint64, fn func(uint64, []byte) error) error {
	j.mu.Lock()
	records := j.records[:len(j.records):len(j.records)]
	j.mu.Unlock()
	for i := from; i <= uint64(len(records)); i++ {
		if err := fn(i, records[i-1]); err != nil {
			return err
		}
	}
	return nil
}

func (j *tape) Compact([]byte, uint64) error { return fmt.Errorf("a tape cannot be compacted") }

// world is a cluster, a state, and a mirror between them.
type world struct {
	t      *testing.T
	client client.WithWatch // without a cache, for the test
	tape   *tape
	state  *state.Store
	mirror *Mirror
	writes atomic.Int64 // of status
	stop   func()
	spaces []string
}

// open starts a world on an empty journal.
func open(t *testing.T, edit ...func(*Config)) *world {
	t.Helper()
	c := shared.Cluster(t)
	if err := install(c); err != nil {
		t.Fatal(err)
	}
	direct, err := client.NewWithWatch(c.Admin(), client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, client: direct, tape: &tape{}}
	w.clean()
	w.start(edit...)
	t.Cleanup(func() { w.stop(); w.clean() })
	return w
}

// clean removes cluster-wide objects and the contents of the test's namespaces.
func (w *world) clean() {
	w.t.Helper()
	for _, ns := range w.spaces {
		for _, o := range []client.Object{&v1alpha1.TrainingJob{}, &v1alpha1.App{}, &batchv1.Job{}} {
			if err := w.client.DeleteAllOf(context.Background(), o, client.InNamespace(ns), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for _, o := range []client.Object{&v1alpha1.Tenant{}, &v1alpha1.SchedulingPolicy{}} {
		if err := w.client.DeleteAllOf(context.Background(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// start runs a state on the tape, the scheduling loop, and a mirror.
func (w *world) start(edit ...func(*Config)) {
	t := w.t
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	var config Config
	w.state, err = state.Open(ctx, state.Config{
		Journal: w.tape, Node: sched.Node{Name: "node-0", GPUs: 8, Type: "h200", CPUs: 128, Memory: 1 << 40}, Policies: policy.Builtin(), Standard: "fifo",
		Key: bytes.Repeat([]byte("k"), 32), Now: time.Now, Log: slog.New(slog.DiscardHandler), CompactEvery: 1 << 30,
		DescribeLabel: func(label string) string {
			if config.Constraints == nil {
				return ""
			}
			return config.Constraints.Words(label)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := cache.New(shared.Cluster(t).Admin(), cache.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := IndexPods(ctx, stored); err != nil {
		t.Fatal(err)
	}
	counted := interceptor.NewClient(w.client, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			w.writes.Add(1)
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	})
	config = Config{
		Client: counted, Cache: stored, State: w.state, Standard: "fifo", Log: slog.New(slog.DiscardHandler), BatchJobs: true,
		Gap: 50 * time.Millisecond, TextGap: 200 * time.Millisecond, Sweep: 500 * time.Millisecond, Writes: 200,
	}
	for _, e := range edit {
		e(&config)
	}
	w.mirror = New(config)
	var group sync.WaitGroup
	for _, run := range []func() error{
		func() error { return stored.Start(ctx) },
		func() error { return w.mirror.Run(ctx) },
		func() error {
			_ = loop.Run(ctx, loop.Config{Backend: w.state, Policy: w.state.InForce, Log: config.Log})
			return nil
		},
	} {
		group.Go(func() {
			if err := run(); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
		w.state.Close()
	})
}

// namespace creates a namespace for the test.
func (w *world) namespace(name string) string {
	w.t.Helper()
	if err := shared.Cluster(w.t).Namespace(w.t.Context(), name); err != nil {
		w.t.Fatal(err)
	}
	w.spaces = append(w.spaces, name)
	return name
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) patch(o client.Object, edit func()) {
	w.t.Helper()
	before := o.DeepCopyObject().(client.Object)
	edit()
	if err := w.client.Patch(w.t.Context(), o, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// patience is how long a test waits for something that is quick on an idle machine.
const patience = 2 * time.Minute

// until waits until check is true, and reads an object before every check.
func (w *world) until(what string, o client.Object, check func() bool) {
	w.t.Helper()
	end := time.Now().Add(patience)
	for {
		if o != nil {
			if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); client.IgnoreNotFound(err) != nil {
				w.t.Fatal(err)
			}
		}
		if check() {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within %v; the object is %+v", what, patience, statusText(o))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func statusText(o client.Object) any {
	switch o := o.(type) {
	case *v1alpha1.TrainingJob:
		return o.Status
	case *v1alpha1.App:
		return o.Status
	case *v1alpha1.Tenant:
		return o.Status
	case *v1alpha1.SchedulingPolicy:
		return o.Status
	case *batchv1.Job:
		return o.Annotations
	}
	return o
}

func trainingJob(namespace, name string, gpus int32) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TrainingJobSpec{GPUs: gpus, Template: v1alpha1.PodTemplate{PodTemplateSpec: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "trainer:1", Command: []string{"train"}}},
		}}}},
	}
}

func tenantObject(name string, quota *int32, namespaces ...string) *v1alpha1.Tenant {
	return &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TenantSpec{Namespaces: namespaces, Quota: quota}}
}

// condition returns the status, the reason and the message of a condition.
func condition(conditions []metav1.Condition, kind string) (metav1.ConditionStatus, string, string) {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return "", "", ""
	}
	return c.Status, c.Reason, c.Message
}

// jobs returns the state's jobs of a namespace, newest first.
func (w *world) jobs(namespace string) []api.Job {
	w.t.Helper()
	page, err := w.state.List(cluster, api.JobFilter{Limit: api.MaxPage})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []api.Job
	for _, j := range page.Jobs {
		if bytes.Contains([]byte(j.Origin), []byte("/"+namespace+"/")) {
			out = append(out, j)
		}
	}
	return out
}

// errGroup runs functions, eight at a time, and keeps the first error.
type errGroup struct {
	group sync.WaitGroup
	once  sync.Once
	err   error
	gate  chan struct{}
}

func (g *errGroup) Go(f func() error) {
	if g.gate == nil {
		g.gate = make(chan struct{}, 8)
	}
	g.gate <- struct{}{}
	g.group.Go(func() {
		defer func() { <-g.gate }()
		if err := f(); err != nil {
			g.once.Do(func() { g.err = err })
		}
	})
}

func (g *errGroup) Wait() error {
	g.group.Wait()
	return g.err
}
