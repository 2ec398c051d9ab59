// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

func TestGangs(t *testing.T) {
	in := input{seed: 1}
	gangs := in.gangs(5000)
	pods, gpus := 0, 0
	for _, g := range gangs {
		pods, gpus = pods+g.pods, gpus+g.pods*g.gpus
	}
	if len(gangs) != 5000 || pods != 10_000 || gpus != 16_100 {
		t.Errorf("%d jobs, %d pods, %d GPUs; want 5000, 10000, 16100", len(gangs), pods, gpus)
	}
	if diff := cmp.Diff(gangs[:500], in.gangs(500), cmp.AllowUnexported(gang{})); diff != "" {
		t.Errorf("fewer jobs are not the first of more:\n%s", diff)
	}
	if in.seed = 2; cmp.Equal(gangs[:500], in.gangs(500), cmp.AllowUnexported(gang{})) {
		t.Error("two seeds give the same order")
	}
}

// TestObjects: every scheduler is given the same gang, in the objects that it knows.
func TestObjects(t *testing.T) {
	g, in := gang{pods: 4, gpus: 2}, input{runFor: 5 * time.Second}
	object := func(scheduler, kind string) client.Object {
		return contender{scheduler: scheduler, kind: kind}.object(in, 6, g)
	}
	tj, ok := object(schedulerFairway, kindTrainingJob).(*v1alpha1.TrainingJob)
	if !ok || tj.Spec.GPUs != 8 || *tj.Spec.GPUsPerPod != 2 || tj.Namespace != "team-2" || tj.Name != "job-00006" {
		t.Errorf("got %+v", tj)
	}
	for _, want := range []struct {
		scheduler, binder, label string
		suspended                bool
	}{{schedulerFairway, "fairway", v1alpha1.LabelManaged, true}, {"kube-scheduler", "", "", false}, {"kueue", "", "kueue.x-k8s.io/queue-name", true}} {
		job, ok := object(want.scheduler, kindJob).(*batchv1.Job)
		if !ok || *job.Spec.Parallelism != 4 || ptr.Deref(job.Spec.Suspend, false) != want.suspended || want.label != "" && job.Labels[want.label] == "" || job.Spec.Template.Spec.SchedulerName != want.binder {
			t.Errorf("for %s: got %+v", want.scheduler, job)
		}
	}
	vcjob, _ := object("volcano", kindVolcanoJob).(*unstructured.Unstructured)
	tasks, _, _ := unstructured.NestedSlice(vcjob.Object, "spec", "tasks")
	least, _, _ := unstructured.NestedInt64(vcjob.Object, "spec", "minAvailable")
	if len(tasks) != 1 || least != 4 {
		t.Fatalf("for volcano: got %+v", vcjob)
	}
	annotations, _, _ := unstructured.NestedStringMap(tasks[0].(map[string]any), "template", "metadata", "annotations")
	if annotations[kubetest.RunFor] != "5s" {
		t.Errorf("for volcano: the pods are %v; want them to run for 5s", tasks[0])
	}
}

// TestContenders: Fairway runs with every policy and every kind of object, a peer once.
func TestContenders(t *testing.T) {
	o := options{schedulers: []string{schedulerFairway, "kueue"}, kinds: []string{kindTrainingJob, kindJob}, policies: []string{"fifo", "las"}}
	var got []string
	for _, c := range o.contenders() {
		got = append(got, c.String())
	}
	want := []string{"fairway-fifo-trainingjob", "fairway-las-trainingjob", "fairway-fifo-job", "fairway-las-job", "kueue-job"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func podOf(job, name, attempt, node string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelJob: job, v1alpha1.LabelAttempt: attempt}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
	}
}

