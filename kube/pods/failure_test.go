// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/kube/workload"
	"github.com/fairway-gpu/fairway/sched"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// ending returns a pod of a rank that failed with a code.
func ending(rank string, code int32, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j-1-" + rank, UID: types.UID(rank), Labels: map[string]string{
			v1alpha1.LabelID: "j", v1alpha1.LabelAttempt: "1", v1alpha1.LabelRank: rank,
		}},
		Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName, NodeName: "n", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(noon)},
		}}}},
	}
	if code == 0 {
		p.Status.Phase = corev1.PodSucceeded
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func terminated(p *corev1.Pod) *corev1.ContainerStateTerminated {
	return p.Status.ContainerStatuses[0].State.Terminated
}

func deleted(p *corev1.Pod) { at := metav1.NewTime(noon); p.DeletionTimestamp = &at }

func TestFailureOf(t *testing.T) {
	host := func(kind, text string) []diagnose.Event {
		return []diagnose.Event{{Kind: kind, Node: "n", Text: text}}
	}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want api.Exit
	}{
		{"code", ending("0", 3), api.Exit{Code: 3}},
		{"what it printed last", ending("0", 1, func(p *corev1.Pod) { terminated(p).Message = "Traceback\n  x\nValueError: no\x1b[0m\n\n" }), api.Exit{Code: 1, Why: "ValueError: no[0m"}},
		{"signal", ending("0", 134), api.Exit{Code: 134, Signal: "SIGABRT"}},
		{"saved", ending("0", 75), api.Exit{Code: 75, Yielded: true}},
		{"memory", ending("0", 137, func(p *corev1.Pod) { terminated(p).Reason = "OOMKilled" }), api.Exit{
			Code: 137, Signal: "SIGKILL", Why: "out of memory: a container used more memory than its limit",
			Host: host(api.HostOutOfMemory, "a container used more memory than its limit"),
		}},
		{"drained", ending("0", 143, deleted, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "evicting"}}
		}), api.Exit{Lost: true, Why: "EvictionByEvictionAPI: evicting", Host: host(hostPreempted, "EvictionByEvictionAPI: evicting")}},
		{"deleted", ending("0", 143, deleted), api.Exit{Lost: true, Why: "pod j-1-0 was deleted by somebody else"}},
		{"failed while it was deleted", ending("0", 9, deleted), api.Exit{Code: 9}},
		{"node shut down", ending("0", 143, func(p *corev1.Pod) {
			p.Status.Reason, p.Status.Message = "Terminated", "Pod was terminated in response to imminent node shutdown."
		}),
			api.Exit{Lost: true, Why: "Terminated: Pod was terminated in response to imminent node shutdown.", Host: host(hostLost, "Terminated: Pod was terminated in response to imminent node shutdown.")}},
		{"no room", ending("0", 1, func(p *corev1.Pod) { p.Status.Reason = "OutOfcpu" }), api.Exit{Lost: true, Why: "OutOfcpu", Host: []diagnose.Event{{Kind: api.HostHeldBack}, {Kind: api.HostUnfit, Node: "n"}}}},
		{"evicted", ending("0", 137, func(p *corev1.Pod) {
			p.Status.Reason, p.Status.Message = "Evicted", "The node was low on resource: memory."
		}), api.Exit{Lost: true, Why: "Evicted: The node was low on resource: memory.", Host: host(hostPreempted, "Evicted: The node was low on resource: memory.")}},
		{"refused by the kubelet", ending("0", 1, func(p *corev1.Pod) {
			p.Status.ContainerStatuses = nil
			p.Status.Reason, p.Status.Message = "UnexpectedAdmissionError", "Allocate failed due to no healthy devices present"
		}), api.Exit{Lost: true, Why: "UnexpectedAdmissionError: Allocate failed due to no healthy devices present"}},
		{"preempted by the kubelet", ending("0", 137, func(p *corev1.Pod) {
			p.Status.Reason, p.Status.Message = "Preempting", "Preempted in order to admit critical pod"
		}), api.Exit{Lost: true, Why: "Preempting: Preempted in order to admit critical pod", Host: host(hostPreempted, "Preempting: Preempted in order to admit critical pod")}},
		{"node lost", ending("0", 137, deleted, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint"}}
		}), api.Exit{Lost: true, Why: "DeletionByTaintManager: Taint manager: deleting due to NoExecute taint",
			Host: host(hostLost, "DeletionByTaintManager: Taint manager: deleting due to NoExecute taint")}},
		{"too long by its own template", ending("0", 137, func(p *corev1.Pod) {
			p.Status.Reason, p.Status.Message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
		}), api.Exit{Code: 124, Why: "DeadlineExceeded: Pod was active on the node longer than the specified deadline"}},
		{"cannot be started", ending("0", 128, func(p *corev1.Pod) {
			terminated(p).Reason, terminated(p).Message = "StartError", "exec: \"train\": executable file not found in $PATH"
		}), api.Exit{Code: 128, Why: "exec: \"train\": executable file not found in $PATH"}},
		{"unknown end", ending("0", 137, func(p *corev1.Pod) { terminated(p).Reason = "ContainerStatusUnknown" }),
			api.Exit{Lost: true, Why: "the kubelet lost the exit status of pod j-1-0", Host: host(hostLost, "the kubelet lost the exit status of pod j-1-0")}},
		{"nothing said", ending("0", 1, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }), api.Exit{Lost: true, Why: "pod j-1-0 failed"}},
	} {
		got, _ := failureOf(c.pod)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func gangOf(list ...*corev1.Pod) *gang {
	s := newStore()
	for _, p := range list {
		s.set(p)
	}
	return s.gangs[api.AttemptID{Job: "j", Number: 1}]
}

func TestVerdict(t *testing.T) {
	running := func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}}}
	}
	later := func(p *corev1.Pod) { terminated(p).FinishedAt = metav1.NewTime(noon.Add(time.Second)) }
	for _, c := range []struct {
		name string
		gang *gang
		want string // "-": it keeps running
	}{
		{"runs", gangOf(ending("0", 0, running), ending("1", 0, running)), "-"},
		{"one is done", gangOf(ending("0", 0), ending("1", 0, running)), "-"},
		{"done", gangOf(ending("0", 0), ending("1", 0)), "exited with code 0"},
		{"the first failure counts", gangOf(ending("0", 1, later), ending("1", 2)), "rank 1 exited with code 2"},
		{"a failure counts more than what follows from it", gangOf(ending("0", 0, running, deleted), ending("1", 2)), "rank 1 exited with code 2"},
		{"all saved", gangOf(ending("0", 75), ending("1", 75)), "saved its work and made room"},
		{"one saved so far", gangOf(ending("0", 75), ending("1", 0, running)), "-"},
		{"one is missing", gangOf(ending("1", 0, running)), "lost by the machine: the pod of rank 0 is gone"},
		{"one is deleted", gangOf(ending("0", 0, running, deleted), ending("1", 0, running)), "lost by the machine: pod j-1-0 was deleted by somebody else"},
		{"elsewhere", gangOf(ending("0", 0, running, func(p *corev1.Pod) { p.Spec.NodeName = "m" }), ending("1", 0, running)), "lost by the machine: pod j-1-0 is on node m instead of n"},
		{"the trainer is done", gangOf(ending("0", 0), ending("1", 0, running), ending("2", 0, running)), "exited with code 0"},
		{"a rollout fails with its end", gangOf(ending("0", 0, later), ending("1", 1), ending("2", 0, running, deleted)), "exited with code 0"},
		{"the trainer saves", gangOf(ending("0", 75), ending("1", 1), ending("2", 0, running)), "saved its work and made room"},
		{"a rollout ends before", gangOf(ending("0", 0, running), ending("1", 0), ending("2", 75)), "-"},
		{"a rollout fails", gangOf(ending("0", 0, running), ending("1", 0, running), ending("2", 3)), "rank 2 exited with code 3"},
		{"a rollout is drained", gangOf(ending("0", 0, running), ending("1", 75, deleted), ending("2", 0, running)), "lost by the machine: pod j-1-1 was deleted by somebody else"},
		{"not bound yet", gangOf(ending("0", 0, running, func(p *corev1.Pod) { p.Spec.NodeName = "" })), "-"},
	} {
		e := New(Config{})
		r := &run{nodes: []string{"n", "n"}, attempt: &api.Attempt{Task: api.Task{Origin: "TrainingJob/ns/j"}}}
		if len(c.gang.pods) == 3 {
			r.nodes, r.attempt.Task.Roles = append(r.nodes, "n"), []api.JobRole{{Name: "trainer", GPUs: 1}, {Name: "rollout", GPUs: 1, MaxGPUs: 4}}
		}
		got := "-"
		if exit := e.verdict(r, c.gang, c.gang.ranks("ns"), noon); exit != nil {
			got = exit.Text()
		}
		if got != c.want {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
}

// TestWaitsInVain: an attempt whose container cannot start ends: at once if that is
// final, otherwise after a while.
func TestWaitsInVain(t *testing.T) {
	for reason, want := range map[string]struct{ first, later bool }{ // whether the attempt ends
		"ContainerCreating": {false, false}, "PodInitializing": {false, false},
		"ErrImagePull": {false, true}, "ImagePullBackOff": {false, true}, "CreateContainerConfigError": {false, true},
		"CreateContainerError": {false, true}, "RunContainerError": {false, true}, "RegistryUnavailable": {false, true},
		"InvalidImageName": {true, true}, "ErrImageNeverPull": {true, true},
	} {
		e := New(Config{PullFor: time.Minute})
		r := &run{nodes: []string{"n"}, attempt: &api.Attempt{Task: api.Task{Origin: "TrainingJob/ns/j"}}}
		pod := ending("0", 1, func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "because"}}}}}
		})
		g := gangOf(pod)
		first := e.verdict(r, g, g.ranks("ns"), noon)
		later := e.verdict(r, g, g.ranks("ns"), noon.Add(time.Minute))
		if (first != nil) != want.first || (later != nil) != want.later {
			t.Errorf("%s: given up at once: %t, after a minute: %t; want %t and %t", reason, first != nil, later != nil, want.first, want.later)
		}
		if later != nil && (later.Lost || later.Code != 126 || !strings.Contains(later.Why, reason+": because")) {
			t.Errorf("%s: %+v; want a failure of the job that says why", reason, later)
		}
	}
}

