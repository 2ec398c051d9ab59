// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/pods"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// wants is a policy with a fixed plan.
type wants map[sched.JobID]sched.Placement

func (p wants) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i, j := range s.Jobs {
		if at, ok := p[j.ID]; ok && (j.Phase == sched.Running || j.Ready(s.Now)) {
			plan.Want[i] = at
		} else {
			plan.Why[i] = sched.Reason{Code: sched.Behind, Need: j.GPUs}
		}
	}
	return plan
}

func (w *world) plan(p wants) {
	w.t.Helper()
	s, err := w.now().Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	actions, plan, err := sched.Decide(p, s)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.now().Apply(w.t.Context(), loop.Decision{Policy: "test", Snapshot: s, Actions: actions, Plan: plan}); err != nil {
		w.t.Fatal(err)
	}
}

// on returns GPUs of one of the world's nodes.
func (w *world) on(node int, gpus sched.GPUSet) sched.Slice {
	w.t.Helper()
	s, err := w.now().Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	i, ok := s.Cluster.Node(fmt.Sprintf("%s-%d", w.prefix, node))
	if !ok {
		w.t.Fatalf("node %d of %s is not known", node, w.prefix)
	}
	return sched.Slice{Node: int32(i), Milli: sched.WholeGPU, GPUs: gpus}
}

