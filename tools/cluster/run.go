// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// options are the flags.
type options struct {
	folder, operator, policy string
	real, exit               bool
	nodes                    int
}

const (
	team    = "team"    // a namespace to work in
	trainer = "trainer" // a service account of it that may submit jobs
	example = "examples/gang.yaml"
	gang    = "gang" // the job of the example

	startWithin = 5 * time.Minute
	// realGPUs is how many GPUs each real node pretends to have, so that the example
	// needs both.
	realGPUs = 2
)

// quick is a cluster in the making.
type quick struct {
	options
	out     io.Writer
	begin   time.Time
	cluster *kubetest.Cluster
	fairway *operator.Operator
	kubectl string // its path
}

// run starts the cluster, shows that a gang runs, and waits for the end.
func run(ctx context.Context, o options, out io.Writer) error {
	q := &quick{options: o, out: out, begin: time.Now()}
	var err error
	if q.folder, err = filepath.Abs(o.folder); err != nil {
		return fmt.Errorf("find folder: %w", err)
	}
	unlock, err := q.takeFolder()
	if err != nil {
		return err
	}
	defer unlock()
	if q.kubectl, err = kubetest.Program("kubectl"); err != nil {
		return err
	}
	defer q.close()
	starting, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for _, stage := range []func(context.Context) error{q.startCluster, q.startOperator, q.addTeam, q.runGang} {
		if err := stage(starting); err != nil {
			if ctx.Err() != nil {
				return nil // Ctrl-C
			}
			return err
		}
	}
	if err := q.show(ctx); err != nil || o.exit {
		return err
	}
	return q.wait(ctx)
}

// takeFolder makes the folder, and sees to it that it is of one cluster only.
func (q *quick) takeFolder() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(q.folder, "bin"), 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(q.folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock folder %s: a cluster is running there; stop it, or give another folder with -dir", q.folder)
	}
	if err := os.RemoveAll(q.files()); err != nil { // of the time before
		lock.Close()
		return nil, fmt.Errorf("clear folder: %w", err)
	}
	return func() { lock.Close() }, nil
}

// files is where the processes of the cluster have their files.
func (q *quick) files() string { return filepath.Join(q.folder, "run") }

func (q *quick) say(format string, args ...any) {
	fmt.Fprintf(q.out, "%5.1fs  %s\n", time.Since(q.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (q *quick) startCluster(ctx context.Context) error {
	o := kubetest.Options{ControllerManager: true}
	if q.real {
		o.RealNodes = 2
	} else {
		o.Nodes = []kubetest.NodeSpec{{Prefix: "gpu", Count: q.nodes, GPUs: 8, Type: "NVIDIA-H200", PerRack: 4}}
	}
	var err error
	if q.cluster, err = kubetest.Open(ctx, q.files(), o); err != nil {
		return err
	}
	for i := range o.RealNodes {
		if err := q.cluster.SetGPUs(ctx, fmt.Sprintf("real-%d", i), realGPUs); err != nil {
			return err
		}
	}
	if err := q.link(); err != nil {
		return err
	}
	if q.real {
		q.say("control plane and 2 real nodes are up, with %d simulated GPUs each", realGPUs)
	} else {
		q.say("control plane and %d simulated nodes of 8 GPUs are up", q.nodes)
	}
	return nil
}

// link puts what people need into the folder, under names that stay the same.
func (q *quick) link() error {
	links := map[string]string{"kubeconfig": q.cluster.Kubeconfig, "bin/kubectl": q.kubectl}
	fairway, err := filepath.Abs(filepath.Join(filepath.Dir(q.operator), "fairway"))
	if err != nil {
		return fmt.Errorf("link fairway: %w", err)
	}
	if _, err := os.Stat(fairway); err == nil {
		links["bin/fairway"] = fairway
	}
	for name, target := range links {
		link := filepath.Join(q.folder, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("link %s: %w", name, err)
		}
		if err := os.Symlink(target, link); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	return nil
}

func (q *quick) startOperator(ctx context.Context) error {
	program, err := filepath.Abs(q.operator)
	if err != nil {
		return fmt.Errorf("find operator: %w", err)
	}
	if err := operator.Install(ctx, q.cluster); err != nil {
		return err
	}
	q.fairway, err = operator.Start(ctx, q.cluster, operator.Options{
		Program: program, Host: q.host(),
		Config: map[string]any{"policy": q.policy, "pods": map[string]any{"rendezvous": "ip", "image": kubetest.PodImage}}, // there is no DNS
	})
	if err != nil {
		return err
	}
	if err := q.fairway.WaitLeads(ctx); err != nil {
		return err
	}
	q.say("Fairway is installed, and its operator leads")
	return nil
}

// host is an address of this machine that pods reach, if there are real ones.
func (q *quick) host() string {
	if q.real {
		return q.cluster.HostAddress()
	}
	return "127.0.0.1"
}

// addTeam makes a namespace and somebody who may submit jobs there.
func (q *quick) addTeam(ctx context.Context) error {
	if err := q.cluster.Namespace(ctx, team); err != nil {
		return err
	}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: trainer}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: trainer},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: team, Name: trainer}},
		},
	} {
		if err := q.cluster.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("create %T: %w", o, err)
		}
	}
	return nil
}

// runGang submits the example and waits until it runs.
func (q *quick) runGang(ctx context.Context) error {
	root, err := kubetest.ModuleRoot()
	if err != nil {
		return err
	}
	if _, err := q.kube(ctx, "apply", "--server-side", "-f", filepath.Join(root, example)); err != nil {
		return err
	}
	q.say("submitted %s", example)
	admin, err := operator.Client(q.cluster)
	if err != nil {
		return err
	}
	job := &v1alpha1.TrainingJob{}
	for {
		if err := admin.Get(ctx, client.ObjectKey{Namespace: team, Name: gang}, job); err != nil {
			return fmt.Errorf("wait for the gang: %w", err)
		}
		switch job.Status.State {
		case "running":
			q.say("the gang runs\n")
			return nil
		case "failed", v1alpha1.Refused:
			return fmt.Errorf("wait for the gang: it is %s: %s", job.Status.State, job.Status.Why)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the gang: it is %s: %s: %w", job.Status.State, job.Status.Why, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// wait waits for Ctrl-C. An operator that ends is started again by nobody here.
func (q *quick) wait(ctx context.Context) error {
	for q.fairway.Running() {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
	return fmt.Errorf("the operator has ended: %s", q.fairway.Tail(5))
}

// close ends the cluster.
func (q *quick) close() {
	if q.fairway != nil {
		q.fairway.Stop(5 * time.Second)
	}
	if q.cluster != nil {
		q.cluster.Close()
	}
}
