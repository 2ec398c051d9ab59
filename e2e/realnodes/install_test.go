// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package realnodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// everything is a values file that turns on each option of the chart.
const everything = `
policy: tiresias
tls: {secretName: fairway-tls}
config: {pods: {rendezvous: ip}}
signatures: {reasons: []}
metrics: {serviceMonitor: {enabled: true}, dashboard: {enabled: true}}
networkPolicy: {enabled: true}
priorityClassName: system-cluster-critical
imagePullSecrets: [{name: registry}]
nodeSelector: {role: infra}
tolerations: [{key: infra, operator: Exists}]
`

// TestInstall: with the commands of the documents, Fairway is installed on real nodes
// with Helm, runs a gang, loses its leader, is upgraded, uninstalled, reinstalled, and
// installed without Helm. The gang is not affected.
func TestInstall(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	begin := time.Now()
	s.sh(t, "kubectl create namespace "+operator.Namespace+"\nkubectl label namespace "+operator.Namespace+" pod-security.kubernetes.io/enforce=restricted")
	var gang *v1alpha1.TrainingJob
	var before map[string]string
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"lint", s.testLint},
		{"install", s.testHelmInstall},
		{"confined", s.testConfined},
		{"gang", func(t *testing.T) { gang, before = s.testGang(t) }},
		{"fairway", s.testCommand},
		{"crash", s.testCrash},
		{"delete", s.testDeleteLeader},
		{"upgrade", s.testUpgrade},
		{"evict", s.testEvict},
		{"uninstall", func(t *testing.T) { s.testUninstall(t, gang, before) }},
		{"manifests", s.testManifests},
	} {
		if !t.Run(step.name, step.run) {
			s.sh(t, "kubectl get pods -A -o wide; kubectl logs -n "+operator.Namespace+" -l app.kubernetes.io/component=operator --prefix --tail 30 || true")
			return
		}
		if gang == nil || gang.Status.State == api.Finished {
			continue
		}
		if diff := cmp.Diff(before, s.running(t, gang)); diff != "" {
			t.Fatalf("after %q the gang is not what it was (-before +after):\n%s", step.name, diff)
		}
	}
	t.Logf("all of it took %v", time.Since(begin).Round(time.Second))
}

// testLint: Helm finds no error, with default values and with every option.
func (s *site) testLint(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte(everything), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"", " -f " + values} {
		if out := s.sh(t, "helm lint --strict deploy/chart"+option); strings.Contains(out, "[WARNING]") || !strings.Contains(out, "0 chart(s) failed") {
			t.Errorf("helm lint says %s", out)
		}
	}
	// The API server validates each object, except those of kinds that it does not
	// have.
	s.sh(t, fmt.Sprintf("helm template fairway deploy/chart -n %s -f %s --set metrics.serviceMonitor.enabled=false,policy= > %[2]s.out; kubectl apply --dry-run=server --server-side -f %[2]s.out", operator.Namespace, values))
}

func (s *site) testHelmInstall(t *testing.T) {
	begin := time.Now()
	out := s.sh(t, s.documented(t, "install.md", "helm install"))
	if want := "Fairway is installed in " + operator.Namespace; !strings.Contains(out, want) {
		t.Errorf("Helm does not say %q", want)
	}
	s.waitInstalled(t)
	t.Logf("from the commands to two replicas of which one leads: %v", time.Since(begin).Round(100*time.Millisecond))
	version := s.sh(t, "kubectl exec -n "+operator.Namespace+" deploy/fairway-operator -- /fairway-operator --version")
	if chart := s.sh(t, "helm list -n "+operator.Namespace+" -o json"); !strings.Contains(chart, `"app_version":"`+lastWord(version)+`"`) {
		t.Errorf("the image is of version %q, the chart says %s", version, chart)
	}
	if out = s.sh(t, s.documented(t, "install.md", "kubectl explain trainingjob.spec")); !strings.Contains(out, "gpusPerPod") || strings.Count(out, "1/1") != replicas+1 {
		t.Errorf("want %d ready pods, one of them again as the leader, and the field gpusPerPod explained", replicas)
	}
}

func lastWord(text string) string {
	words := strings.Fields(text)
	return words[len(words)-1]
}

// testConfined: the operator's processes have no more privileges than the chart says,
// in a namespace that would reject others.
func (s *site) testConfined(t *testing.T) {
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: "plain"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: kubetest.PodImage}}}}
	if err := s.admin.Create(t.Context(), plain, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("a pod that is not confined, in the operator's namespace: %v; want it refused", err)
	}
	pods, err := s.operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		pid := processOf(t, p)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Uid:\t65532\t65532\t65532\t65532", "Gid:\t65532\t65532\t65532\t65532", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
			if !strings.Contains(string(status), "\n"+want+"\n") {
				t.Errorf("pod %s: its process is not %q:\n%s", p.Name, want, status)
			}
		}
		mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid))
		if err != nil {
			t.Fatal(err)
		}
		if root, _, _ := strings.Cut(string(mounts), "\n"); !strings.Contains(root, " / overlay ro,") {
			t.Errorf("pod %s: its root is mounted as %q; want read-only", p.Name, root)
		}
	}
}