func (w *world) job(id sched.JobID) api.Job {
	w.t.Helper()
	j, err := w.now().Job(admin, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// waitState waits until a job is in a state, and the test has seen the pods of that
// moment.
func (w *world) waitState(id sched.JobID, state string) {
	w.t.Helper()
	w.wait(fmt.Sprintf("job %s is %s", id, state), func() bool { return w.job(id).State == state })
	w.catchUp()
}

func env(p *corev1.Pod, name string) string {
	for _, v := range p.Spec.Containers[0].Env {
		if v.Name == name {
			if v.ValueFrom != nil {
				return v.ValueFrom.FieldRef.FieldPath
			}
			return v.Value
		}
	}
	return ""
}

func sorted(list []*corev1.Pod) []*corev1.Pod {
	slices.SortFunc(list, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func TestGang(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 3, GPUs: 8}, nil)
	id := w.submit(sched.Spec{GPUs: 8, TaskGPUs: 2}, nil)
	w.plan(wants{id: {w.on(2, 0b00111111), w.on(0, 0b11000000)}})
	w.waitState(id, api.Running)
	var got []string
	for _, p := range sorted(w.of(id)) {
		gpus := p.Spec.Containers[0].Resources.Limits[kubetest.GPU]
		got = append(got, fmt.Sprintf("%s on %s: %s GPUs %s, rank %s of %s at %s", p.Name, p.Spec.NodeName, gpus.String(),
			p.Annotations[v1alpha1.AnnotationGPUs], env(p, "RANK"), env(p, "WORLD_SIZE"), env(p, "MASTER_ADDR")))
		if p.Spec.SchedulerName != "fairway" || *p.Spec.TerminationGracePeriodSeconds != 20 || p.Spec.RestartPolicy != corev1.RestartPolicyNever ||
			env(p, "PET_NPROC_PER_NODE") != "2" || env(p, "PET_NNODES") != "4" || env(p, "FAIRWAY_NODES") != "2" || env(p, "FAIRWAY_GPUS") != "8" {
			t.Errorf("pod %s: %+v", p.Name, p.Spec)
		}
	}
	addr := fmt.Sprintf("job0-1-0.fairway-gangs.%s.svc", w.namespace)
	var want []string
	for rank, at := range []string{"2: 2 GPUs 0-1", "2: 2 GPUs 2-3", "2: 2 GPUs 4-5", "0: 2 GPUs 6-7"} {
		want = append(want, fmt.Sprintf("job0-1-%d on %s-%s, rank %d of 4 at %s", rank, w.prefix, at, rank, addr))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	s := &corev1.Service{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "fairway-gangs"}, s); err != nil || s.Spec.ClusterIP != "None" || len(s.Spec.Selector) > 0 {
		t.Errorf("service %+v, %v; want a headless one, without a selector", s.Spec, err)
	}
	w.End(t, id, 0)
	w.waitState(id, api.Finished)
}

func TestByAddress(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, func(c *pods.Config) { c.Rendezvous = pods.ByIP })
	id := w.submit(sched.Spec{GPUs: 3}, nil)
	w.plan(wants{id: {w.on(0, 0b111)}})
	w.waitState(id, api.Running)
	list := sorted(w.of(id))
	for rank, p := range list {
		if rank == 0 {
			if got := env(p, "MASTER_ADDR"); got != "status.podIP" {
				t.Errorf("the first pod finds itself by %s", got)
			}
			continue
		}
		if got := p.Annotations["fairway.dev/master"]; got == "" || got != list[0].Status.PodIP {
			t.Errorf("rank %d was told %q; want the address of the first, %q", rank, got, list[0].Status.PodIP)
		}
	}
}

// TestEnds: the ends of the pods decide how the attempt ended.
func TestEnds(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 2, GPUs: 4}, nil)
	for _, c := range []struct {
		name        string
		annotations map[string]string
		act         func(id sched.JobID, list []*corev1.Pod)
		want        string // the exit, for people
		host        string
		lost        bool
	}{
		{name: "code", act: func(_ sched.JobID, list []*corev1.Pod) { w.endPod(list[2], 7) }, want: "rank 2 exited with code 7"},
		{name: "signal", act: func(_ sched.JobID, list []*corev1.Pod) { w.endPod(list[1], 139) }, want: "rank 1 was killed by SIGSEGV"},
		{name: "memory", annotations: map[string]string{kubetest.ExitReason: "OOMKilled"}, act: func(_ sched.JobID, list []*corev1.Pod) { w.endPod(list[0], 137) },
			want: "rank 0 was killed by SIGKILL: out of memory: a container used more memory than its limit", host: api.HostOutOfMemory},
		{name: "deleted", act: func(_ sched.JobID, list []*corev1.Pod) {
			if err := w.client.Delete(t.Context(), list[3]); err != nil {
				t.Fatal(err)
			}
		}, want: "lost by the machine: pod ", lost: true},
		{name: "evicted", act: func(_ sched.JobID, list []*corev1.Pod) {
			w.setStatus(list[0], func(s *corev1.PodStatus) {
				s.Phase, s.Reason, s.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
			})
		}, want: "lost by the machine: Evicted: The node was low on resource: memory.", host: "preempted", lost: true},
		{name: "refused", act: func(_ sched.JobID, list []*corev1.Pod) {
			w.setStatus(list[1], func(s *corev1.PodStatus) {
				s.Phase, s.Reason, s.Message = corev1.PodFailed, "OutOfnvidia.com/gpu", "Node didn't have enough resource"
			})
		}, want: "could not be started: OutOfnvidia.com/gpu: Node didn't have enough resource", lost: true},
	} {
		id := w.submit(sched.Spec{GPUs: 4}, c.annotations)
		w.plan(wants{id: {w.on(0, 0b0011), w.on(1, 0b0011)}})
		w.waitState(id, api.Running)
		c.act(id, sorted(w.of(id)))
		w.wait(c.name+": it ended", func() bool { return w.job(id).Exit != nil })
		j := w.job(id)
		if got := j.Exit.Text(); !strings.HasPrefix(got, c.want) || j.Exit.Lost != c.lost {
			t.Errorf("%s: exit %q, lost: %t; want %q, %t", c.name, got, j.Exit.Lost, c.want, c.lost)
		}
		if c.host != "" && (len(j.Exit.Host) != 1 || j.Exit.Host[0].Kind != c.host) {
			t.Errorf("%s: host events %+v; want %s", c.name, j.Exit.Host, c.host)
		}
		if left := w.left(id); left > 0 {
			t.Errorf("%s: %d pods are left when its end was told", c.name, left)
		}
		if j.State != api.Failed {
			w.Cancel(t, id)
		}
	}
}

