// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var shared = Shared{Options: Options{
	ControllerManager: true,
	Scheduler:         true,
	Nodes:             []NodeSpec{{Count: 10, GPUs: 8, Type: "a100", PerRack: 4}},
}}

func TestMain(m *testing.M) {
	if os.Getenv(orphanage) != "" {
		runOrphanage()
	}
	log.SetLogger(logr.Discard()) // without a logger, clients print a warning
	os.Exit(shared.Main(m))
}

// patience is how long a test waits for something that is quick on an idle machine.
const patience = 3 * time.Minute

func inTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// gpuPod returns a pod for a scheduler that does not exist: the test binds it.
func gpuPod(name string, gpus int, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{
			SchedulerName: "test",
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "trainer", Image: "trainer",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{GPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}},
			}},
		},
	}
}

// create creates an object and removes it at the test's end.
func create(t *testing.T, c *Cluster, o client.Object) {
	t.Helper()
	if err := c.Client.Create(inTime(t), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Client.Delete(ctx, o, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// place creates a pod, binds it and removes it at the test's end.
func place(t *testing.T, c *Cluster, pod *corev1.Pod, node string) client.ObjectKey {
	t.Helper()
	create(t, c, pod)
	key := client.ObjectKeyFromObject(pod)
	if err := c.Bind(inTime(t), key, node); err != nil {
		t.Fatal(err)
	}
	return key
}

func TestNodes(t *testing.T) {
	c := shared.Cluster(t)
	nodes := &corev1.NodeList{}
	if err := c.Client.List(inTime(t), nodes); err != nil {
		t.Fatal(err)
	}
	racks := map[string]int{}
	for _, n := range nodes.Items {
		gpus := n.Status.Allocatable[GPU]
		if gpus.Value() != 8 || n.Labels[LabelProduct] != "a100" || !NodeReady(&n) {
			t.Errorf("node %s has %s GPUs of type %q, ready: %v; want 8 of a100, ready", n.Name, gpus.String(), n.Labels[LabelProduct], NodeReady(&n))
		}
		racks[n.Labels[LabelRack]]++
	}
	if len(racks) != 3 || racks["node-rack-0"] != 4 || racks["node-rack-2"] != 2 {
		t.Errorf("racks %v; want three of 4, 4 and 2 nodes", racks)
	}
}

func TestStages(t *testing.T) {
	c := shared.Cluster(t)
	for _, test := range []struct {
		name        string
		annotations map[string]string
		phase       corev1.PodPhase
		code        int32
		reason      string
	}{
		{"completes", map[string]string{RunFor: "2s"}, corev1.PodSucceeded, 0, "Completed"},
		{"fails", map[string]string{RunFor: "2s", ExitCode: "7"}, corev1.PodFailed, 7, "Error"},
		{"out-of-memory", map[string]string{RunFor: "2s", ExitCode: "137", ExitReason: "OOMKilled"}, corev1.PodFailed, 137, "OOMKilled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := inTime(t)
			runs := firstRunning(t, c, test.name)
			pod := place(t, c, gpuPod(test.name, 1, test.annotations), "node-0")
			running := runs()
			if !running.Status.ContainerStatuses[0].Ready || running.Status.PodIP == "" {
				t.Errorf("running pod: ready %v, address %q; want it ready, with an address", running.Status.ContainerStatuses[0].Ready, running.Status.PodIP)
			}
			// A change while it runs must not restart its time.
			before := running.DeepCopy()
			metav1.SetMetaDataAnnotation(&running.ObjectMeta, "note", "changed")
			time.Sleep(time.Second)
			if err := c.Client.Patch(ctx, running, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			ended, err := c.WaitPod(ctx, pod, test.phase)
			if err != nil {
				t.Fatal(err)
			}
			state := ended.Status.ContainerStatuses[0].State.Terminated
			if state == nil || state.ExitCode != test.code || state.Reason != test.reason {
				t.Fatalf("containers ended as %+v; want code %d, reason %s", state, test.code, test.reason)
			}
			// The API's times are whole seconds, and KWOK may stall for some.
			if ran := state.FinishedAt.Sub(state.StartedAt.Time); ran < time.Second || ran > time.Minute {
				t.Errorf("it ran for %v; want 2s", ran)
			}
			if !hasCondition(ended, corev1.PodScheduled, corev1.ConditionTrue) {
				t.Errorf("conditions %+v; want PodScheduled to stay", ended.Status.Conditions)
			}
		})
	}
}

// firstRunning starts to watch a pod that is about to be created, and returns a
// function that waits until it runs. Polling might come too late, after its end.
func firstRunning(t *testing.T, c *Cluster, name string) func() *corev1.Pod {
	t.Helper()
	ctx := inTime(t)
	watcher, err := client.NewWithWatch(c.Admin(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := watcher.Watch(ctx, &corev1.PodList{}, client.InNamespace("default"), client.MatchingFields{"metadata.name": name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return func() *corev1.Pod {
		t.Helper()
		for e := range w.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && p.Status.Phase == corev1.PodRunning {
				return p
			}
		}
		t.Fatalf("pod %s was never seen running", name)
		return nil
	}
}

func hasCondition(p *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status == status
		}
	}
	return false
}

func TestEndPod(t *testing.T) {
	c, ctx := shared.Cluster(t), inTime(t)
	pod := place(t, c, gpuPod("told-to-end", 1, nil), "node-0")
	if _, err := c.WaitPod(ctx, pod, corev1.PodRunning); err != nil {
		t.Fatal(err)
	}
	if err := c.EndPod(ctx, pod, 3); err != nil {
		t.Fatal(err)
	}
	ended, err := c.WaitPod(ctx, pod, corev1.PodFailed)
	if err != nil {
		t.Fatal(err)
	}
	if got := ended.Status.ContainerStatuses[0].State.Terminated.ExitCode; got != 3 {
		t.Errorf("exit code %d; want 3", got)
	}
}

func TestStopAfter(t *testing.T) {
	const grace = 30 * time.Second // of pods that set none; nothing waits for it
	c, ctx := shared.Cluster(t), inTime(t)
	for name, test := range map[string]struct {
		annotations map[string]string
		least, most time.Duration
	}{
		"stops-at-once": {nil, 0, grace / 2},
		"stops-slowly":  {map[string]string{StopAfter: "2s"}, 2 * time.Second, grace},
	} {
		pod := place(t, c, gpuPod(name, 1, test.annotations), "node-1")
		running, err := c.WaitPod(ctx, pod, corev1.PodRunning)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := c.Client.Delete(ctx, running); err != nil {
			t.Fatal(err)
		}
		if err := poll(ctx, goneOf(c, pod)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < test.least || took > test.most {
			t.Errorf("pod %s was gone after %v; want %v to %v", name, took, test.least, test.most)
		}
	}
}

// goneOf returns a check that a pod no longer exists.
func goneOf(c *Cluster, pod client.ObjectKey) func(context.Context) error {
	return func(ctx context.Context) error {
		err := c.Client.Get(ctx, pod, &corev1.Pod{})
		if err == nil {
			return fmt.Errorf("pod %s is there", pod)
		}
		return client.IgnoreNotFound(err)
	}
}

func TestFailNode(t *testing.T) {
	c, ctx := shared.Cluster(t), inTime(t)
	pod := place(t, c, gpuPod("on-lost-node", 8, nil), "node-9")
	if _, err := c.WaitPod(ctx, pod, corev1.PodRunning); err != nil {
		t.Fatal(err)
	}
	if err := c.FailNode(ctx, "node-9"); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{}
	unreachable := func(ctx context.Context) error {
		if err := c.Client.Get(ctx, client.ObjectKey{Name: "node-9"}, node); err != nil {
			return err
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeUnreachable && taint.Effect == corev1.TaintEffectNoExecute {
				return nil
			}
		}
		return errors.New("no taint yet")
	}
	if err := poll(ctx, unreachable); err != nil {
		t.Fatalf("node has taints %v; want unreachable: %v", node.Spec.Taints, err)
	}
	if err := c.EndPod(ctx, pod, 0); err != nil { // KWOK is not running to do it
		t.Fatal(err)
	}
	staysRunning(t, c, pod, 2500*time.Millisecond)
	if err := c.RecoverNode(ctx, "node-9"); err != nil {
		t.Fatal(err)
	}
	if err := c.waitNodes(ctx, map[string]bool{"node-9": true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitPod(ctx, pod, corev1.PodSucceeded); err != nil {
		t.Error(err)
	}
}

// staysRunning checks that a pod keeps running for a while without its kubelet.
func staysRunning(t *testing.T, c *Cluster, pod client.ObjectKey, during time.Duration) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		p := &corev1.Pod{}
		if err := c.Client.Get(inTime(t), pod, p); err != nil || p.Status.Phase != corev1.PodRunning {
			t.Fatalf("pod %s: %s, %v; want it to stay Running", pod, p.Status.Phase, err)
		}
	}
}

func TestRestarts(t *testing.T) {
	c, ctx := shared.Cluster(t), inTime(t)
	pod := place(t, c, gpuPod("outlives", 1, nil), "node-2")
	if _, err := c.WaitPod(ctx, pod, corev1.PodRunning); err != nil {
		t.Fatal(err)
	}
	if err := c.RestartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitPod(ctx, pod, corev1.PodRunning); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	c.KillAPIServer()
	if err := c.Client.Get(ctx, pod, &corev1.Pod{}); err == nil {
		t.Error("the killed API server answers")
	}
	c.StopKWOK()
	if err := c.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.EndPod(ctx, pod, 0); err != nil {
		t.Fatal(err)
	}
	staysRunning(t, c, pod, 500*time.Millisecond)
	begin := time.Now()
	if err := c.StartKWOK(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitPod(ctx, pod, corev1.PodSucceeded); err != nil {
		t.Errorf("after KWOK is back: %v", err)
	}
	t.Logf("KWOK was back at work after %v", time.Since(begin).Round(time.Millisecond))
}

// TestPause: a paused API server answers nothing, and then everything once it is
// resumed.
func TestPause(t *testing.T) {
	c, ctx := shared.Cluster(t), inTime(t)
	if err := c.PauseAPIServer(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := list(short, c.Client); err == nil {
		t.Error("a paused API server answers")
	}
	if err := c.ResumeAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := list(ctx, c.Client); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

// TestScheduler: kube-scheduler places pods that name no other scheduler, next to ours.
func TestScheduler(t *testing.T) {
	c, ctx := shared.Cluster(t), inTime(t)
	pod := gpuPod("for-kube-scheduler", 8, map[string]string{RunFor: "1s"})
	pod.Spec.SchedulerName = ""
	create(t, c, pod)
	ended, err := c.WaitPod(ctx, client.ObjectKeyFromObject(pod), corev1.PodSucceeded)
	if err != nil {
		t.Fatal(err)
	}
	if ended.Spec.NodeName == "" {
		t.Error("it ran on no node")
	}
}

func TestOptions(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		nodes   NodeSpec
		want    string
	}{
		"short lease": {options: Options{NodeLease: time.Millisecond}, want: "NodeLease 1ms"},
		"short grace": {options: Options{NodeGrace: time.Millisecond}, want: "NodeGrace 1ms"},
		"no nodes":    {nodes: NodeSpec{Prefix: "x"}, want: "Count 0"},
		"bad memory":  {nodes: NodeSpec{Count: 1, Memory: "much"}, want: `Memory "much"`},
	} {
		_, err := test.options.complete()
		if err == nil {
			_, err = test.nodes.nodes()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want an error with %q", name, err, test.want)
		}
	}
	if o, err := (Options{Nodes: []NodeSpec{{Count: 1}}}).complete(); !o.KWOK || err != nil {
		t.Errorf("nodes without KWOK: %v, %v; want KWOK", o.KWOK, err)
	}
}

func TestAccess(t *testing.T) {
	c, ctx := shared.Cluster(t), inTime(t)
	if err := c.Namespace(ctx, "team"); err != nil {
		t.Fatal(err)
	}
	account, err := c.ServiceAccount(ctx, "team", "member")
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]client.Client{"service account": clientOf(t, account), "impersonated": clientOf(t, c.As("someone", "people"))} {
		if err := config.List(ctx, &corev1.PodList{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s lists pods: %v; want it forbidden", name, err)
		}
	}
	administrator := clientOf(t, c.As("someone", "system:masters"))
	if err := administrator.List(ctx, &corev1.PodList{}); err != nil {
		t.Errorf("an impersonated administrator lists pods: %v", err)
	}
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func list(ctx context.Context, c client.Client) error { return c.List(ctx, &corev1.PodList{}) }