// TestOverdue: a gang ends when one of its pods has run nothing for too long. What its
// init containers take, or an earlier holder of its GPUs, does not count.
func TestOverdue(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pending := func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}}
	}
	runs := func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodRunning} }
	preparing := func(policy *corev1.ContainerRestartPolicy) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "before", RestartPolicy: policy}}
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{
				Name: "before", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
		}
	}
	unbound := func(p *corev1.Pod) { pending(p); p.Spec.NodeName = "" }
	for _, c := range []struct {
		name    string
		second  func(*corev1.Pod) // of two pods; nil: there is none
		blocked bool
		want    string // empty: it goes on
	}{
		{"both run", runs, false, ""},
		{"one does not start", pending, false, "pod j-1-1 on node n has started no container: ContainerCreating"},
		{"one fetches data", preparing(nil), false, ""},
		{"only a sidecar runs", preparing(&always), false, "pod j-1-1 on node n has started no container; see its events"},
		{"one is not bound", unbound, false, "pod j-1-1 is not bound to node n: bind pods: no"},
		{"one does not exist", nil, false, "the pod of rank 1 does not exist: bind pods: no"},
		{"others have to leave first", unbound, true, ""},
	} {
		e := New(Config{StartFor: time.Minute})
		r := &run{nodes: []string{"n", "n"}, blocked: c.blocked, trouble: "bind pods: no"}
		list := []*corev1.Pod{ending("0", 1, runs)}
		if c.second != nil {
			list = append(list, ending("1", 1, c.second))
		}
		pods := gangOf(list...).ranks("ns")
		if exit := e.overdue(r, r.idle(pods), noon); exit != nil {
			t.Errorf("%s: given up at once: %+v", c.name, exit)
		}
		got, exit := "", e.overdue(r, r.idle(pods), noon.Add(time.Minute))
		if exit != nil {
			got = strings.TrimPrefix(exit.Text(), "could not be started: not all its pods started within 1m0s: ")
		}
		if got != c.want {
			t.Errorf("%s: after a minute it ends with %q; want %q", c.name, got, c.want)
		}
	}
}

