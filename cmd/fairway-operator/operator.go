// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/mirror"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/kube/volumes"
	"github.com/fairway-gpu/fairway/server"
)

// leaseName is the object by which replicas agree on who tries to lead. Who does
// lead, the journal says.
const leaseName = "fairway-operator"

// operator is one replica, leading or not.
type operator struct {
	where
	config  config
	log     *slog.Logger
	manager manager.Manager
	direct  client.Client // without a cache
	metrics *server.Metrics
	key     []byte // for secrets; 32 bytes
	tenure  *tenure
}

// run works until the context ends or the lead is lost.
func run(ctx context.Context, w where, c config, logger *slog.Logger) error {
	rc, err := w.config()
	if err != nil {
		return err
	}
	rc.QPS, rc.Burst = float32(c.Client.Rate), c.Client.Burst
	now := &tenure{limit: c.Leader.Renew.D()}
	rc.Wrap(now.wrap)
	o, err := newOperator(rc, w, c, logger)
	if err != nil {
		return err
	}
	o.tenure = now
	// A container that was started again may still have the label of the time
	// before, when it led.
	if err := o.setLeading(ctx, false); err != nil {
		return err
	}
	if err := o.warm(ctx); err != nil {
		return err
	}
	if err := o.manager.Add(leader{o}); err != nil {
		return err
	}
	logger.Info("ready to lead", "name", w.name(), "namespace", w.namespace)
	err = o.manager.Start(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("run the operator: %w", err)
	}
	return nil
}

func newOperator(rc *rest.Config, w where, c config, logger *slog.Logger) (*operator, error) {
	o := &operator{where: w, config: c, log: logger, metrics: server.NewMetrics()}
	var err error
	if o.key, err = readKey(c.KeyFile, logger); err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	if o.direct, err = w.client(rc); err != nil {
		return nil, err
	}
	log.SetLogger(logr.FromSlogHandler(logger.Handler()))
	lease, renew, retry := c.Leader.Lease.D(), c.Leader.Renew.D(), c.Leader.Retry.D()
	grace := 30 * time.Second
	o.manager, err = manager.New(rc, manager.Options{
		Scheme: scheme, Logger: logr.FromSlogHandler(logger.Handler()),
		LeaderElection: true, LeaderElectionID: leaseName, LeaderElectionNamespace: w.namespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry, GracefulShutdownTimeout: &grace,
		HealthProbeBindAddress: c.Health, PprofBindAddress: c.Pprof,
		Metrics: metricsserver.Options{
			BindAddress: c.Metrics, ExtraHandlers: map[string]http.Handler{"/metrics/fairway": o.metrics},
		},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}:  {Transform: stripPod},
				&corev1.Node{}: {Transform: stripNode},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	err = errors.Join(o.manager.AddHealthzCheck("ping", healthz.Ping), o.manager.AddReadyzCheck("ping", healthz.Ping))
	return o, err
}

// warm begins to watch what a leader needs, so that the next one can go on at once.
func (o *operator) warm(ctx context.Context) error {
	if err := mirror.IndexPods(ctx, o.manager.GetCache()); err != nil {
		return err
	}
	for _, kind := range append(volumes.Kinds(),
		&corev1.Node{}, &corev1.Pod{}, &batchv1.Job{}, &nodev1.RuntimeClass{},
		&v1alpha1.TrainingJob{}, &v1alpha1.App{}, &v1alpha1.Tenant{}, &v1alpha1.SchedulingPolicy{},
	) {
		if _, err := o.manager.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

// keySize is the size of the key for secrets, in bytes.
const keySize = 32

// readKey reads the key for secrets. Without one, a new one is made: sessions of the
// dashboard and the secrets of bidders end with the leader then.
func readKey(path string, logger *slog.Logger) ([]byte, error) {
	if path == "" {
		key := make([]byte, keySize)
		_, err := rand.Read(key)
		return key, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		logger.Warn("there is no key: logins and the secrets of bidders end with each leader", "file", path)
		return readKey("", logger)
	}
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if len(text) < keySize {
		return nil, fmt.Errorf("read key %s: it has %d bytes; want at least %d random ones", path, len(text), keySize)
	}
	return derive(text, "key"), nil
}

// derive makes a key for one purpose.
func derive(key []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

// orders is the state as the executor sees it. That the pods of a job are up leaves no
// record: the mirror is told.
type orders struct {
	*state.Store
	mirror *mirror.Mirror
}

// Started implements executor.Port.
func (o orders) Started(id api.AttemptID) {
	o.Store.Started(id)
	o.mirror.Started(id.Job)
}