// left returns how many pods of a job on the API server have not ended.
func (w *world) left(id sched.JobID) int {
	w.t.Helper()
	list := &corev1.PodList{}
	if err := w.client.List(w.t.Context(), list, client.InNamespace(w.namespace), client.MatchingLabels{v1alpha1.LabelID: string(id)}); err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for i := range list.Items {
		if !kubetest.Ended(&list.Items[i]) {
			n++
		}
	}
	return n
}

func (w *world) endPod(p *corev1.Pod, code int) {
	w.t.Helper()
	if err := w.cluster.EndPod(w.t.Context(), client.ObjectKeyFromObject(p), code); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) setStatus(p *corev1.Pod, edit func(*corev1.PodStatus)) {
	w.t.Helper()
	after := p.DeepCopy()
	edit(&after.Status)
	if err := w.client.Status().Patch(w.t.Context(), after, client.MergeFrom(p)); err != nil {
		w.t.Fatal(err)
	}
}

// TestQuotaOnPods: a job whose namespace is over its ResourceQuota gives its GPUs back,
// and runs when the quota allows.
func TestQuotaOnPods(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, nil)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	if err := w.client.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard} // what the controller would write
	if err := w.client.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	w.wait("the API server enforces the quota", func() bool { // it learns of the quota through a watch
		return apierrors.IsForbidden(w.client.Create(t.Context(), w.externalPod("probe", 0, 1), client.DryRunAll))
	})
	id := w.submit(sched.Spec{GPUs: 2}, nil)
	w.plan(wants{id: {w.on(0, 0b11)}})
	w.waitState(id, api.Waiting)
	if got := w.job(id).Exit.Text(); !strings.HasPrefix(got, "could not be started: its pods cannot be created now:") || !strings.Contains(got, "exceeded quota: none") {
		t.Errorf("it ended with %q", got)
	}
	if err := w.client.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	w.wait("it is tried again", func() bool {
		w.plan(wants{id: {w.on(0, 0b11)}})
		return w.job(id).State == api.Running
	})
}

// TestCannotStart: an attempt that will never run ends with a reason that a user can
// act on.
func TestCannotStart(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, func(c *pods.Config) { c.PullFor = time.Second })
	wantFailed := func(id sched.JobID, text string) {
		t.Helper()
		w.waitState(id, api.Failed)
		if got := w.job(id).Exit.Text(); !strings.Contains(got, text) {
			t.Errorf("it ended with %q; want %q", got, text)
		}
	}
	frozen := map[string]string{"fairway.dev/frozen": "true"} // no kubelet
	stuck := func(reason string) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) {
			s.ContainerStatuses = []corev1.ContainerStatus{{Name: "trainer", Image: "x", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "no such image"}}}}
		}
	}
	for _, reason := range []string{"InvalidImageName", "ImagePullBackOff"} {
		id := w.submit(sched.Spec{GPUs: 1}, frozen)
		w.plan(wants{id: {w.on(0, 1)}})
		w.wait("it is bound", func() bool { return len(w.of(id)) == 1 })
		p := w.of(id)[0]
		w.setStatus(p, stuck(reason))
		w.wait("its pod is told to go", func() bool { return len(w.of(id)) == 0 || w.of(id)[0].DeletionTimestamp != nil })
		if err := w.client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		wantFailed(id, "container trainer of pod "+p.Name+" cannot start: "+reason+": no such image")
	}

	id := w.submit(sched.Spec{GPUs: 1}, nil)
	w.mu.Lock()
	w.image[w.names[id]] = " bad "
	w.mu.Unlock()
	w.plan(wants{id: {w.on(0, 1)}})
	wantFailed(id, "its pods cannot be created: ")

	id = w.submit(sched.Spec{GPUs: 1}, nil)
	w.mu.Lock()
	delete(w.jobs, w.names[id])
	w.mu.Unlock()
	w.plan(wants{id: {w.on(0, 1)}})
	w.wait("it ended", func() bool { return w.job(id).Exit != nil })
	if e := w.job(id).Exit; !e.Lost || !strings.Contains(e.Why, "no longer exists") {
		t.Errorf("a job whose template is gone ended with %+v", e)
	}
}