func TestLeftBy(t *testing.T) {
	asked := func(seconds time.Duration) func(*corev1.Pod) { // to end, with 30 s of notice, so long after noon
		return func(p *corev1.Pod) {
			notice, at := int64(30), metav1.NewTime(noon.Add((30+seconds)*time.Second))
			p.DeletionGracePeriodSeconds, p.DeletionTimestamp = &notice, &at
		}
	}
	of := func(n int) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{annotationPods: strconv.Itoa(n)} }
	}
	r := &run{id: api.AttemptID{Job: "j", Number: 1}}
	for _, c := range []struct {
		name string
		gang *gang
		want api.Exit
	}{
		{"never begun", nil, api.Exit{Noticed: true, Why: "withdrawn before it started"}},
		{"saved", gangOf(ending("0", 75, deleted), ending("1", 75, deleted)), api.Exit{Noticed: true, Yielded: true, Code: 75}},
		{"one did not save", gangOf(ending("0", 75, deleted), ending("1", 143, deleted)), api.Exit{Noticed: true, Why: "pod j-1-1 was deleted by somebody else"}},
		{"had finished before it was asked", gangOf(ending("0", 0), ending("1", 0)), api.Exit{}},
		{"one is missing", gangOf(ending("0", 0, of(2))), api.Exit{Noticed: true}},
		{"none is missing", gangOf(ending("0", 0, of(2)), ending("1", 0, of(2))), api.Exit{}},
		{"had finished seconds before it was asked", gangOf(ending("0", 0, asked(5)), ending("1", 0)), api.Exit{}},
		{"finished in that second", gangOf(ending("0", 0, asked(1)), ending("1", 0)), api.Exit{Noticed: true}},
		{"finished in its notice", gangOf(ending("0", 0, asked(-5)), ending("1", 0)), api.Exit{Noticed: true}},
		{"was cut short", gangOf(ending("0", 0, deleted), ending("1", 0)), api.Exit{Noticed: true}},
		{"the first role saved", gangOf(ending("0", 75, of(1), deleted), ending("1", 143, of(1), deleted)), api.Exit{Noticed: true, Yielded: true, Code: 75}},
		{"only the other did", gangOf(ending("0", 143, of(1), deleted), ending("1", 75, of(1), deleted)), api.Exit{Noticed: true, Why: "pod j-1-0 was deleted by somebody else"}},
	} {
		c.want.AttemptID = r.id
		if diff := cmp.Diff(c.want, leftBy(r, c.gang)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	// The store keeps the last version of deleted pods.
	s := newStore()
	for _, rank := range []string{"0", "1"} {
		p := ending(rank, 75, deleted)
		s.set(p)
		s.drop(p)
	}
	if got := leftBy(r, s.gangs[r.id]); !got.Yielded {
		t.Errorf("pods that saved and are gone: %+v; want them to have yielded", got)
	}
	s.forget(r.id)
	if len(s.gangs)+len(s.byJob)+len(s.uses) != 0 {
		t.Errorf("a gang that was forgotten leaves %v, %v, %v", s.gangs, s.byJob, s.uses)
	}
}

func FuzzParseSet(f *testing.F) {
	for _, s := range []string{"", "0", "0-3,6", "63", "5-2", "64", "-1", "0-99999999999", "a,b-c,3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set := parseSet(text)
		if again := parseSet(set.String()); again != set {
			t.Errorf("%q gives %s, which gives %s", text, set, again)
		}
	})
}