// TestFollower: a job is bound once, when all of its pods are, and done when all
// have succeeded.
func TestFollower(t *testing.T) {
	f := newFollower([]gang{{pods: 2}, {pods: 1}})
	begin := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	f.submitted(0, at(0))
	f.see(podOf("job-00000", "a-1-0", "1", "", corev1.PodPending), at(1))
	f.see(podOf("job-00000", "a-1-0", "1", "n", corev1.PodPending), at(2))
	f.see(podOf("job-00000", "a-1-0", "1", "n", corev1.PodRunning), at(3))
	f.see(podOf("kube-proxy", "x", "", "n", corev1.PodRunning), at(3))
	if got := f.counts(); got.bound != 0 || got.pods != 1 {
		t.Errorf("half a gang: %+v", got)
	}
	f.see(podOf("job-00000", "a-1-1", "1", "n", corev1.PodPending), at(4))
	// It was preempted, and starts again.
	f.see(podOf("job-00000", "a-2-0", "2", "n", corev1.PodPending), at(5))
	f.see(podOf("job-00000", "a-1-0", "1", "n", corev1.PodFailed), at(5))
	f.see(podOf("job-00000", "a-2-1", "2", "n", corev1.PodSucceeded), at(6))
	f.see(podOf("job-00000", "a-2-0", "2", "n", corev1.PodSucceeded), at(7))
	want := counts{bound: 1, pods: 4, done: 1, starts: 2, last: at(4)}
	if got := f.counts(); got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
	submitted, bound := f.times()
	if len(bound) != 1 || bound[0].Sub(submitted[0]) != 4*time.Second {
		t.Errorf("bound %v, submitted %v; want 4 s between", bound, submitted)
	}
}

func TestRequestsIn(t *testing.T) {
	text := `# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 12
apiserver_request_total{code="409",resource="pods",subresource="",verb="POST"} 1
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 7
apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 99
apiserver_request_total_other{verb="POST"} 5
`
	want := map[string]float64{"POST pods": 13, "POST pods/binding": 7}
	if diff := cmp.Diff(want, requestsIn([]byte(text))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecided(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	text := `{"time":"2026-03-01T12:00:00Z","level":"DEBUG","msg":"decided","policy":9000000,"whole":9000000,"jobs":1,"actions":1}
{"time":"2026-03-01T12:00:02Z","level":"DEBUG","msg":"decided","policy":1000000,"whole":20000000,"jobs":1,"actions":1}
not even JSON
{"time":"2026-03-01T12:00:03Z","level":"DEBUG","msg":"decided","policy":3000000,"whole":30000000,"jobs":1,"actions":0}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var r result
	if err := r.decided(path, time.Date(2026, time.March, 1, 12, 0, 1, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	if r.Decisions != 2 || r.DecideP50 != 2 || r.DecideP99 != 2.98 || r.DecideMax != 3 || r.WholeP50 != 25 {
		t.Errorf("got %+v; want the two after the start", r)
	}
}

func TestBounds(t *testing.T) {
	b, err := readBounds("")
	if err != nil {
		t.Fatal(err)
	}
	if b.Nodes != 1000 || len(b.Modes) != 2 {
		t.Errorf("got %+v; want both modes, for 1000 nodes", b)
	}
	good := result{Mode: modeChurn, JobsBound: 5000, JobsPerS: 1e6}
	if got := b.faults(&good); len(got) > 0 {
		t.Errorf("a good run: %v", got)
	}
	bad := result{Mode: modeChurn, JobsBound: 4999, PeakMiB: 1e6, DecideP99: 1e6}
	if got := strings.Join(b.faults(&bad), "; "); !strings.Contains(got, "4999") || strings.Count(got, "want") < 3 {
		t.Errorf("a bad run: %s", got)
	}
	path := filepath.Join(t.TempDir(), "bounds")
	if err := os.WriteFile(path, []byte(`{"nodes": 1, "speed": 7}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readBounds(path); err == nil || !strings.Contains(err.Error(), "speed") {
		t.Errorf("an unknown bound: %v; want an error that names it", err)
	}
}

// TestFlags: invalid flags are rejected before anything starts.
func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--nodes 0": "--nodes", "--mode x": "--mode", "--kind x": "--kind", "--scheduler slurm": "kueue",
		"--bare --kind job": "--bare", "--bare --scheduler fairway,kueue": "--bare", "--jobs 0": "--jobs",
		"--gang 4x8 --require rack --scheduler volcano": "--require",
	} {
		c := newCommand()
		c.SetArgs(strings.Fields(args))
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error that names %s", args, err, want)
		}
	}
}