// TestStartWithin: a gang that does not start gives its GPUs back after a while, says
// why, and waits before it is tried again.
func TestStartWithin(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, func(c *pods.Config) { c.StartFor = time.Second })
	id := w.submit(sched.Spec{GPUs: 4}, map[string]string{"fairway.dev/frozen": "true"}) // no kubelet
	w.plan(wants{id: {w.on(0, 0b1111)}})
	w.wait("it gives its GPUs back", func() bool {
		for _, p := range w.of(id) {
			if p.DeletionTimestamp == nil {
				continue
			}
			if err := w.client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
		return w.job(id).State == api.Waiting && w.job(id).Exit != nil
	})
	j := w.job(id)
	if got := j.Exit.Text(); !strings.HasPrefix(got, "could not be started: not all its pods started within 1s: pod ") {
		t.Errorf("it ended with %q", got)
	}
	if !j.Status.NotBefore.After(j.Exit.At) || w.left(id) > 0 || j.Status.Failures > 0 {
		t.Errorf("it may start at %v, has %d pods and failed %d times; want a back-off, none, and never", j.Status.NotBefore, w.left(id), j.Status.Failures)
	}
}

// TestSelector: a node that the template does not accept is not used, and the next
// decision avoids it.
func TestSelector(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 2, GPUs: 4}, nil)
	n := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: w.prefix + "-1"}, n); err != nil {
		t.Fatal(err)
	}
	before := n.DeepCopy()
	n.Labels["disk"] = "fast"
	if err := w.client.Patch(t.Context(), n, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	id := w.submit(sched.Spec{GPUs: 2}, map[string]string{selector: "fast"})
	w.plan(wants{id: {w.on(0, 0b11)}})
	w.wait("it is given back", func() bool { return w.job(id).Exit != nil })
	j := w.job(id)
	if !j.Exit.Lost || !slices.Equal(j.Status.Avoid, []string{w.prefix + "-0"}) || w.Starts(id) != 0 {
		t.Errorf("it ended with %+v, avoids %v, started %d times", j.Exit, j.Status.Avoid, w.Starts(id))
	}
	w.wait("its back-off is over", func() bool { return !w.job(id).Status.NotBefore.After(time.Now()) })
	w.plan(wants{id: {w.on(1, 0b11)}})
	w.waitState(id, api.Running)

	id = w.submit(sched.Spec{GPUs: 1}, map[string]string{selector: "none"})
	w.plan(wants{id: {w.on(0, 0b1000)}})
	w.wait("it is given back", func() bool { return w.job(id).Exit != nil })
	if j := w.job(id); !j.Exit.Lost || j.Status.Phase.Ended() || !strings.Contains(j.Exit.Why, "suitable nodes: 0") {
		t.Errorf("a job that no node is for ended with %+v; want it to wait", j.Exit)
	}
}

// externalPod returns a pod on a node that is not Fairway's.
func (w *world) externalPod(name string, node, gpus int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("%s-%d", w.prefix, node), Containers: []corev1.Container{{
			Name: "c", Image: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{kubetest.GPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}},
		}}},
	}
}

