// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package realnodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// patience is how long a test waits for something that takes seconds on an idle
// machine.
const patience = 3 * time.Minute

// nodeGrace is how long a node may be silent before it is marked unknown. A kubelet
// renews its lease every ten seconds.
const nodeGrace = 40 * time.Second

const nodes = 2

// trainerImage is the image of the program in ./trainer.
const trainerImage = "docker.io/local/trainer:1"

// world is a cluster of real nodes with a real operator.
type world struct {
	*kubetest.Cluster
	admin   client.Client
	fairway *operator.Operator
	program string // the trainer, on this machine
	files   string // a folder that all pods can mount
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // without a logger, clients print a warning
	os.Exit(m.Run())
}

// newWorld starts two nodes with simulated GPUs, and the operator with a policy.
func newWorld(t *testing.T, gpus int, policy string) *world {
	t.Helper()
	files := t.TempDir() // created first, so it is removed last: pods of the cluster write there
	c := kubetest.StartReal(t, nodes, kubetest.Options{ControllerManager: true, NodeGrace: nodeGrace})
	w := &world{Cluster: c, files: files}
	ctx := within(t, patience)
	// Only its owner may read a test's folder, and a pod's user may be another.
	for folder := w.files; folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range nodes {
		if err := c.SetGPUs(ctx, fmt.Sprintf("real-%d", i), gpus); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.program, err = loadTrainer(ctx, c, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	w.startOperator(t, policy)
	return w
}

// loadTrainer builds the trainer into a folder, loads its image onto the nodes, and
// returns its path.
func loadTrainer(ctx context.Context, c *kubetest.Cluster, folder string) (string, error) {
	path := filepath.Join(folder, "trainer")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./trainer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build trainer: %w: %s", err, out)
	}
	return path, c.LoadImage(ctx, kubetest.Image{Name: trainerImage, Files: map[string]string{"/trainer": path}, Entrypoint: []string{"/trainer"}})
}

func (w *world) startOperator(t *testing.T, policy string) {
	t.Helper()
	ctx := within(t, patience)
	if err := operator.Install(ctx, w.Cluster); err != nil {
		t.Fatal(err)
	}
	program, err := operator.Build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.fairway, err = operator.Start(ctx, w.Cluster, operator.Options{
		Program: program, Host: w.HostAddress(),
		Config: map[string]any{
			"policy": policy, "report": "1s",
			"pods":  map[string]any{"rendezvous": "ip"}, // there is no DNS
			"guard": map[string]any{"window": "0s"},     // resizes follow each other closely here
			"log":   map[string]any{"level": "debug"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.fairway.WaitLeads(ctx); err != nil {
		t.Fatal(err)
	}
	if w.admin, err = operator.Client(w.Cluster); err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until a check holds.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	begin := time.Now()
	ctx := within(t, patience)
	for {
		err := check(ctx)
		if err == nil {
			t.Logf("%s: after %v", what, time.Since(begin).Round(100*time.Millisecond))
			return
		}
		if errors.Is(err, errFailed) {
			t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not after %v: %v", what, patience, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// job returns a training job that runs the trainer, and creates its folder.
func (w *world) job(t *testing.T, name string, args ...string) *v1alpha1.TrainingJob {
	t.Helper()
	folder := w.folder(name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	kind := corev1.HostPathDirectory
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.TrainingJobSpec{
			GPUs: 1, GracePeriod: &metav1.Duration{Duration: 30 * time.Second},
			Template: v1alpha1.PodTemplate{PodTemplateSpec: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Volumes: []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: folder, Type: &kind}}}},
				Containers: []corev1.Container{{
					Name: "main", Image: trainerImage, ImagePullPolicy: corev1.PullNever, Args: args,
					Env:          []corev1.EnvVar{{Name: "FAIRWAY_CHECKPOINT_DIR", Value: "/work"}},
					VolumeMounts: []corev1.VolumeMount{{Name: "work", MountPath: "/work"}},
				}},
			}}},
		},
	}
}

// folder is the folder of a job's checkpoints.
func (w *world) folder(job string) string { return filepath.Join(w.files, job) }

// hurry makes the rest of a job's training run at full speed.
func (w *world) hurry(t *testing.T, job string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.folder(job), "hurry"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// submit creates a job.
func (w *world) submit(t *testing.T, job *v1alpha1.TrainingJob) {
	t.Helper()
	if err := w.admin.Create(within(t, patience), job); err != nil {
		t.Fatal(err)
	}
}

// waitRunning waits until a job runs on a number of GPUs, and has made some steps
// there.
func (w *world) waitRunning(t *testing.T, job *v1alpha1.TrainingJob, gpus int) {
	t.Helper()
	eventually(t, fmt.Sprintf("job %s runs on %d GPUs", job.Name, gpus), func(ctx context.Context) error {
		if err := w.get(ctx, job); err != nil {
			return err
		}
		if got, _, _ := strings.Cut(job.Status.Size, "/"); job.Status.State != api.Running || got != fmt.Sprint(gpus) {
			return fmt.Errorf("it is %s on %s GPUs: %s", job.Status.State, job.Status.Size, job.Status.Why)
		}
		made := 0
		for _, s := range readLedger(t, w.folder(job.Name)) {
			if s.attempt == int(job.Status.Attempt) && s.world == gpus {
				made++
			}
		}
		if made < 5 {
			return fmt.Errorf("attempt %d has made %d steps on %d GPUs", job.Status.Attempt, made, gpus)
		}
		return nil
	})
}

func (w *world) waitFinished(t *testing.T, job *v1alpha1.TrainingJob) {
	t.Helper()
	eventually(t, "job "+job.Name+" finishes", func(ctx context.Context) error {
		if err := w.get(ctx, job); err != nil {
			return err
		}
		if job.Status.State != api.Finished {
			return fmt.Errorf("it is %s: %s", job.Status.State, job.Status.Why)
		}
		return nil
	})
}

// get reads a job. If the job has failed, it returns a permanent error.
func (w *world) get(ctx context.Context, job *v1alpha1.TrainingJob) error {
	if err := w.admin.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
		return err
	}
	if job.Status.State == api.Failed {
		return fmt.Errorf("%w: %s", errFailed, job.Status.Why)
	}
	return nil
}

// errFailed means that a job has failed for good.
var errFailed = errors.New("the job has failed")

// logEvents prints the events of a job.
func (w *world) logEvents(t *testing.T, job *v1alpha1.TrainingJob) {
	t.Helper()
	var all corev1.EventList
	if err := w.admin.List(within(t, patience), &all, client.InNamespace(job.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range all.Items {
		if e.InvolvedObject.Name == job.Name {
			t.Logf("event of %s: %s: %s", job.Name, e.Reason, e.Message)
		}
	}
}
