// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/daemon/otel"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/access"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/journal"
	"github.com/fairway-gpu/fairway/kube/mirror"
	"github.com/fairway-gpu/fairway/kube/nodeagent"
	"github.com/fairway-gpu/fairway/kube/nodepool"
	"github.com/fairway-gpu/fairway/kube/nodes"
	"github.com/fairway-gpu/fairway/kube/pods"
	"github.com/fairway-gpu/fairway/kube/volumes"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
	"github.com/fairway-gpu/fairway/server"
	"github.com/fairway-gpu/fairway/tune/runner"
)

// leader is what a replica does while it holds the lease. The manager starts it once:
// a replica that loses the lead ends as a whole.
type leader struct{ *operator }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (leader) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (l leader) Start(ctx context.Context) error {
	begin := time.Now()
	l.tenure.begin()
	t, err := l.open(ctx, begin)
	if t.state != nil {
		defer t.state.Close()
	}
	if err != nil {
		return err
	}
	parts, err := t.parts()
	if err != nil {
		return err
	}
	l.log.Info("leading", "name", t.name, "after", time.Since(begin), "policy", t.policySpec(), "api", t.listener.URL())
	defer l.unlabel()
	return daemon.Run(ctx, parts...)
}

// unlabel removes the leader label, if there is time. A label that is left is removed
// at the next start; requests fail until then.
func (l leader) unlabel() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := l.setLeading(ctx, false); err != nil {
		l.log.Warn("remove the leader label", "err", err)
	}
}

// term is one time of leading: everything that is wired together.
type term struct {
	*operator
	name        string // of this term, unlike all others
	journal     timed
	broken      chan error
	state       *state.Store
	guard       *guard.Guard
	nodes       *nodes.Watcher
	constraints *constraint.Registry
	mirror      *mirror.Mirror
	executor    *pods.Executor
	hub         *nodeagent.Hub // nil: pods are not suspended
	server      *server.Server
	listener    *server.Listener
}

// open reads the journal and wires the parts. Nothing runs yet.
func (l leader) open(ctx context.Context, begin time.Time) (*term, error) {
	t := &term{operator: l.operator, broken: make(chan error, 1)}
	t.name = l.where.name() + "-" + strconv.FormatInt(begin.UnixNano(), 36)
	pages, err := journal.Open(ctx, journal.Config{
		Pages: journal.Objects{Client: l.direct, Namespace: l.namespace}, Leader: t.name, Lost: ctx.Done(),
	})
	if err != nil {
		return t, err
	}
	t.journal = timed{pages, t}
	if err := t.openState(ctx); err != nil {
		return t, err
	}
	if err := t.openCluster(); err != nil {
		return t, err
	}
	return t, t.openServer()
}

func (t *term) openState(ctx context.Context) error {
	c := t.config
	table, err := daemon.Signatures(c.Failures.Table)
	if err != nil {
		return err
	}
	used, err := mirror.HighestNumber(ctx, t.direct)
	if err != nil {
		return err
	}
	rules := nodes.RulesFor(nodes.Resources(c.Nodes.Resources), c.Nodes.Tolerated)
	rules.Volumes = volumes.New()
	t.constraints = constraint.NewRegistry(rules)
	rules.Volumes.Changed = t.constraints.Recheck
	t.state, err = state.Open(ctx, state.Config{
		Seen:    state.Mark{Jobs: used},
		Journal: t.journal, Levels: nodes.LevelNames(c.Nodes.Levels), Policies: policy.Builtin(), Standard: c.Policy, Guard: c.Guard, Key: derive(t.key, "agents and bidders"),
		Pool: experience.New(), Recall: true, Now: time.Now, Log: t.log, Keep: c.Keep.Jobs, MaxQueue: c.Keep.Queue, MaxQueueBytes: int64(c.Keep.QueueBytes), CompactEvery: c.Keep.Compact,
		CheckBidder: c.Bidders.Check, CheckSearch: runner.Check, Failures: table, Screen: c.Screen.Time.D(), Price: c.Price, DescribeLabel: t.constraints.Words,
		NoSuspendOn: t.noSuspend, Gather: 2 * time.Millisecond,
	})
	if err != nil {
		return fmt.Errorf("open the state: %w", err)
	}
	t.guard, err = guard.New(c.Guard)
	return err
}