// TestOthersArrive: pods of another scheduler are counted, whenever they come.
func TestOthersArrive(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, func(c *pods.Config) { c.HoldFor = time.Second })
	first := w.submit(sched.Spec{GPUs: 3}, nil)
	// They come between the decision and the first binding.
	s, err := w.now().Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	actions, plan, err := sched.Decide(wants{first: {w.on(0, 0b111)}}, s)
	if err != nil {
		t.Fatal(err)
	}
	other := w.externalPod("other", 0, 2)
	w.stop() // no operator sees it
	if err := w.client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.bootBlind()
	if err := w.now().Apply(t.Context(), loop.Decision{Policy: "test", Snapshot: s, Actions: actions, Plan: plan}); err != nil {
		t.Fatal(err)
	}
	w.wait("it is given back", func() bool { return w.job(first).Exit != nil })
	if e := w.job(first).Exit; !e.Saw(api.HostHeldBack) || !strings.Contains(e.Why, "has 2 of 4 nvidia.com/gpu left, but the job needs 3") {
		t.Errorf("it ended with %+v; want it held back, which does not count", e)
	}
	if w.Starts(first) != 0 {
		t.Error("a pod of it was bound")
	}
	w.stop()
	w.boot()
	// From now on the state counts them.
	w.wait("the state knows of the others", func() bool {
		all, err := w.now().Nodes(admin)
		return err == nil && len(all) == 1 && all[0].Others.Len() == 2
	})
	if err := w.client.Delete(t.Context(), other, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	w.wait("the others are gone", func() bool {
		all, err := w.now().Nodes(admin)
		return err == nil && len(all) == 1 && all[0].Others == 0
	})
	// They come right after the binding.
	second := w.submit(sched.Spec{GPUs: 3}, nil)
	w.plan(wants{second: {w.on(0, 0b111)}})
	w.waitState(second, api.Running)
	if err := w.client.Create(t.Context(), w.externalPod("late", 0, 2)); err != nil {
		t.Fatal(err)
	}
	w.wait("it makes way", func() bool { return w.job(second).Exit != nil })
	if e := w.job(second).Exit; !e.Lost || !strings.Contains(e.Why, "makes way") {
		t.Errorf("it ended with %+v; want it to make way", e)
	}
}

// TestNodeFails: an attempt on a lost node ends, and the next one starts elsewhere.
func TestNodeFails(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 2, GPUs: 4}, nil)
	id := w.submit(sched.Spec{GPUs: 4}, nil)
	w.plan(wants{id: {w.on(0, 0b0011), w.on(1, 0b0011)}})
	w.waitState(id, api.Running)
	if err := w.cluster.FailNode(t.Context(), w.prefix+"-1"); err != nil {
		t.Fatal(err)
	}
	w.wait("the state has taken the node off", func() bool {
		all, err := w.now().Nodes(admin)
		return err == nil && len(all) == 1
	})
	w.wait("its pods are gone", func() bool { return len(w.of(id)) == 0 })
	w.wait("it may start again", func() bool { return w.job(id).State == api.Waiting })
	w.plan(wants{id: {w.on(0, 0b1111)}})
	w.waitState(id, api.Running)
	if w.Starts(id) != 2 {
		t.Errorf("it was started %d times; want 2", w.Starts(id))
	}
}

// TestRankFailsOfNode: if a rank fails because another rank's node was lost, the job is
// not to blame, even if the rank fails first.
func TestRankFailsOfNode(t *testing.T) {
	// The exit is reported before the state marks the node as down.
	w := newWorld(t, kubetest.NodeSpec{Count: 2, GPUs: 4}, func(c *pods.Config) { c.LostAfter = 200 * time.Millisecond })
	id := w.submit(sched.Spec{GPUs: 2}, nil)
	w.plan(wants{id: {w.on(0, 0b01), w.on(1, 0b01)}})
	w.waitState(id, api.Running)
	list := sorted(w.of(id))
	if err := w.cluster.FailNode(t.Context(), w.prefix+"-1"); err != nil {
		t.Fatal(err)
	}
	w.endPod(list[0], 1)
	w.wait("it ended", func() bool { return w.job(id).Exit != nil })
	if e := w.job(id).Exit; !e.Lost || !strings.Contains(e.Why, w.prefix+"-1 with rank 1 was lost, and rank 0 failed") {
		t.Errorf("it ended with %+v; want the node to be blamed", e)
	}
}

