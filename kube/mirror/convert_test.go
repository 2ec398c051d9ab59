// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

func ptr[T any](v T) *T { return &v }

// TestSubmission: every field of a training job arrives in the submission.
// TestUnsupported: a job is refused for a field of its pods that Fairway cannot do
// justice to, also where the API server has older definitions.
func TestUnsupported(t *testing.T) {
	spec := v1alpha1.TrainingJobSpec{GPUs: 1, Template: v1alpha1.TemplateOf(corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c"}}, SchedulingGates: []corev1.PodSchedulingGate{{Name: "later"}}})}
	if _, err := submissionOfSpec(&spec, "spec"); err == nil || !strings.HasPrefix(err.Error(), "spec.template.spec.schedulingGates must be left out: ") {
		t.Errorf("%v; want it refused", err)
	}
	batch := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
	pod := &corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}}}
	if _, err := gangOf(batch, kindJob, 1, pod); err == nil || !strings.HasPrefix(err.Error(), "resourceClaims of its pods must be left out: ") {
		t.Errorf("%v; want it refused", err)
	}
}

func TestSubmission(t *testing.T) {
	job := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "bert", UID: "u-1", Annotations: map[string]string{v1alpha1.AnnotationGraph: "bert.onnx", v1alpha1.AnnotationRecipe: "amp+adam", v1alpha1.AnnotationPredicted: `{"util_low":0.2,"util_high":0.4,"memory":7}`}},
		Spec: v1alpha1.TrainingJobSpec{
			GPUs: 8, MinGPUs: ptr(int32(4)), MaxGPUs: ptr(int32(16)), Sizes: []int32{4, 8, 16}, GPUsPerPod: ptr(int32(4)),
			GPUTypes: []string{"h200", "a100"}, GPUMemory: ptr(resource.MustParse("40Gi")), MaxSpread: "rack", Topology: []v1alpha1.TopologyRule{{Required: "zone"}, {Segment: 4, Preferred: "nvlink"}},
			Batch: &v1alpha1.Batch{Initial: 32, Max: 512, LocalMin: 4, LocalMax: 64, Adapt: true},
			Share: &v1alpha1.Share{Allow: true, Utilisation: ptr(int32(40)), MilliGPU: ptr(int32(500))},
			App:   "pretrain", Priority: -3, NonPreemptible: true, Estimate: &metav1.Duration{Duration: time.Hour},
			GracePeriod: &metav1.Duration{Duration: time.Minute}, Retries: 2, Retry: "always", Screen: &metav1.Duration{}, Model: "bert-large",
			Work: "1000.5", Consolidate: true,
			Template: v1alpha1.PodTemplate{PodTemplateSpec: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "main", Image: "trainer:1", Command: []string{"torchrun"}, Args: []string{"train.py", "$$HOME"}, WorkingDir: "/src",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("15"), "memory": resource.MustParse("64Gi")}}},
				{Name: "side", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("4Gi")}}},
			}}}},
		},
	}
	got, err := submissionOf(job)
	if err != nil {
		t.Fatal(err)
	}
	want := api.Submission{
		Spec: sched.Spec{
			GPUs: 8, MinGPUs: 4, MaxGPUs: 16, Sizes: []int{4, 8, 16}, TaskGPUs: 4, GPUTypes: []sched.GPUType{"h200", "a100"}, GPUMemory: 40 << 30,
			MaxSpread: sched.SameRack, Topology: []sched.Rule{{Required: "zone"}, {Segment: 4, Preferred: "nvlink"}}, Batch: sched.Batch{Initial: 32, Max: 512, LocalMin: 4, LocalMax: 64, Adapt: true}, Shareable: true, GPUUtil: 0.4, MilliGPU: 500,
			App: "team.pretrain", Priority: -3, NonPreemptible: true, Estimate: sched.Duration(time.Hour), Model: "bert-large", Work: 1000.5, Consolidate: true,
			CPUs: 4, Memory: 17 << 30, // 15.5 CPUs and 68 GiB for 4 GPUs
		},
		Task: api.Task{
			Name: "bert", Command: []string{"torchrun", "train.py", "$HOME"}, Dir: "/src", Image: "trainer:1", GracePeriod: sched.Duration(time.Minute),
			Retries: 2, Retry: "always", Origin: "TrainingJob/team/bert", Graph: "bert.onnx", Recipe: "amp+adam", Predicted: &api.PredictedUse{UtilLow: 0.2, UtilHigh: 0.4, Memory: 7},
		},
		Key: "u-1", Screen: api.ScreenOff,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("submission (-want +got):\n%s", diff)
	}
}

