// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package realnodes

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

const (
	// registry replaces the registry of the documents. Its images are already on the
	// nodes.
	registry = "docker.io/local"
	team     = "team" // the namespace of examples/gang.yaml
	replicas = 2
)

// site is a cluster as a platform engineer sees it: real nodes, kube-scheduler, and the
// programs kubectl, helm and fairway.
type site struct {
	*kubetest.Cluster
	admin client.Client
	root  string   // of the module
	env   []string // of commands
}

// newSite starts the cluster. Only Fairway's image is on its nodes.
func newSite(t *testing.T, gpus int) *site {
	t.Helper()
	root, err := kubetest.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	programs, home := t.TempDir(), t.TempDir()
	c := kubetest.StartReal(t, nodes, kubetest.Options{ControllerManager: true, Scheduler: true, NodeGrace: nodeGrace})
	kubectl, err := kubetest.Program("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"kubectl": kubectl, "helm": helm(t, root)}
	ctx := within(t, helmWithin)
	built := t.TempDir()
	image, err := buildImage(ctx, root, built)
	if err != nil {
		t.Fatal(err)
	}
	image.Name = registry + "/fairway:" + daemon.Release
	if err := c.LoadImage(ctx, image); err != nil {
		t.Fatal(err)
	}
	links["fairway"] = filepath.Join(built, "fairway")
	for name, path := range links {
		if err := os.Symlink(path, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := loadTrainer(ctx, c, built); err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		if err := c.SetGPUs(ctx, fmt.Sprintf("real-%d", i), gpus); err != nil {
			t.Fatal(err)
		}
	}
	s := &site{Cluster: c, root: root, env: append(os.Environ(),
		"PATH="+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+c.Kubeconfig, "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_DATA_HOME="+home)}
	if s.admin, err = operator.Client(c); err != nil {
		t.Fatal(err)
	}
	if err := c.Namespace(ctx, team); err != nil {
		t.Fatal(err)
	}
	return s
}

// sh runs commands as users type them, in the folder of the repository, and returns
// their output.
func (s *site) sh(t *testing.T, commands string) string {
	t.Helper()
	command := exec.CommandContext(within(t, patience), "sh", "-ec", commands)
	command.Dir, command.Env = s.root, s.env
	out, err := command.CombinedOutput()
	t.Logf("$ %s\n%s", strings.TrimSpace(commands), out)
	if err != nil {
		t.Fatalf("%s: %v", strings.TrimSpace(commands), err)
	}
	return string(out)
}

// documented returns the commands of a document that contain some words, adapted to
// this cluster.
func (s *site) documented(t *testing.T, document, words string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.root, "docs/kubernetes", document))
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		if strings.HasPrefix(block, "    ") && strings.Contains(block, words) {
			block = strings.ReplaceAll("\n"+block, "\n    ", "\n")[1:]
			return strings.ReplaceAll(block, "REGISTRY", registry)
		}
	}
	t.Fatalf("%s has no commands with %q", document, words)
	return ""
}

// operators returns the operator's pods.
func (s *site) operators(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := s.admin.List(ctx, &list, client.InNamespace(operator.Namespace), client.MatchingLabels{"app.kubernetes.io/component": "operator"})
	return list.Items, err
}

// leader is a replica that leads.
type leader struct {
	*corev1.Pod
	holder string // of the lease; unique for each process
}

// leader returns the leading replica: it holds the lease, and its pod is the only one
// with the label.
func (s *site) leader(ctx context.Context) (leader, error) {
	pods, err := s.operators(ctx)
	if err != nil {
		return leader{}, err
	}
	var lease coordinationv1.Lease
	if err := s.admin.Get(ctx, client.ObjectKey{Namespace: operator.Namespace, Name: "fairway-operator"}, &lease); err != nil {
		return leader{}, err
	}
	var found []leader
	for i := range pods {
		if pods[i].Labels["fairway.dev/leader"] == "true" {
			found = append(found, leader{&pods[i], *lease.Spec.HolderIdentity})
		}
	}
	if len(found) != 1 {
		return leader{}, fmt.Errorf("%d of %d pods are labelled as the leader; want one", len(found), len(pods))
	}
	if l := found[0]; !strings.HasPrefix(l.holder, l.Name) {
		return leader{}, fmt.Errorf("pod %s is labelled as the leader, and %q holds the lease", l.Name, l.holder)
	}
	return found[0], nil
}