// TestRoom: an attempt is bound only where everything that its pods request is left, not
// only GPUs.
func TestRoom(t *testing.T) {
	list := func(text map[corev1.ResourceName]string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, n := range text {
			out[name] = resource.MustParse(n)
		}
		return out
	}
	pod := func(port int32, requests map[corev1.ResourceName]string) corev1.PodSpec {
		c := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(requests)}}
		if port > 0 {
			c.Ports = []corev1.ContainerPort{{HostPort: port, ContainerPort: port}}
		}
		return corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{c}}
	}
	for _, c := range []struct {
		name        string
		other, asks corev1.PodSpec // another pod on the node, and each of two pods of the job
		want        string
	}{
		{"all fits", pod(80, map[corev1.ResourceName]string{"rdma/hca": "4"}), pod(0, map[corev1.ResourceName]string{"rdma/hca": "2", "cpu": "4", "memory": "1Gi", "ephemeral-storage": "5Gi"}), ""},
		{"devices", pod(0, map[corev1.ResourceName]string{"rdma/hca": "5"}), pod(0, map[corev1.ResourceName]string{"rdma/hca": "2"}), "node n has 3 of 8 rdma/hca left, but the job needs 4"},
		{"none of them", corev1.PodSpec{}, pod(0, map[corev1.ResourceName]string{"example.com/fpga": "1"}), "node n has 0 of 0 example.com/fpga left, but the job needs 2"},
		{"CPUs", pod(0, map[corev1.ResourceName]string{"cpu": "500m"}), pod(0, map[corev1.ResourceName]string{"cpu": "3800m"}), "node n has 7500m of 8 cpu left, but the job needs 7600m"},
		{"local storage", corev1.PodSpec{}, pod(0, map[corev1.ResourceName]string{"ephemeral-storage": "6Gi"}), "node n has 10Gi of 10Gi ephemeral-storage left, but the job needs 12Gi"},
		{"unknown memory", corev1.PodSpec{}, pod(0, map[corev1.ResourceName]string{"memory": "9Ti"}), ""},
		{"a port", pod(80, nil), pod(80, nil), "two pods of the job on node n listen on port 80 of the node; use more GPUs per pod, or no host port"},
		{"GPUs", pod(0, map[corev1.ResourceName]string{"nvidia.com/gpu": "7"}), pod(0, nil), "node n has 1 of 8 nvidia.com/gpu left, but the job needs 2: other pods took them"},
	} {
		e := New(Config{})
		e.nodes["n"] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: list(map[corev1.ResourceName]string{
			"cpu": "8", "ephemeral-storage": "10Gi", "nvidia.com/gpu": "8", "rdma/hca": "8", "pods": "3"})}}
		e.setPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "o", UID: "o"}, Spec: c.other})
		r := e.runOf(api.AttemptID{Job: "j", Number: 1})
		r.attempt, r.nodes = &api.Attempt{AttemptID: r.id, Placement: sched.Placement{{Milli: sched.WholeGPU, GPUs: 0b11}}}, []string{"n", "n"}
		r.plan = e.planOf(r, workload.Pod{Templates: []corev1.PodTemplateSpec{{Spec: c.asks}}, GPUResource: "nvidia.com/gpu"})
		got := ""
		if exit := e.shortage(r); exit != nil {
			got = exit.Why
			if waits := exit.Saw(api.HostHeldBack) && exit.Saw(api.HostUnfit); waits == (c.name == "GPUs") {
				t.Errorf("%s: %+v; want it held back, unless the scheduler counts these", c.name, exit)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
	e := New(Config{})
	e.nodes["n"] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: list(map[corev1.ResourceName]string{"nvidia.com/gpu": "8", "pods": "1"})}}
	r := e.runOf(api.AttemptID{Job: "j", Number: 1})
	r.attempt, r.nodes = &api.Attempt{AttemptID: r.id, Placement: sched.Placement{{Milli: sched.WholeGPU, GPUs: 0b1}}}, []string{"n"}
	r.plan = e.planOf(r, workload.Pod{Templates: []corev1.PodTemplateSpec{{Spec: pod(80, nil)}}, GPUResource: "nvidia.com/gpu"})
	if exit := e.shortage(r); exit != nil {
		t.Errorf("an empty node: %+v", exit)
	}
	e.setPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "o", UID: "o"}, Spec: pod(80, nil)})
	if exit := e.shortage(r); exit == nil || exit.Why != "node n has 0 of 1 pods left, but the job needs 1" {
		t.Errorf("a full node: %+v", exit)
	}
	e.nodes["n"].Status.Allocatable["pods"] = resource.MustParse("9")
	if exit := e.shortage(r); exit == nil || exit.Why != "another pod listens on port 80 of node n" {
		t.Errorf("a taken port: %+v", exit)
	}
}

