// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// realPod returns a pod that runs the program of PodImage and requests a GPU.
func realPod(name string, args ...string) *corev1.Pod {
	p := gpuPod(name, 1, nil)
	p.Spec.Containers[0].Image = PodImage
	p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
	p.Spec.Containers[0].Args = args
	return p
}

// fixedPlaces are where a kubelet, containerd and network plugins write by default.
var fixedPlaces = []string{
	"/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd", "/var/log/pods", "/var/log/containers", "/run/containerd", "/run/netns",
	"/opt/cni", "/opt/containerd", "/etc/cni", "/etc/containerd", "/etc/kubernetes", "/usr/libexec/kubernetes",
}

// onMachine returns which of the fixed places this machine has.
func onMachine() []string {
	return slices.DeleteFunc(slices.Clone(fixedPlaces), func(path string) bool {
		_, err := os.Lstat(path)
		return err != nil
	})
}

// TestRealNodes: two pods on two real nodes exchange bytes over TCP, one is stopped
// with its grace period, and nothing is left behind.
func TestRealNodes(t *testing.T) {
	had := onMachine()
	var device string
	var cgroups []string
	t.Run("cluster", func(t *testing.T) {
		c := StartReal(t, 2, Options{ControllerManager: true})
		device = "/sys/class/net/" + c.machine.device()
		for _, n := range c.nodes {
			cgroups = append(cgroups, n.cgroup)
		}
		if _, err := os.Stat(device); err != nil {
			t.Errorf("while the cluster runs: %v", err)
		}
		exchange(t, c)
		throughService(t, c)
		killNode(t, c)
	})
	if device == "" {
		t.Skip("no cluster was started")
	}
	if _, err := os.Stat(device); !os.IsNotExist(err) {
		t.Errorf("device %s after the end: %v; want it gone", device, err)
	}
	if diff := cmp.Diff(had, onMachine()); diff != "" {
		t.Errorf("folders of the machine before and after (-want +got):\n%s", diff)
	}
	roots, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range roots {
		for _, group := range cgroups {
			if _, err := os.Stat(filepath.Join(root, group)); !os.IsNotExist(err) {
				t.Errorf("control group %s/%s after the end: %v; want it gone", root, group, err)
			}
		}
	}
}

func exchange(t *testing.T, c *Cluster) {
	ctx := inTime(t)
	for _, node := range []string{"real-0", "real-1"} {
		if err := c.SetGPUs(ctx, node, 4); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	receiver := place(t, c, realPod("receiver", "receive", "4000"), "real-0")
	running, err := c.WaitPod(ctx, receiver, corev1.PodRunning)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the first pod ran after %v", time.Since(begin).Round(time.Millisecond))
	sender := place(t, c, realPod("sender", "send", running.Status.PodIP+":4000", "10000000"), "real-1")
	for _, pod := range []client.ObjectKey{receiver, sender} {
		if _, err := c.WaitPod(ctx, pod, corev1.PodSucceeded); err != nil {
			t.Fatal(err)
		}
	}
	text, err := c.PodLogs(ctx, sender)
	if want := "sent 10000000, the receiver says 10000000\n"; text != want || err != nil {
		t.Errorf("the sender wrote %q, %v; want %q", text, err, want)
	}
	if found, err := c.Audit(ctx, AuditOptions{}); len(found) > 0 || err != nil {
		t.Errorf("audit: %v, %v", found, err)
	}
}

// throughService: a pod reaches another by the address of a Service.
func throughService(t *testing.T, c *Cluster) {
	ctx := inTime(t)
	served := realPod("served", "receive", "4000")
	served.Labels = map[string]string{"app": "served"}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "served"},
		Spec:       corev1.ServiceSpec{Selector: served.Labels, Ports: []corev1.ServicePort{{Name: "bytes", Port: 80, TargetPort: intstr.FromInt32(4000)}}},
	}
	if err := c.Client.Create(ctx, service); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitPod(ctx, place(t, c, served, "real-0"), corev1.PodRunning); err != nil {
		t.Fatal(err)
	}
	address, err := c.RouteService(ctx, client.ObjectKeyFromObject(service))
	if err != nil {
		t.Fatal(err)
	}
	if err := poll(ctx, func(context.Context) error {
		_, err := c.endpoint(client.ObjectKeyFromObject(service), "bytes")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	pod := place(t, c, realPod("to-served", "send", address+":80", "1000"), "real-1")
	if _, err := c.WaitPod(ctx, pod, corev1.PodSucceeded); err != nil {
		t.Fatal(err)
	}
	text, err := c.PodLogs(ctx, pod)
	if want := "sent 1000, the receiver says 1000\n"; text != want || err != nil {
		t.Errorf("the sender wrote %q, %v; want %q", text, err, want)
	}
}

func killNode(t *testing.T, c *Cluster) {
	ctx := inTime(t)
	grace := int64(120) // in seconds, much more than a busy machine needs to stop it
	pod := realPod("stays", "pause")
	pod.Spec.TerminationGracePeriodSeconds = &grace
	stays := place(t, c, pod, "real-0")
	if _, err := c.WaitPod(ctx, stays, corev1.PodRunning); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	stopped := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: stays.Namespace, Name: stays.Name}}
	if err := c.Client.Delete(ctx, stopped); err != nil {
		t.Fatal(err)
	}
	if err := poll(ctx, goneOf(c, stays)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > time.Duration(grace)*time.Second/2 {
		t.Errorf("a pod that obeys SIGTERM was gone after %v; want less than half of its grace of %ds", took, grace)
	}
	if err := c.KillNode("real-1"); err != nil {
		t.Fatal(err)
	}
	if c.nodes[1].process.Running() || !c.nodes[0].process.Running() {
		t.Error("want real-1 ended and real-0 running")
	}
	if err := c.KillNode("real-7"); err == nil || !strings.Contains(err.Error(), "real-7") {
		t.Errorf("kill a node that is not there: %v", err)
	}
}

func TestImage(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!"), 0o600); err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	image := Image{Name: "docker.io/local/x:1", Files: map[string]string{"/bin/x": program, "/a": program}, Cmd: []string{"/bin/x"}}
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := image.write(b); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same image twice gives different archives")
	}
	files := untar(t, &first)
	if diff := cmp.Diff(`[{"Config":"config.json","Layers":["layer.tar"],"RepoTags":["docker.io/local/x:1"]}]`, files["manifest.json"]); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	layer := untar(t, strings.NewReader(files["layer.tar"]))
	if diff := cmp.Diff(map[string]string{"tmp/": "", "bin/x": "#!", "a": "#!"}, layer); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
	image.Bare, image.User = true, "65532:65532"
	var bare bytes.Buffer
	if err := image.write(&bare); err != nil {
		t.Fatal(err)
	}
	files = untar(t, &bare)
	if layer := untar(t, strings.NewReader(files["layer.tar"])); len(layer) != 2 || !strings.Contains(files["config.json"], `"User":"65532:65532"`) {
		t.Errorf("a bare image with a user has the files %v and the configuration %s; want no /tmp, and the user", layer, files["config.json"])
	}
	image.Files["/b"] = program + "-missing"
	if err := image.write(io.Discard); err == nil || !strings.Contains(err.Error(), "/b") {
		t.Errorf("an image of a missing file: %v; want an error that names /b", err)
	}
}

func untar(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	out := map[string]string{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(data)
	}
}