// waitLeader waits until a replica leads, and returns it.
func (s *site) waitLeader(t *testing.T) leader {
	t.Helper()
	var now leader
	eventually(t, "one replica leads", func(ctx context.Context) (err error) {
		now, err = s.leader(ctx)
		return err
	})
	return now
}

// nextLeads waits until another process leads.
func (s *site) nextLeads(t *testing.T, old leader) {
	t.Helper()
	eventually(t, "the next one leads", func(ctx context.Context) error {
		now, err := s.leader(ctx)
		if err == nil && now.holder == old.holder {
			err = fmt.Errorf("%s still leads", old.Name)
		}
		return err
	})
}

// waitInstalled waits until all replicas match the Deployment and are ready, and one
// leads.
func (s *site) waitInstalled(t *testing.T) {
	t.Helper()
	eventually(t, "both replicas are ready", func(ctx context.Context) error {
		var d appsv1.Deployment
		if err := s.admin.Get(ctx, client.ObjectKey{Namespace: operator.Namespace, Name: "fairway-operator"}, &d); err != nil {
			return err
		}
		pods, err := s.operators(ctx)
		if err != nil {
			return err
		}
		at := d.Status
		if at.ObservedGeneration < d.Generation || at.UpdatedReplicas != replicas || at.ReadyReplicas != replicas || at.Replicas != replicas || len(pods) != replicas {
			return fmt.Errorf("%d pods; %s; %+v", len(pods), waiting(pods), at)
		}
		return nil
	})
	s.waitLeader(t)
}

// waiting says what containers wait for.
func waiting(pods []corev1.Pod) string {
	var out []string
	for _, p := range pods {
		for _, k := range p.Status.ContainerStatuses {
			if k.State.Waiting != nil {
				out = append(out, fmt.Sprintf("%s: %s: %s", p.Name, k.State.Waiting.Reason, k.State.Waiting.Message))
			}
		}
	}
	return strings.Join(out, "; ")
}

// leadsTo checks that a Service routes to the pod of an address, and to no other.
func (s *site) leadsTo(ctx context.Context, service client.ObjectKey, address string) error {
	var list discoveryv1.EndpointSliceList
	if err := s.admin.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}); err != nil {
		return err
	}
	var found []string
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				found = append(found, e.Addresses...)
			}
		}
	}
	if !slices.Equal(found, []string{address}) {
		return fmt.Errorf("it leads to %q; want %s", found, address)
	}
	return nil
}

// submit applies a job with kubectl.
func (s *site) submit(t *testing.T, text string) *v1alpha1.TrainingJob {
	t.Helper()
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.sh(t, "kubectl apply -f "+file)
	_, name, _ := strings.Cut(text, "\n  name: ")
	name, _, _ = strings.Cut(name, "\n")
	return &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name}}
}

// waitState waits until a job is in a state.
func (s *site) waitState(t *testing.T, job *v1alpha1.TrainingJob, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("job %s is %s", job.Name, want), func(ctx context.Context) error {
		if err := s.admin.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.State != want {
			return fmt.Errorf("it is %s: %s", job.Status.State, job.Status.Why)
		}
		return nil
	})
}

// running returns what identifies the running containers of a job, by pod.
func (s *site) running(t *testing.T, job *v1alpha1.TrainingJob) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range s.podsOf(t, job) {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			out[p.Name] = fmt.Sprintf("pod %s on %s, container %s", p.UID, p.Spec.NodeName, p.Status.ContainerStatuses[0].ContainerID)
		}
	}
	return out
}

func (s *site) podsOf(t *testing.T, job *v1alpha1.TrainingJob) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := s.admin.List(within(t, patience), &list, client.InNamespace(job.Namespace), client.MatchingLabels{v1alpha1.LabelJob: job.Name}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// end tells the pods of a job to end, and waits until the job has finished.
func (s *site) end(t *testing.T, job *v1alpha1.TrainingJob) {
	t.Helper()
	for _, p := range s.podsOf(t, job) {
		conn, err := net.DialTimeout("tcp", p.Status.PodIP+":4000", patience)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	s.waitState(t, job, api.Finished)
}