// TestCounterparts: every field of a job is copied by name, or is listed here as
// converted by hand.
func TestCounterparts(t *testing.T) {
	object := reflect.TypeFor[v1alpha1.TrainingJobSpec]()
	byHand := map[string]bool{}
	for _, name := range strings.Fields("ID User Submitted TaskGPUs MilliGPU Shareable CPUs Memory Selector GPUUtil Protected " + // of sched.Spec
		"Name Command Dir Env Secrets SecretsRef Image Origin Single Graph Recipe Predicted Notify Member MovedFrom " + // of api.Task
		"GPUsPerPod GPUResource Share Suspend TTLSecondsAfterFinished Template") { // of the object
		byHand[name] = true
	}
	found := map[string]bool{}
	for _, job := range []reflect.Type{reflect.TypeFor[sched.Spec](), reflect.TypeFor[api.Task]()} {
		for f := range job.Fields() {
			_, has := object.FieldByName(f.Name)
			if found[f.Name] = true; has == byHand[f.Name] {
				t.Errorf("%s.%s: in a TrainingJob %v, converted by hand %v; want one of them", job, f.Name, has, byHand[f.Name])
			}
		}
	}
	for f := range object.Fields() {
		if found[f.Name] == byHand[f.Name] {
			t.Errorf("TrainingJobSpec.%s: in a job %v, converted by hand %v; want one of them", f.Name, found[f.Name], byHand[f.Name])
		}
	}
}

// TestBadTemplateRefused: a bad template that the API server accepts is refused, and
// the message names the field.
func TestBadTemplateRefused(t *testing.T) {
	bad := v1alpha1.TrainingJobSpec{Template: v1alpha1.PodTemplate{Problem: "template.spec has no field \"containerz\""}}
	_, err := submissionOf(&v1alpha1.TrainingJob{Spec: bad})
	if why, final := refusalOf(err); why == nil || !final || why.message != `spec.template.spec has no field "containerz"` {
		t.Errorf("%v; want it refused for good", err)
	}
	_, err = searchOf(&v1alpha1.App{Spec: v1alpha1.AppSpec{Search: &v1alpha1.Search{Trial: bad}}})
	if why, _ := refusalOf(err); why == nil || why.message != `spec.search.trial.template.spec has no field "containerz"` {
		t.Errorf("%v; want it refused", err)
	}
}

// FuzzRoundTrip: a job file that becomes an object and comes back is the same, as far
// as an object can express it, and no content breaks the conversion.
func FuzzRoundTrip(f *testing.F) {
	f.Add("bert", "train.py $(HOME) $$", 8, 4, 16, int64(40<<30), uint64(1), 0.3, "30s", 1000.0)
	f.Add("", "x", 1, 0, 0, int64(0), uint64(7), 0.0, "off", 0.0)
	f.Add("a\x00b", "", -5, math.MaxInt, math.MinInt, int64(math.MaxInt64), uint64(math.MaxUint64), math.NaN(), "never", math.Inf(1))
	f.Fuzz(func(t *testing.T, name, command string, gpus, least, most int, memory int64, bits uint64, util float64, screen string, work float64) {
		s := api.Submission{
			Spec: sched.Spec{
				GPUs: gpus, MinGPUs: least, MaxGPUs: most, TaskGPUs: int(bits % 9), GPUMemory: memory, Memory: memory, CPUs: int(bits % 64),
				Shareable: bits&1 != 0, NonPreemptible: bits&2 != 0, Consolidate: bits&4 != 0, GPUUtil: util, MaxSpread: sched.Level(bits >> 3 % 5),
				Priority: int(int16(bits >> 8)), Estimate: sched.Duration(bits >> 20), Work: work, Batch: sched.Batch{Initial: int(bits >> 9 & 0xff), Adapt: bits&8 != 0},
				Topology: []sched.Rule{{Segment: int(bits >> 12 & 0xff), Required: "zone"}, {Preferred: "rack"}},
			},
			Task:   api.Task{Name: name, Command: []string{command, name}, Env: map[string]string{"A": command}, Retries: int(bits % 101), GracePeriod: sched.Duration(bits % uint64(time.Hour))},
			Screen: screen,
		}
		check := s
		check.ID = "new"
		object, err := objectOf(&s, "image")
		if check.Validate() != nil {
			return // it must only not panic
		}
		if err != nil {
			t.Fatalf("a valid job: %v", err)
		}
		object.Namespace, object.Name = "team", objectName(&s, "red")
		if n := len(object.Name); n == 0 || n > 50 || strings.Trim(object.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("name %q; want 1 to 50 letters, digits and dashes", object.Name)
		}
		back, err := submissionOf(object)
		if err != nil {
			t.Fatal(err)
		}
		want := s
		want.Name, want.Image, want.Origin, want.Env = object.Name, "image", "TrainingJob/team/"+object.Name, nil
		want.TaskGPUs = max(1, s.TaskGPUs)
		want.Estimate, want.GracePeriod = sched.Duration(s.Estimate.D().Round(time.Millisecond)), sched.Duration(s.GracePeriod.D().Round(time.Millisecond))
		want.GPUUtil = math.Ceil(s.GPUUtil*100) / 100
		want.Screen = back.Screen // compared below
		if s.MaxGPUs == 0 {
			want.MinGPUs = 0 // it means nothing without max_gpus
		}
		if s.GPUs < math.MaxInt32 && s.MaxGPUs < math.MaxInt32 && s.Memory < math.MaxInt64/16 && math.Abs(back.Work-s.Work) <= 1e-9 {
			want.Work = back.Work
			if diff := cmp.Diff(want, back); diff != "" {
				t.Errorf("back (-want +got):\n%s", diff)
			}
		}
		was, asked, _ := s.ScreenTime()
		is, still, err := back.ScreenTime()
		if err != nil || asked != still || sched.Duration(was.D().Round(time.Millisecond)) != is {
			t.Errorf("screen %q came back as %q, %v", s.Screen, back.Screen, err)
		}
	})
}