// openCluster wires what looks at the cluster and changes it.
func (t *term) openCluster() error {
	c := t.config
	resources := nodes.Resources(c.Nodes.Resources)
	var hands pods.Hands
	var able func(string) (bool, string)
	if c.Suspend.Address != "" {
		t.hub = &nodeagent.Hub{Changed: func() { t.nodes.Recheck(); t.executor.Recheck() }}
		hands, able = t.hub, t.hub.Able
	}
	t.nodes = nodes.New(nodes.Config{
		Able:  able,
		Cache: t.manager.GetCache(), State: t.state, Resources: resources, RackLabels: c.Nodes.RackLabels, Levels: c.Nodes.Levels, Tolerated: c.Nodes.Tolerated, Pin: c.Nodes.Pin,
		Grace: c.Nodes.Grace.D(), Constraints: t.constraints, Log: t.log, OwnsPod: func(p *corev1.Pod) bool { return t.mirror.OwnsPod(p) },
	})
	var suspended []string
	for _, k := range mirror.SuspendedKinds() {
		version, err := t.served(k.Group, k.Kind, k.Version)
		if err != nil {
			return err
		}
		if version != "" {
			suspended = append(suspended, k.Kind)
		}
	}
	podGroups, err := t.served(mirror.PodGroupGroup, "PodGroup", "v1", "v1beta1", "v1alpha3")
	if err != nil {
		return err
	}
	events := t.manager.GetEventRecorder(leaseName)
	t.mirror = mirror.New(mirror.Config{
		Client: t.direct, Cache: t.manager.GetCache(), State: t.state, Standard: c.Policy, Log: t.log, Constraints: t.constraints, Resources: resources, BatchJobs: true, Suspended: suspended, PodGroups: podGroups,
		Event: func(object runtime.Object, kind, reason, message string) {
			events.Eventf(object, nil, kind, reason, "Schedule", "%s", message)
		},
	})
	logs, err := kubernetes.NewForConfigAndClient(t.manager.GetConfig(), t.manager.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("create a client of the cluster: %w", err)
	}
	bounded := rest.CopyConfig(t.manager.GetConfig())
	bounded.Timeout = pods.RequestWithin
	about, err := t.client(bounded)
	if err != nil {
		return err
	}
	t.executor = pods.New(pods.Config{
		Hands: hands, Suspends: func(n *corev1.Node) bool { return t.nodes.NoSuspend(n.Name) == "" },
		Client: about, Cache: t.manager.GetCache(), Templates: t.mirror, External: mirror.External{Mirror: t.mirror, Now: time.Now}, Volumes: t.constraints.Volumes, ReadLog: pods.LogReader(logs),
		API: c.url(t.namespace), Audience: access.AgentAudience, Rendezvous: c.Pods.Rendezvous, Replicas: nodes.Replicas, MPS: nodes.MPS, Pin: c.Nodes.Pin, Resources: resources, Tolerated: c.Nodes.Tolerated,
		GracePeriod: c.Notice.D(), Report: c.Report.D(), PullFor: c.Pods.StartGrace.D(), StartFor: c.Pods.StartWithin.D(), LostAfter: c.Pods.LostAfter.D(), Parallel: c.Pods.Parallel, OwnsPod: t.mirror.OwnsPod, Confirm: t.journal.Confirm, Ended: t.ended, Log: t.log,
	})
	return nil
}

// noSuspend returns why pods of a node cannot be suspended; empty: they can, or nobody
// asked for it.
func (t *term) noSuspend(node string) string {
	if t.hub == nil {
		return ""
	}
	return t.nodes.NoSuspend(node)
}

// serve answers requests once the nodes are known: until then every job would seem too large
// for the cluster.
func (t *term) serve(ctx context.Context) error {
	select {
	case <-t.nodes.Told():
	case <-ctx.Done():
	}
	return t.server.Serve(ctx, t.listener)
}

// serveNodes answers the agents of nodes.
func (t *term) serveNodes(ctx context.Context) error {
	whose := access.Nodes(access.NodesConfig{
		Client: t.direct, Pods: t.manager.GetCache(), Audience: nodeagent.Audience, Namespace: t.config.Suspend.Namespace, Account: nodeAccount, Now: time.Now,
	})
	s := &http.Server{
		Addr: t.config.Suspend.Address, Handler: nodeagent.Handler(t.hub, whose), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	var err error
	if a := t.config.API; a.Cert != "" {
		err = s.ListenAndServeTLS(a.Cert, a.Key)
	} else {
		err = s.ListenAndServe()
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serve the agents of nodes: %w", err)
}

// nodeAccount is the service account of the agents of nodes in the chart.
const nodeAccount = "fairway-node"

// served returns the first of some versions in which the cluster has a kind; empty: in
// none. A cluster that gets it later needs a new leader to see it.
func (t *term) served(group, kind string, versions ...string) (string, error) {
	for _, v := range versions {
		_, err := t.manager.GetRESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: kind}, v)
		if err == nil {
			return v, nil
		}
		if !meta.IsNoMatchError(err) {
			return "", fmt.Errorf("look for kind %s of %s: %w", kind, group, err)
		}
	}
	return "", nil
}

// ended reports whether a job will never run again.
func (t *term) ended(id sched.JobID) bool {
	j, err := t.state.Job(api.Identity{Role: api.Admin}, id)
	if err != nil {
		return api.CodeOf(err) == api.Unknown // else the journal does not answer
	}
	return j.Status.Phase.Ended()
}