// TestCrash: an operator that crashes at any moment of a start leaves nothing half
// done.
func TestCrash(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 2, GPUs: 8}, nil)
	for i, after := range []time.Duration{0, 10, 25, 40, 60, 90} {
		id := w.submit(sched.Spec{GPUs: 4}, nil)
		w.plan(wants{id: {w.on(i%2, 0b1100), w.on(1-i%2, 0b0011)}})
		time.Sleep(after * time.Millisecond)
		w.Restart(t)
		w.waitState(id, api.Running)
		if len(w.of(id)) != 4 || w.Starts(id) != 1 {
			t.Errorf("after %d ms: %d pods, %d starts; want 4 and 1", after, len(w.of(id)), w.Starts(id))
		}
		w.Cancel(t, id)
		w.wait("it is gone", func() bool { return len(w.of(id)) == 0 })
	}
}

// TestStrays: pods of attempts that were not ordered are removed.
func TestStrays(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, nil)
	stray := w.externalPod("nobody-1-0", 0, 1)
	stray.Spec.SchedulerName = v1alpha1.SchedulerName
	stray.Labels = map[string]string{v1alpha1.LabelID: "nobody-1", v1alpha1.LabelAttempt: "1", v1alpha1.LabelRank: "0"}
	other := w.externalPod("other", 0, 1)
	for _, p := range []*corev1.Pod{stray, other} {
		if err := w.client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	key := client.ObjectKeyFromObject(stray)
	w.wait("the stray is removed", func() bool {
		return client.IgnoreNotFound(w.client.Get(t.Context(), key, &corev1.Pod{})) == nil && w.client.Get(t.Context(), key, &corev1.Pod{}) != nil
	})
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil || other.DeletionTimestamp != nil {
		t.Errorf("a pod of others: %v, deleted at %v; want it left alone", err, other.DeletionTimestamp)
	}
}

// TestServerAway: the executor follows orders once the API server is back.
func TestServerAway(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts the API server")
	}
	w := newWorld(t, kubetest.NodeSpec{Count: 2, GPUs: 4}, nil)
	a, b := w.submit(sched.Spec{GPUs: 2}, nil), w.submit(sched.Spec{GPUs: 6}, nil)
	w.plan(wants{a: {w.on(0, 0b11)}})
	w.waitState(a, api.Running)
	w.plan(wants{a: {w.on(0, 0b11)}, b: {w.on(0, 0b1100), w.on(1, 0b1111)}})
	if err := w.cluster.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.waitState(b, api.Running)
	if w.Starts(a) != 1 || w.Starts(b) != 1 || w.left(a) != 2 || w.left(b) != 6 {
		t.Errorf("starts %d and %d, pods %d and %d; want 1, 1, 2 and 6", w.Starts(a), w.Starts(b), w.left(a), w.left(b))
	}
	w.Cancel(t, b)
	w.wait("it is gone", func() bool { return w.left(b) == 0 })
}

// TestPortTaken: a job that wants a port of a node that another pod has gives its GPUs
// back, and avoids that node.
func TestPortTaken(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, func(c *pods.Config) { c.HoldFor = time.Second })
	first := w.submit(sched.Spec{GPUs: 1}, map[string]string{port: "8080"})
	w.plan(wants{first: {w.on(0, 1)}})
	w.waitState(first, api.Running)
	second := w.submit(sched.Spec{GPUs: 1}, map[string]string{port: "8080"})
	w.plan(wants{first: {w.on(0, 1)}, second: {w.on(0, 2)}})
	w.waitState(second, api.Waiting)
	j, node := w.job(second), w.prefix+"-0"
	if j.Exit == nil || j.Exit.Text() != "could not be started: another pod listens on port 8080 of node "+node || !slices.Equal(j.Status.Avoid, []string{node}) {
		t.Errorf("it ended with %+v, and avoids %v", j.Exit, j.Status.Avoid)
	}
}