// TestBatchRefused: which batch Jobs are refused, and why.
func TestBatchRefused(t *testing.T) {
	good := func() *batchv1.Job {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "plain", UID: "u-2"},
			Spec: batchv1.JobSpec{Suspend: ptr(true), Parallelism: ptr(int32(3)), Completions: ptr(int32(3)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				SchedulerName: "fairway",
				Containers:    []corev1.Container{{Name: "main", Image: "x", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}}}},
			}}},
		}
	}
	s, err := submissionOfBatch(good())
	if err != nil || s.GPUs != 6 || s.TaskGPUs != 2 || s.Origin != "Job/team/plain" || s.Key != "u-2" {
		t.Errorf("submission %+v, %v; want 3 pods of 2 GPUs", s, err)
	}
	willing := good()
	willing.Annotations = map[string]string{v1alpha1.AnnotationPreemptible: "true"}
	if s, err := submissionOfBatch(willing); err != nil || s.Preemptible == nil || !*s.Preemptible {
		t.Errorf("submission %+v, %v; want it preemptible", s, err)
	}
	first := good()
	first.Spec.Template.Spec.InitContainers = []corev1.Container{
		{Name: "proxy", RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways), Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}}},
		{Name: "check", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4"), "cpu": resource.MustParse("6")}}},
	}
	if s, err := submissionOfBatch(first); err != nil || s.GPUs != 12 || s.TaskGPUs != 4 || s.CPUs != 2 {
		t.Errorf("submission %+v, %v; want 3 pods of 4 GPUs and 8 CPUs, which the node sets aside for them", s, err)
	}
	for want, edit := range map[string]func(*batchv1.Job){
		`preemptible] is "maybe"; use`:    func(j *batchv1.Job) { j.Annotations = map[string]string{v1alpha1.AnnotationPreemptible: "maybe"} },
		"spec.suspend is not true":        func(j *batchv1.Job) { j.Spec.Suspend = nil },
		`schedulerName is ""`:             func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulerName = "" },
		"requests 0 GPUs":                 func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Resources.Limits = nil },
		"spec.completions is 1, less":     func(j *batchv1.Job) { j.Spec.Completions = ptr(int32(1)) },
		"spec.parallelism is 2000000000;": func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = ptr(int32(2e9)), nil },
	} {
		job := good()
		edit(job)
		if _, err := submissionOfBatch(job); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestBindings: the free places of a gang go to the pods that wait, in order.
func TestBindings(t *testing.T) {
	pod := func(name, node string, phase corev1.PodPhase) *corev1.Pod {
		gpu := corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: phase},
			Spec: corev1.PodSpec{NodeName: node, SchedulerName: "fairway", Containers: []corev1.Container{{Resources: gpu}}},
		}
	}
	fetch := pod("fetch", "", corev1.PodPending)
	fetch.Spec.Containers = nil
	large := pod("large", "", corev1.PodPending) // an init container requests two
	large.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}}}}
	var got []string
	for _, b := range bindings([]*corev1.Pod{
		fetch, pod("done", "a", corev1.PodSucceeded), pod("runs", "b", corev1.PodRunning),
		pod("first", "", corev1.PodPending), pod("second", "", corev1.PodPending), pod("third", "", corev1.PodPending),
		large,
	}, []string{"a", "b", "b", "c"}, 1) {
		got = append(got, b.pod.Name+" on "+b.node)
	}
	if diff := cmp.Diff([]string{"fetch on a", "first on a", "second on b", "third on c"}, got); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
}

