// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// State is the part of the daemon's state that the mirror uses.
type State interface {
	api.Jobs
	api.Searches
	Nodes(api.Identity) ([]api.Node, error)
	Tenants(api.Identity) ([]api.TenantView, error)
	SetTenant(context.Context, api.Identity, sched.Tenant) (api.TenantView, error)
	Policy(api.Identity) (string, error)
	SetPolicy(ctx context.Context, who api.Identity, spec string, dryRun bool) (api.PolicyChange, error)
	Watch(ctx context.Context, who api.Identity, f api.RecordFilter, send func(api.Record) error) error
	// Mirrored returns the jobs that have an origin, and the number of the last record
	// they reflect.
	Mirrored() ([]state.Mirrored, uint64)
	// WithOrigin returns the searches of an origin.
	WithOrigin(origin string) []api.Search
}

// Config configures a mirror.
type Config struct {
	Client client.Client // reads and writes without a cache
	Cache  cache.Cache   // started by the caller
	State  State
	// Standard is the policy that applies when there is no SchedulingPolicy.
	Standard string
	Log      *slog.Logger
	// Event emits an event on an object, after the object was written; nil: no events.
	// Kind is Normal or Warning.
	Event func(object runtime.Object, kind, reason, message string)
	// BatchJobs schedules batch Jobs with the label fairway.dev/managed.
	BatchJobs bool
	// Suspended are those of SuspendedKinds that the cluster serves. Objects of these
	// kinds with the label are scheduled too.
	Suspended []string
	// PodGroups is the version of Kubernetes' own PodGroups that the cluster serves,
	// such as v1beta1; empty: none. PodGroups with the label are scheduled too.
	PodGroups string
	// Constraints collects the node constraints of jobs; nil: constraints are ignored.
	Constraints *constraint.Registry
	// Resources are the resource names under which jobs may request GPUs; empty: any.
	Resources []corev1.ResourceName
	// Writes bounds the status writes per second; 0: 100. Urgent changes, which people
	// wait for, go first.
	Writes float32
	// Gap is the minimum time between two writes to one object; 0: 1 s.
	Gap time.Duration
	// TextGap is the same for changes that are not urgent, such as a forecast; 0: 30 s.
	TextGap time.Duration
	// Sweep is the time between two reconciliations of everything; 0: 30 s.
	Sweep time.Duration
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// cluster is the identity for actions that no user asked for.
var cluster = api.Identity{User: "cluster", Role: api.Admin, Owner: nobody}

// nobody is the operating-system user of jobs in a cluster.
var nobody = api.Owner{UID: -1, GID: -1}

// key names an object to reconcile.
type key struct{ kind, namespace, name string }

func (k key) at() client.ObjectKey { return client.ObjectKey{Namespace: k.namespace, Name: k.name} }

const (
	kindTenant = "Tenant"
	kindPolicy = "SchedulingPolicy"
)

// Mirror keeps objects and the state in step.
type Mirror struct {
	Config
	queue   workqueue.TypedRateLimitingInterface[key]
	ready   chan struct{} // closed: the state has the policy and the tenants
	index   *index
	sharing sharing
	bound   bound // pods of external workloads
	claims  claims

	mu      sync.Mutex
	written map[key]time.Time
	turns   map[key]turn                 // of objects that wait to be written
	changed map[sched.TenantID]time.Time // when a tenant was last enqueued for a change
	quick   pace                         // for urgent changes
	lazy    pace                         // for all others
	apps    struct {
		at   time.Time
		list []api.AppView
	}

	tenants struct { // with a lock of its own, because the state may take a while to answer
		sync.Mutex
		at   time.Time
		list []api.TenantView
	}
}

// New returns a mirror. It does nothing until Run is called.
func New(c Config) *Mirror {
	if c.Writes == 0 {
		c.Writes = 100
	}
	for _, d := range []struct {
		field    *time.Duration
		standard time.Duration
	}{{&c.Gap, time.Second}, {&c.TextGap, 30 * time.Second}, {&c.Sweep, 30 * time.Second}} {
		if *d.field == 0 {
			*d.field = d.standard
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Event == nil {
		c.Event = func(runtime.Object, string, string, string) {}
	}
	m := &Mirror{
		Config: c, ready: make(chan struct{}), index: newIndex(), written: map[key]time.Time{}, turns: map[key]turn{}, changed: map[sched.TenantID]time.Time{}, quick: paceOf(c.Writes), lazy: paceOf(max(c.Writes/5, 0.5)),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[key](100*time.Millisecond, time.Minute)),
	}
	m.fillIndex() // an executor may ask for templates before Run is called
	return m
}

// Configured is closed when the state has the cluster's present policy and tenants.
// Until then it has those of the previous leader.
func (m *Mirror) Configured() <-chan struct{} { return m.ready }

// fillIndex fills the index from the state, and returns the number of the last record that
// it reflects.
func (m *Mirror) fillIndex() uint64 {
	list, seq := m.State.Mirrored()
	for _, j := range list {
		m.index.put(j)
	}
	return seq
}

// workers is how many objects are reconciled in parallel. A submission waits for the
// journal, which writes all that wait in one batch, so many workers help.
const workers = 64

// Run reconciles until the context ends.
func (m *Mirror) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer m.queue.ShutDown()
	seq := m.fillIndex()
	forget, err := m.watchObjects(ctx)
	defer forget()
	if err != nil {
		return err
	}
	if err := m.restoreConstraints(ctx); err != nil {
		return err
	}
	// Tenants and the policy come first, because accepting a job depends on them.
	if err := m.configure(ctx); err != nil {
		return err
	}
	close(m.ready)
	m.sweep()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { m.work(ctx) })
	}
	group.Go(func() { m.sweeps(ctx) })
	err = m.State.Watch(ctx, cluster, api.RecordFilter{After: seq}, m.note)
	if ctx.Err() != nil {
		err = nil
	} else {
		err = fmt.Errorf("watch the state: %w", err)
	}
	cancel()
	m.queue.ShutDown()
	group.Wait()
	return err
}

