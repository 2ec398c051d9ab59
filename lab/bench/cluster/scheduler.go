// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
)

// peer is another scheduler that runs the same jobs.
type peer struct {
	command string
	apply   []string
}

// scheduler is the process under test; a nil process is part of the control plane.
type scheduler struct {
	process        *kubetest.Process
	log            string
	metrics, pprof string // addresses; empty: none
}

func (s *scheduler) running() bool { return s.process == nil || s.process.Running() }

func (s *scheduler) tail() string {
	if s.process == nil {
		return ""
	}
	return s.process.Tail(5)
}

func (s *scheduler) stop() {
	if s.process != nil {
		s.process.Stop(5 * time.Second)
	}
}

const (
	system    = "fairway-system"
	manifests = "deploy/manifests/fairway.yaml"
)

// buildOperator builds the program under test.
func buildOperator(ctx context.Context, folder string) (string, error) {
	path, err := filepath.Abs(filepath.Join(folder, "fairway-operator"))
	if err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "./cmd/fairway-operator").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the operator (from the root of the checkout): %w: %s", err, out)
	}
	return path, nil
}

// openScheduler starts the scheduler under test.
func (t *trial) openScheduler(ctx context.Context) error {
	switch t.scheduler {
	case schedulerFairway:
		return t.openOperator(ctx)
	case schedulerPeer:
		for _, file := range t.peer.apply {
			if err := t.apply(ctx, file); err != nil {
				return err
			}
		}
		command := exec.Command("sh", "-c", t.peer.command)
		command.Env = append(os.Environ(), "KUBECONFIG="+t.cluster.Kubeconfig)
		return t.start("peer", command)
	}
	t.sched = &scheduler{}
	return nil
}

func (t *trial) start(name string, command *exec.Cmd) error {
	if t.sched == nil {
		t.sched = &scheduler{}
	}
	var err error
	t.sched.log = filepath.Join(t.cluster.Folder, name+".log")
	t.sched.process, err = t.cluster.Run(name, command)
	return err
}

// openOperator installs Fairway from its manifests and runs the operator with the
// permissions of its service account.
func (t *trial) openOperator(ctx context.Context) error {
	if err := t.apply(ctx, manifests); err != nil {
		return err
	}
	account, err := t.cluster.ServiceAccount(ctx, system, "fairway-operator")
	if err != nil {
		return err
	}
	kubeconfig, err := t.cluster.WriteKubeconfig("operator", account)
	if err != nil {
		return err
	}
	t.sched = &scheduler{}
	var api, health string
	for _, a := range []*string{&api, &health, &t.sched.metrics, &t.sched.pprof} {
		if *a, err = freeAddress(); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("policy: %q\napi: {address: %q}\nmetrics: %q\nhealth: %q\npprof: %q\nlog: {level: debug}\n", t.policy, api, t.sched.metrics, health, t.sched.pprof)
	text += strings.Join(append(t.extra, ""), "\n")
	config := filepath.Join(t.cluster.Folder, "operator.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	command := exec.Command(t.operator, "run", "--config", config, "--kubeconfig", kubeconfig, "--namespace", system)
	if err := t.start("operator", command); err != nil {
		return err
	}
	return t.until(ctx, "wait for the operator to lead", func() error {
		if !t.sched.running() {
			return fmt.Errorf("the operator has exited: %s", t.sched.tail())
		}
		response, err := http.Get("http://" + api + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// apply creates the objects of a file, except Deployments: nothing would run them.
func (t *trial) apply(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("apply manifests (from the root of the checkout): %w", err)
	}
	defer f.Close()
	var kinds []schema.GroupVersionKind
	for d := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		u := &unstructured.Unstructured{}
		err := d.Decode(u)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("apply %s: %w", path, err)
		}
		if len(u.Object) == 0 || u.GetKind() == "Deployment" {
			continue
		}
		if err := t.until(ctx, "apply "+u.GetKind()+" "+u.GetName(), func() error {
			return t.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("bench"), client.ForceOwnership)
		}); err != nil {
			return err
		}
		kinds = append(kinds, defined(u)...)
	}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := t.until(ctx, "wait for kind "+kind.Kind, func() error { return t.client.List(ctx, list, client.Limit(1)) }); err != nil {
			return err
		}
	}
	return nil
}

// defined returns the kinds that a custom resource definition adds: programs that
// start before they are served fail.
func defined(u *unstructured.Unstructured) []schema.GroupVersionKind {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if u.GetKind() != "CustomResourceDefinition" || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, crd) != nil {
		return nil
	}
	var kinds []schema.GroupVersionKind
	for _, v := range crd.Spec.Versions {
		if v.Served {
			kinds = append(kinds, schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind})
		}
	}
	return kinds
}

// until waits until a check passes.
func (t *trial) until(ctx context.Context, what string, check func() error) error {
	const most = time.Minute
	for begin := time.Now(); ; {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
		if time.Since(begin) > most {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}
