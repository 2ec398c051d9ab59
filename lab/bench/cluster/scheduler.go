// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
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

	repository "github.com/fairway-gpu/fairway"
	"github.com/fairway-gpu/fairway/kube/kubetest"
)

// scheduler is what is under test, besides what is part of the control plane.
type scheduler struct {
	version        string
	processes      []process
	metrics, pprof string // addresses; empty: none
}

type process struct {
	*kubetest.Process
	name, log string
}

// fault returns an error with the last lines of a process that has ended.
func (s *scheduler) fault() error {
	for _, p := range s.processes {
		if !p.Running() {
			return fmt.Errorf("%s has exited: %s", p.name, p.Tail(5))
		}
	}
	return nil
}

func (s *scheduler) tail() (out string) {
	for _, p := range s.processes {
		out += p.name + ": " + p.Tail(5) + "\n"
	}
	return out
}

func (s *scheduler) stop() {
	for _, p := range s.processes {
		p.Stop(5 * time.Second)
	}
}

const system = "fairway-system"

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
	t.sched = &scheduler{}
	if t.scheduler == schedulerFairway {
		return t.openOperator(ctx)
	}
	if open := peers[t.scheduler].open; open != nil {
		return open(ctx, t)
	}
	return nil
}

// start runs a program of the scheduler under test.
func (t *trial) start(name string, command *exec.Cmd) error {
	p, err := t.cluster.Run(name, command)
	if err == nil {
		t.sched.processes = append(t.sched.processes, process{Process: p, name: name, log: filepath.Join(t.cluster.Folder, name+".log")})
	}
	return err
}

// openOperator installs Fairway from its manifests and runs the operator with the
// permissions of its service account.
func (t *trial) openOperator(ctx context.Context) error {
	if err := t.apply(ctx, "Fairway's manifests", repository.Manifests); err != nil {
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
		if err := t.sched.fault(); err != nil {
			return err
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

// apply creates objects, except Deployments: nothing would run them.
func (t *trial) apply(ctx context.Context, name string, manifests []byte) error {
	var kinds []schema.GroupVersionKind
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096); ; {
		u := &unstructured.Unstructured{}
		err := d.Decode(u)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("apply %s: %w", name, err)
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
