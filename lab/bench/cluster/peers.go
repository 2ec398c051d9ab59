// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
)

// peer is another scheduler that runs the same jobs.
type peer struct {
	kind          string // of the objects that it is given
	object        func(in input, i int, g gang) client.Object
	kubeScheduler bool                                      // kube-scheduler binds its pods
	open          func(ctx context.Context, t *trial) error // nil: kube-scheduler is all of it
}

var peers = map[string]peer{
	// It has no gangs, so it shows the best that this API server can do.
	"kube-scheduler": {kind: kindJob, object: func(in input, i int, g gang) client.Object { return in.batchJob(i, g) }, kubeScheduler: true},
	"kueue":          {kind: kindJob, object: kueueJob, kubeScheduler: true, open: openKueue},
	"volcano":        {kind: kindVolcanoJob, object: volcanoJob, open: openVolcano},
}

// programsOf returns the folder that peers/build.sh has made for a peer, and the version of
// what is in it.
func programsOf(name string) (folder, version string, err error) {
	all, err := kubetest.Program("peers")
	if err != nil {
		return "", "", fmt.Errorf("%w; then run lab/bench/cluster/peers/build.sh", err)
	}
	found, _ := filepath.Glob(filepath.Join(all, name+"-v*")) // the pattern is valid
	if len(found) != 1 {
		return "", "", fmt.Errorf("%d versions of %s in %s; run lab/bench/cluster/peers/build.sh, which leaves one", len(found), name, all)
	}
	return found[0], strings.TrimPrefix(filepath.Base(found[0]), name+"-"), nil
}

// install creates the kinds of a peer, and objects of them.
func (t *trial) install(ctx context.Context, name string, objects string) (folder string, err error) {
	folder, t.sched.version, err = programsOf(name)
	if err != nil {
		return "", err
	}
	crds, err := os.ReadFile(filepath.Join(folder, "crds.yaml"))
	if err != nil {
		return "", fmt.Errorf("install %s: %w", name, err)
	}
	if err := t.apply(ctx, "the kinds of "+name, crds); err != nil {
		return "", err
	}
	return folder, t.apply(ctx, "the queues of "+name, []byte(objects))
}

// write fills in a file for a peer, in the folder of the cluster.
func (t *trial) write(name, text string, pairs ...string) (path string, err error) {
	path = filepath.Join(t.cluster.Folder, name)
	if err := os.WriteFile(path, []byte(strings.NewReplacer(pairs...).Replace(text)), 0o600); err != nil {
		return "", fmt.Errorf("write configuration: %w", err)
	}
	return path, nil
}

// Kueue admits Jobs with a node for each pod, and kube-scheduler binds the pods there.

//go:embed peers/kueue-config.yaml
var kueueConfig string

//go:embed peers/kueue-queues.yaml
var kueueQueues string

func openKueue(ctx context.Context, t *trial) error {
	queues := strings.NewReplacer("{gpus}", strconv.Itoa(t.nodes*t.gpus), "{type}", gpuType, "{rack}", kubetest.LabelRack).Replace(kueueQueues)
	folder, err := t.install(ctx, "kueue", queues)
	if err != nil {
		return err
	}
	addresses, err := kubetest.FreeAddresses("127.0.0.1", 2)
	if err != nil {
		return err
	}
	// It reads a certificate for the webhooks, which are not registered.
	for from, to := range map[string]string{"apiserver.crt": "tls.crt", "apiserver.key": "tls.key"} {
		if err := os.Link(filepath.Join(t.cluster.Folder, from), filepath.Join(t.cluster.Folder, to)); err != nil {
			return fmt.Errorf("give kueue a certificate: %w", err)
		}
	}
	_, port, _ := strings.Cut(addresses[1], ":")
	config, err := t.write("kueue.yaml", kueueConfig, "{health}", addresses[0], "{port}", port, "{certificates}", t.cluster.Folder)
	if err != nil {
		return err
	}
	// Visibility is an API server of its own, which nobody asks here.
	command := exec.Command(filepath.Join(folder, "kueue"), "--config="+config, "--feature-gates=VisibilityOnDemand=false", "--zap-log-level=error")
	command.Env = append(os.Environ(), "KUBECONFIG="+t.cluster.Kubeconfig)
	if err := t.start("kueue", command); err != nil {
		return err
	}
	return t.until(ctx, "wait for Kueue's queue", func() error {
		queue := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}}
		if err := t.client.Get(ctx, client.ObjectKey{Name: "all"}, queue); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(queue.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Active" && c["status"] == "True" {
				return nil
			}
		}
		return errors.Join(fmt.Errorf("it is not active: %v", conditions), t.sched.fault())
	})
}

// kueueJob asks for one rack if there is room in one, like most training jobs do.
func kueueJob(in input, i int, g gang) client.Object {
	job := in.batchJob(i, g)
	job.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "all"}
	job.Spec.Suspend = ptr.To(true)
	job.Spec.Template.Annotations["kueue.x-k8s.io/podset-preferred-topology"] = kubetest.LabelRack
	return job
}

// Volcano has a controller that creates the pods of its Jobs, and a scheduler.

//go:embed peers/volcano-scheduler.conf
var volcanoConfig string

const labelVolcanoJob = "volcano.sh/job-name"

func openVolcano(ctx context.Context, t *trial) error {
	folder, err := t.install(ctx, "volcano", "")
	if err != nil {
		return err
	}
	config, err := t.write("volcano-scheduler.conf", volcanoConfig)
	if err != nil {
		return err
	}
	common := []string{"--kubeconfig=" + t.cluster.Kubeconfig, "--leader-elect=false", "--logtostderr", "--v=1"}
	for _, program := range [][]string{
		{"vc-scheduler", "--scheduler-conf=" + config, "--plugins-dir=", "--cache-dumper=false", "--kube-api-qps=2000", "--kube-api-burst=2000"},
		// Its own limits are 50 requests a second and 3 workers.
		{"vc-controller-manager", "--kube-api-qps=2000", "--kube-api-burst=2000", "--worker-threads=20", "--worker-threads-for-podgroup=20"},
	} {
		if err := t.start(program[0], exec.Command(filepath.Join(folder, program[0]), append(program[1:], common...)...)); err != nil {
			return err
		}
	}
	return t.until(ctx, "wait for Volcano's queue", func() error {
		queue := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}}
		if err := t.client.Get(ctx, client.ObjectKey{Name: "default"}, queue); err != nil {
			return err
		}
		if state, _, _ := unstructured.NestedString(queue.Object, "status", "state"); state != "Open" {
			return errors.Join(fmt.Errorf("its state is %q", state), t.sched.fault())
		}
		return nil
	})
}

// volcanoJob has what Volcano's webhooks, which are not registered, would add.
func volcanoJob(in input, i int, g gang) client.Object {
	t := in.complete(g)
	t.Spec.SchedulerName = "volcano"
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		corev1.PodTemplateSpec `json:",inline"`
	}{t})
	if err != nil {
		panic(err) // a template is an object
	}
	pods := int64(g.pods)
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
		"spec": map[string]any{
			"schedulerName": "volcano", "queue": "default", "minAvailable": pods, "maxRetry": int64(3),
			"tasks": []any{map[string]any{"name": "train", "replicas": pods, "minAvailable": pods, "maxRetry": int64(3), "template": template}},
		},
	}}
	job.SetNamespace(namespace(i))
	job.SetName(jobName(i))
	return job
}