func TestSeats(t *testing.T) {
	a := &api.Attempt{Spec: sched.Spec{TaskGPUs: 2}, Placement: sched.Placement{
		{Node: 3, Milli: sched.WholeGPU, GPUs: 0b110110}, {Node: 1, Milli: 400, GPUs: 0b11}}}
	want := []seat{{3, 0b110, 1000}, {3, 0b110000, 1000}, {1, 0b11, 400}}
	got := seatsOf(a)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(seat{})); diff != "" {
		t.Errorf("seats (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		offer
		want []int64
	}{
		{offer{replicas: 1}, []int64{2, 2, 2}},
		{offer{replicas: 4}, []int64{8, 8, 2}}, // shared: one replica of each GPU, whatever the part
		{offer{replicas: 4, mps: true}, []int64{2, 2, 2}},
	} {
		for i, want := range c.want {
			if d := got[i].devices(c.offer); d != want {
				t.Errorf("%+v: seat %d asks for %d devices; want %d", c.offer, i, d, want)
			}
		}
	}
}

// TestPod: a template cannot override what Fairway sets.
func TestPod(t *testing.T) {
	own := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "x", v1alpha1.LabelID: "other"}},
		Spec: corev1.PodSpec{
			NodeName: "mine", SchedulerName: "default-scheduler", RestartPolicy: corev1.RestartPolicyAlways,
			InitContainers: []corev1.Container{{Name: "before", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4"), "cpu": resource.MustParse("1")}, Requests: corev1.ResourceList{"amd.com/gpu": resource.MustParse("4")},
			}}},
			Containers: []corev1.Container{
				{Name: "side", Resources: corev1.ResourceRequirements{}},
				{Name: "trainer", Env: []corev1.EnvVar{{Name: "RANK", Value: "99"}, {Name: "MINE", Value: "$(RANK)"}},
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("64")}}},
			},
		},
	}
	a := &api.Attempt{AttemptID: api.AttemptID{Job: "j-7", Number: 2}, Placement: sched.Placement{{Milli: sched.WholeGPU, GPUs: 0b11}}, BatchScale: 0.5}
	p := &plan{attempt: a, from: workload.Pod{Templates: []corev1.PodTemplateSpec{own}, Namespace: "ns", Name: "j", GPUResource: "nvidia.com/gpu"}, seats: seatsOf(a), at: []api.Position{{}, {Rank: 1, Seat: 1}}, nodes: []string{"n", "n"}, devices: []int64{1, 1}, offers: []offer{{resource: "nvidia.com/gpu"}, {resource: "nvidia.com/gpu"}}}
	c := Config{Tolerated: []string{"team"}}.withDefaults()
	pod := c.pod(p, 1)
	if pod.Name != "j-2-1" || pod.Labels[v1alpha1.LabelID] != "j-7" || pod.Labels["team"] != "x" || pod.Spec.NodeName != "" ||
		pod.Spec.SchedulerName != v1alpha1.SchedulerName || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("pod %+v", pod)
	}
	for name, want := range keepNode {
		if _, kept := pod.Annotations[name]; kept {
			t.Errorf("%s is set for a job that can be stopped", name)
		}
		pinned := *p
		held := *a
		held.Pinned = true
		pinned.attempt = &held
		if got := c.pod(&pinned, 1).Annotations[name]; got != want {
			t.Errorf("%s of a pinned job is %q; want %q", name, got, want)
		}
	}
	trainer := pod.Spec.Containers[1]
	if q := trainer.Resources.Limits["nvidia.com/gpu"]; q.Value() != 1 || len(pod.Spec.Containers[0].Resources.Limits) != 0 {
		t.Errorf("the trainer gets %s GPUs and the other %v; want 1 and none", q.String(), pod.Spec.Containers[0].Resources.Limits)
	}
	if r := pod.Spec.InitContainers[0].Resources; len(r.Limits) != 1 || len(r.Requests) != 0 {
		t.Errorf("the container before them gets %v; want a CPU and no GPU: it counts for the pod", r)
	}
	env := map[string]string{}
	for i, v := range trainer.Env {
		if _, twice := env[v.Name]; twice {
			t.Errorf("%s is set twice", v.Name)
		}
		env[v.Name] = v.Value
		if v.Name == "MINE" && i < len(trainer.Env)-1 {
			t.Error("the container's own variables come before those they may refer to")
		}
	}
	if env["RANK"] != "1" || env["WORLD_SIZE"] != "2" || env["FAIRWAY_BATCH_SCALE"] != "0.5" || env["FAIRWAY_TOKEN_FILE"] == "" || env["FAIRWAY_TOKEN"] != "" {
		t.Errorf("environment %v", env)
	}
	if len(pod.Spec.Tolerations) != 2 || len(own.Spec.Containers[1].Env) != 2 {
		t.Errorf("tolerations %v, the template was changed: %t", pod.Spec.Tolerations, len(own.Spec.Containers[1].Env) != 2)
	}
}