// watchObjects enqueues every object that changes, and waits until the caches have
// synced. The caches outlive the mirror: forget removes the handlers.
func (m *Mirror) watchObjects(ctx context.Context) (forget func(), err error) {
	var ends []func()
	forget = func() {
		for _, end := range ends {
			end()
		}
	}
	type watched struct {
		kind   string
		object client.Object
	}
	kinds := []watched{
		{kindTenant, &v1alpha1.Tenant{}}, {kindPolicy, &v1alpha1.SchedulingPolicy{}},
		{kindApp, &v1alpha1.App{}}, {kindTrainingJob, &v1alpha1.TrainingJob{}},
	}
	for _, kind := range m.externalKinds() {
		kinds = append(kinds, watched{kind, m.externalObject(kind)})
	}
	if m.PodGroups != "" {
		end, err := m.watchPods(ctx)
		if end != nil {
			ends = append(ends, end)
		}
		if err != nil {
			return forget, err
		}
	}
	for _, k := range kinds {
		informer, err := m.Cache.GetInformer(ctx, k.object)
		if err != nil {
			return forget, fmt.Errorf("watch %ss: %w", k.kind, err)
		}
		handle := func(o any) { m.enqueueObject(k.kind, o) }
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: handle, DeleteFunc: handle, UpdateFunc: func(_, o any) { handle(o) },
		})
		if err != nil {
			return forget, fmt.Errorf("watch %ss: %w", k.kind, err)
		}
		ends = append(ends, func() { _ = informer.RemoveEventHandler(registration) })
		if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return forget, fmt.Errorf("watch %ss: %w", k.kind, context.Cause(ctx))
		}
	}
	return forget, nil
}

// enqueueObject enqueues an object that changed.
func (m *Mirror) enqueueObject(kind string, o any) {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	object, ok := o.(client.Object)
	if !ok {
		return
	}
	if isExternal(kind) && object.GetLabels()[v1alpha1.LabelManaged] == "" {
		return
	}
	m.queue.Add(key{kind, object.GetNamespace(), object.GetName()})
}

// note enqueues the object that a record is about.
func (m *Mirror) note(r api.Record) error {
	if origin := m.index.note(&r); origin != "" {
		m.enqueue(origin)
	}
	if r.Event != nil && counted[r.Event.Kind] {
		m.enqueueTenant(m.index.tenantOf(r.Job()))
	}
	if r.Quarantine != nil {
		m.emitQuarantine(&r)
	}
	if r.Policy != "" {
		m.queue.Add(key{kind: kindPolicy, name: policyName})
	}
	return nil
}

// counted are the events that change how many jobs and GPUs a tenant has.
var counted = map[sched.EventKind]bool{
	sched.JobSubmitted: true, sched.JobStarted: true, sched.JobStopped: true, sched.JobFailed: true, sched.JobHeld: true, sched.JobEnded: true,
}

// tenantAfter is how long changes of a tenant are collected.
const tenantAfter = 300 * time.Millisecond

// enqueueTenant updates the status of a tenant soon.
func (m *Mirror) enqueueTenant(id sched.TenantID) {
	if id == "" {
		return
	}
	m.mu.Lock()
	m.changed[id] = m.Now()
	m.mu.Unlock()
	m.queue.AddAfter(key{kind: kindTenant, name: string(id)}, tenantAfter)
}

// enqueue enqueues the object of an origin.
func (m *Mirror) enqueue(origin string) {
	parts := strings.SplitN(origin, "/", 3)
	if len(parts) == 3 {
		m.queue.Add(key{parts[0], parts[1], parts[2]})
	}
}

// sweeps reconciles everything periodically, because reasons and forecasts change
// without a record.
func (m *Mirror) sweeps(ctx context.Context) {
	tick := time.NewTicker(m.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.fillIndex()
			m.sweep()
			m.sweepConfiguration(ctx)
		}
	}
}

func (m *Mirror) sweep() {
	for _, origin := range m.index.activeOrigins() {
		m.enqueue(origin)
	}
}

func (m *Mirror) work(ctx context.Context) {
	for {
		k, stop := m.queue.Get()
		if stop {
			return
		}
		err := m.reconcile(ctx, k)
		switch {
		case err == nil:
			m.queue.Forget(k)
		case ctx.Err() != nil:
		default:
			if !errors.Is(err, errRequeue) {
				m.Log.Warn("mirror object", "kind", k.kind, "namespace", k.namespace, "name", k.name, "err", err)
			}
			m.queue.AddRateLimited(k)
		}
		m.queue.Done(k)
	}
}

// errRequeue requeues an object without a log line.
var errRequeue = errors.New("requeue")

func (m *Mirror) reconcile(ctx context.Context, k key) error {
	switch k.kind {
	case kindTrainingJob:
		return m.trainingJob(ctx, k)
	case kindApp:
		return m.app(ctx, k)
	case kindTenant:
		return m.tenant(ctx, k)
	case kindPolicy:
		return m.policy(ctx)
	}
	if isExternal(k.kind) {
		return m.reconcileExternal(ctx, k)
	}
	return nil
}