// TestBoundBefore: a pod that the cache does not show to be bound yet keeps its place.
func TestBoundBefore(t *testing.T) {
	gpu := corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec:       corev1.PodSpec{SchedulerName: "fairway", Containers: []corev1.Container{{Resources: gpu}}},
		}
	}
	first, second := pod("first"), pod("second")
	var b bound
	for _, x := range bindings(b.fill("job", []*corev1.Pod{first}), []string{"a", "b"}, 1) {
		b.note("job", x.pod.UID, x.node)
	}
	got := bindings(b.fill("job", []*corev1.Pod{first, second}), []string{"a", "b"}, 1)
	if len(got) != 1 || got[0].pod.Name != "second" || got[0].node != "b" {
		t.Errorf("got %+v; want second on b", got)
	}
	if first.Spec.NodeName != "" {
		t.Error("the pod of the cache was changed")
	}
	b.forget("job")
	if got := b.fill("job", []*corev1.Pod{first}); got[0].Spec.NodeName != "" {
		t.Errorf("it is still thought to be on %s", got[0].Spec.NodeName)
	}
}

// TestUrgent: texts that change all the time are not urgent.
func TestUrgent(t *testing.T) {
	status := func(state, reason, why string) *v1alpha1.TrainingJobStatus {
		return &v1alpha1.TrainingJobStatus{State: state, Why: why, Conditions: []metav1.Condition{{Type: v1alpha1.Running, Reason: reason, Message: why}}}
	}
	for _, c := range []struct {
		from, to *v1alpha1.TrainingJobStatus
		want     bool
	}{
		{status("waiting", "Full", "2 are free"), status("waiting", "Full", "3 are free"), false},
		{status("waiting", "Full", ""), status("waiting", "Behind", ""), false},
		{status("waiting", "New", ""), status("waiting", "Full", ""), true},
		{status("waiting", "Full", ""), status("waiting", "Impossible", ""), true},
		{status("waiting", "Full", ""), status("starting", "Starting", ""), true},
	} {
		if got := urgent(c.from, c.to); got != c.want {
			t.Errorf("from %s %+v to %s %+v: urgent %v; want %v", c.from.State, c.from.Conditions, c.to.State, c.to.Conditions, got, c.want)
		}
	}
}

// TestQuarantineEvent: a quarantine emits an event on the node.
func TestQuarantineEvent(t *testing.T) {
	var told []string
	m := &Mirror{index: newIndex(), Config: Config{Event: func(o runtime.Object, kind, reason, message string) {
		told = append(told, fmt.Sprintf("%s %s %s: %s", o.(*corev1.Node).Name, kind, reason, message))
	}}}
	for _, r := range []api.Record{
		{Quarantine: &diagnose.NodeChange{Node: "n1", State: diagnose.Quarantined, Why: "different jobs fail"}, Text: "node n1 is out of use"},
		{Quarantine: &diagnose.NodeChange{Node: "n1", State: diagnose.InUse, Why: "the time is over"}},
		{Text: "a note"},
	} {
		if err := m.note(r); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"n1 Warning NodeQuarantined: node n1 is out of use", "n1 Normal NodeReleased: the time is over"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestCheckResource: a job cannot request another resource as a GPU.
func TestCheckResource(t *testing.T) {
	m := &Mirror{Config: Config{Resources: []corev1.ResourceName{"example.com/gpu"}}}
	for name, want := range map[string]string{
		"": "", "nvidia.com/gpu": "", "example.com/gpu": "",
		"cpu": `spec.gpuResource is "cpu"; use one of ["example.com/gpu"], or leave it out`,
	} {
		got := ""
		if err := m.checkResource("spec", &v1alpha1.TrainingJobSpec{GPUResource: name}); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("gpuResource %q: %q; want %q", name, got, want)
		}
	}
}