func (t *term) openServer() error {
	users := access.NewUsers(access.UsersConfig{
		Client: t.direct, State: t.state, Tenants: access.TenantObjects{Reader: t.manager.GetCache()}, Now: time.Now,
	})
	agents := access.NewAgents(access.AgentsConfig{Client: t.direct, Pods: t.manager.GetCache(), State: t.state, Now: time.Now})
	jobs := mirror.Jobs{Jobs: t.state, Mirror: t.mirror, Image: t.config.Pods.Image}
	var err error
	t.server, err = server.New(server.Config{
		Jobs: jobs, Feed: t.state, Cluster: mirror.Cluster{Cluster: t.state, Mirror: t.mirror}, Access: users, Agents: agents, Bidders: t.state,
		Logs: t.executor, Searches: mirror.Searches{State: t.state, Jobs: jobs}, Policies: daemon.PolicyEntries(), Version: daemon.Release,
		SessionKey: derive(t.key, "sessions"), Metrics: t.metrics, Log: t.log,
		Ready: func() error {
			if o, _ := t.state.Overview(api.Identity{}); o.Problem != "" {
				return errors.New(o.Problem)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	a := t.config.API
	if a.Cert == "" {
		t.log.Warn("the API is not encrypted: whoever can read the cluster's network can read tokens", "address", a.Address)
	}
	t.listener, err = server.Listen(server.ListenConfig{Address: a.Address, Cert: a.Cert, Key: a.Key})
	return err
}

// parts returns everything that has to run.
func (t *term) parts() ([]daemon.Part, error) {
	scheduler := daemon.Scheduler{State: t.state, Guard: t.guard, Metrics: t.metrics, Bidders: t.config.Bidders, Pace: t.config.Pace.D(), Log: t.log,
		After: []<-chan struct{}{t.nodes.Told(), t.mirror.Configured()},
	}
	parts, err := scheduler.Parts()
	if err != nil {
		return nil, err
	}
	if t.hub != nil {
		parts = append(parts, daemon.Part{Name: "serve the agents of nodes", Run: t.serveNodes})
	}
	if t.config.Scale.By != "" {
		pool, err := t.pool()
		if err != nil {
			return nil, err
		}
		parts = append(parts, daemon.Part{Name: "ask for nodes", Run: pool.Run})
	}
	if t.config.Otel.Endpoint != "" {
		traces := &otel.Exporter{Config: t.config.Otel, Source: t.state, Log: t.log}
		parts = append(parts, daemon.Part{Name: "send traces", Run: traces.Run})
	}
	return append(parts,
		daemon.Part{Name: "follow the volumes", Run: func(ctx context.Context) error { return t.constraints.Volumes.Run(ctx, t.manager.GetCache()) }},
		daemon.Part{Name: "follow the nodes", Run: t.nodes.Run},
		daemon.Part{Name: "mirror objects", Run: t.mirror.Run},
		daemon.Part{Name: "run pods", Run: func(ctx context.Context) error { return t.executor.Run(ctx, orders{t.state, t.mirror}) }},
		daemon.Part{Name: "serve", Run: t.serve},
		daemon.Part{Name: "mark the leader", Run: t.markLeader},
		daemon.Part{Name: "keep the journal", Run: func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return nil
			case err := <-t.broken:
				return err
			}
		}},
	), nil
}

// pool is what asks a cluster autoscaler for nodes.
func (t *term) pool() (*nodepool.Pool, error) {
	c := t.config.Scale
	scaler, err := c.scaler()
	if err != nil {
		return nil, err
	}
	return &nodepool.Pool{Config: nodepool.Config{
		Client: t.direct, Nodes: t.manager.GetCache(), Namespace: t.namespace, By: c.By, Class: c.Class, Min: c.Min, Max: c.Max, Labels: c.Labels, Type: c.Type, GPUs: c.GPUs,
		Resource: nodes.Resources(t.config.Nodes.Resources)[0], Tolerated: t.config.Nodes.Tolerated,
		Scaler: scaler, Snapshot: t.state.Peek, Imagine: t.nodes.Imagine, Every: c.Every.D(), Log: t.log,
	}}, nil
}

// markLeader labels this pod as the leader's and retries until it succeeds: without the
// label no request arrives.
func (t *term) markLeader(ctx context.Context) error {
	for {
		err := t.setLeading(ctx, true)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		t.log.Warn("label the leader's pod", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * time.Second):
		}
	}
}

func (t *term) policySpec() string { _, spec := t.state.InForce(); return spec }

// timed is the journal as the state sees it, with a clock on it.
type timed struct {
	*journal.Journal
	term *term
}

// Append implements state.Journal. After an error the journal takes no more: another
// leads, or nobody knows what is in it. Then this operator is done.
func (j timed) Append(ctx context.Context, payloads ...[]byte) (uint64, error) {
	begin := time.Now()
	first, err := j.Journal.Append(ctx, payloads...)
	j.term.metrics.ObserveAppend(time.Since(begin), err)
	j.notice(err)
	return first, err
}

// Confirm returns nil if no other leader has written a page.
func (j timed) Confirm(ctx context.Context) error {
	err := j.Journal.Confirm(ctx)
	j.notice(err)
	return err
}

// notice ends this operator after an error with which the journal is closed to it.
func (j timed) notice(err error) {
	if err != nil && j.Fenced() {
		select {
		case j.term.broken <- err:
		default:
		}
	}
}