// TestDevicesOf: devices count whichever container requests them; CPUs and memory do
// not.
func TestDevicesOf(t *testing.T) {
	of := func(name corev1.ResourceName, n string) []corev1.Container {
		return []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse(n), "cpu": resource.MustParse("9")}}}}
	}
	got := devicesOf(&corev1.PodSpec{InitContainers: of("example.com/fpga", "4"), Containers: of("nvidia.com/gpu", "2")})
	if want := (map[corev1.ResourceName]int64{"example.com/fpga": 4, "nvidia.com/gpu": 2}); !maps.Equal(got, want) {
		t.Errorf("it holds %v; want %v", got, want)
	}
	if got := devicesOf(&corev1.PodSpec{Containers: []corev1.Container{{}}}); got != nil {
		t.Errorf("a pod without devices holds %v", got)
	}
}

// TestPlanOf: a resource that is not a GPU does not replace GPUs.
func TestPlanOf(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("64"), "nvidia.com/gpu": resource.MustParse("8")}}}
	e := New(Config{})
	e.nodes = map[string]*corev1.Node{"n": node}
	a := &api.Attempt{Placement: sched.Placement{{Milli: sched.WholeGPU, GPUs: 0b1}}}
	for _, asked := range []corev1.ResourceName{"cpu", "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/gpus"} {
		p := e.planOf(&run{attempt: a, nodes: []string{"n"}}, workload.Pod{GPUResource: asked})
		if len(p.offers) != 1 || p.offers[0].resource != "nvidia.com/gpu" || p.devices[0] != 1 {
			t.Errorf("a job that asks for %s gets %v of %+v; want 1 nvidia.com/gpu", asked, p.devices, p.offers)
		}
	}
}