// processOf returns the operator of a pod as a process of this machine.
func processOf(t *testing.T, pod corev1.Pod) int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		group, err1 := os.ReadFile(file)
		program, err2 := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if errors.Join(err1, err2) != nil || !strings.Contains(string(group), "/pod"+string(pod.UID)+"/") || !strings.HasPrefix(string(program), "/fairway-operator\x00") {
			continue // it has ended, or is another process
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/cgroup", &pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Fatalf("pod %s has no process of the operator", pod.Name)
	return 0
}

// testGang: the gang of the example runs, on both nodes.
func (s *site) testGang(t *testing.T) (*v1alpha1.TrainingJob, map[string]string) {
	example, err := os.ReadFile(filepath.Join(s.root, "examples/gang.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	gang := s.submit(t, strings.Replace(string(example), "args: [pause]", `args: [receive, "4000"]`, 1))
	s.waitState(t, gang, api.Running)
	before := s.running(t, gang)
	if on := fmt.Sprint(before); len(before) != nodes || !strings.Contains(on, "real-0") || !strings.Contains(on, "real-1") {
		t.Errorf("its pods are %v; want one on each node", before)
	}
	s.checkNames(t, gang)
	out := s.sh(t, "kubectl get tj -n "+team)
	for _, want := range []string{"NAME", "PHASE", "GPUS", "GOODPUT", "RHO", "WHY", "UNTIL", "AGE", "gang", "Running", "4/4"} {
		if !strings.Contains(out, want) {
			t.Errorf("kubectl get tj does not show %q", want)
		}
	}
	return gang, before
}

// checkNames checks that the names of a gang's pods resolve to them, as far as that is
// visible without a DNS.
func (s *site) checkNames(t *testing.T, gang *v1alpha1.TrainingJob) {
	t.Helper()
	want := map[string]string{} // addresses, by service and name
	for _, p := range s.podsOf(t, gang) {
		want[p.Spec.Subdomain+" "+p.Spec.Hostname] = p.Status.PodIP
	}
	eventually(t, "the pods of the gang have names", func(ctx context.Context) error {
		var list discoveryv1.EndpointSliceList
		if err := s.admin.List(ctx, &list, client.InNamespace(team)); err != nil {
			return err
		}
		got := map[string]string{}
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				if e.Hostname != nil {
					got[slice.Labels[discoveryv1.LabelServiceName]+" "+*e.Hostname] = strings.Join(e.Addresses, ",")
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}

// testCommand: the fairway command connects to the operator's pod, as the documents
// say.
func (s *site) testCommand(t *testing.T) {
	out := s.sh(t, strings.ReplaceAll(s.documented(t, "install.md", "fairway context add"), "vision", team))
	if !strings.Contains(out, "gang-1") || !strings.Contains(out, "running") {
		t.Error("fairway ps does not show the gang running")
	}
	if out = s.sh(t, "fairway explain gang-1"); !strings.Contains(out, "gang-1") {
		t.Error("fairway explain says nothing about the gang")
	}
}

// one returns a job of one GPU.
func one(name, container, more string) string {
	return fmt.Sprintf(`apiVersion: %s
kind: TrainingJob
metadata:
  name: %s
  namespace: %s
spec:
  gpus: 1
  template:
    spec:
      containers: [{name: main, imagePullPolicy: Never, %s}]
%s`, v1alpha1.GroupVersion, name, team, container, more)
}

// waits is a job of one GPU that runs until it is told to end.
func waits(name string) string {
	return one(name, fmt.Sprintf(`image: %q, args: [receive, "4000"]`, kubetest.PodImage), "")
}

// trainOne runs a job whose agent reports to the leader through the Service.
func (s *site) trainOne(t *testing.T, name string) {
	t.Helper()
	service := client.ObjectKey{Namespace: operator.Namespace, Name: "fairway"}
	address, err := s.RouteService(within(t, patience), service)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Service leads to the leader", func(ctx context.Context) error {
		now, err := s.leader(ctx)
		if err != nil {
			return err
		}
		return s.leadsTo(ctx, service, now.Status.PodIP)
	})
	// There is no DNS, so the pod gets the address in its hosts file.
	job := s.submit(t, one(name, fmt.Sprintf(`image: %q, args: [-folder, /work, -steps, "50"], volumeMounts: [{name: work, mountPath: /work}]`, trainerImage),
		fmt.Sprintf("      volumes: [{name: work, emptyDir: {}}]\n      hostAliases: [{ip: %q, hostnames: [fairway.%s.svc]}]\n", address, operator.Namespace)))
	s.waitState(t, job, api.Finished)
	log, err := s.PodLogs(within(t, patience), client.ObjectKey{Namespace: team, Name: name + "-1-0"})
	if err != nil || !strings.Contains(log, "done: 50 steps") || strings.Contains(log, "no report") {
		t.Errorf("its log says %q, %v; want 50 steps and no report that failed", log, err)
	}
	if out := s.sh(t, "fairway explain "+job.Status.ID); !strings.Contains(out, "50 of 50 (100%)") {
		t.Errorf("fairway does not know of its 50 steps")
	}
}