// TestOtherGPUs: a job that requests one vendor's GPUs does not get another's.
func TestOtherGPUs(t *testing.T) {
	e := New(Config{})
	e.nodes = map[string]*corev1.Node{}
	for name, gpu := range map[string]corev1.ResourceName{"a": "amd.com/gpu", "n": "nvidia.com/gpu", "s": "nvidia.com/gpu.shared"} {
		e.nodes[name] = &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{gpu: resource.MustParse("8")}}}
	}
	for _, c := range []struct {
		asked corev1.ResourceName
		node  string
		unfit int
	}{
		{"nvidia.com/gpu", "a", 0}, {"nvidia.com/gpu.shared", "n", 0}, {"nvidia.com/gpu.shared", "a", 1}, {"amd.com/gpu", "a", 0}, {"amd.com/gpu", "s", 2},
	} {
		exit := e.otherGPUs(&run{nodes: []string{c.node}}, c.asked)
		if (exit == nil) != (c.unfit == 0) || exit != nil && (!exit.Lost || len(exit.Host) != c.unfit) {
			t.Errorf("a job that asks for %s on node %s: %+v; want %d nodes to avoid", c.asked, c.node, exit, c.unfit)
		}
	}
}

// TestCopyLog: logs are found by attempt and rank, and followed from attempt to
// attempt.
func TestCopyLog(t *testing.T) {
	over := false
	e := New(Config{
		Ended: func(sched.JobID) bool { return over },
		ReadLog: func(_ context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
			if namespace != "ns" || o.Container != "c" {
				return nil, errors.New("not found")
			}
			return io.NopCloser(strings.NewReader(strings.Repeat("x\n", 100_000) + "from " + pod + "\n")), nil
		},
	})
	read := func(q api.LogQuery) string {
		var b bytes.Buffer
		if err := e.CopyLog(t.Context(), "j", q, &b); err != nil {
			return "error: " + err.Error()
		}
		return lastLine(b.String())
	}
	if got := read(api.LogQuery{}); !strings.HasPrefix(got, "error: ") {
		t.Errorf("a job without pods has the log %q", got)
	}
	e.setPod(ending("0", 3))
	e.setPod(ending("1", 3))
	second := ending("0", 3, func(p *corev1.Pod) { p.Name, p.UID, p.Labels[v1alpha1.LabelAttempt] = "j-2-0", "x", "2" })
	e.setPod(second)
	for q, want := range map[api.LogQuery]string{
		{}: "from j-2-0", {Attempt: 1}: "from j-1-0", {Attempt: 1, Rank: 1}: "from j-1-1",
	} {
		if got := read(q); got != want {
			t.Errorf("%+v: %q; want %q", q, got, want)
		}
	}
	for _, q := range []api.LogQuery{{Rank: 7}, {Rank: -1}, {Stream: "stderr"}, {Attempt: 9}} {
		if got := read(q); !strings.HasPrefix(got, "error: ") {
			t.Errorf("%+v: %q; want an error", q, got)
		}
	}
	over = true
	if got := read(api.LogQuery{Follow: true}); got != "from j-2-0" {
		t.Errorf("followed to the end: %q", got)
	}
	tails := e.tails(t.Context(), []source{{"ns", "a", "c", 0}, {"gone", "b", "c", 1}, {"ns", "c", "c", 2}}, 2)
	if len(tails) != 2 || tails[0].Rank != 2 || len(tails[0].Text) > diagnose.TailBytes || lastLine(tails[0].Text) != "from c" {
		t.Errorf("%d tails; want those of ranks 2 and 0, in that order and bounded", len(tails))
	}
}
