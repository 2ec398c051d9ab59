// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// before is the last commit of the version before this one, 0.1.
const before = "6c22a2b1f7e767ceaf446c0622af20ab06c2b6e0"

// release is a version of Fairway.
type release struct {
	program   string
	manifests []*unstructured.Unstructured
}

// releaseBefore builds the version before this one from the history of the checkout. Go's
// build cache has what it shares with this one.
func releaseBefore(t *testing.T) release {
	t.Helper()
	root, err := kubetest.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, args...)...)
	}
	if out, err := git("cat-file", "-e", before+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("the version before this one is commit %.7s, which this checkout does not have (a shallow clone, or no clone): %s", before, out)
	}
	archive, err := git("archive", before, "--", ".", ":!e2e", ":!docs", ":!lab").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	if err := unpack(archive, source); err != nil {
		t.Fatal(err)
	}
	var r release
	if r.program, err = operator.BuildIn(t.Context(), source, t.TempDir(), "-trimpath", "-buildvcs=false"); err != nil {
		t.Fatal(err)
	}
	if r.manifests, err = operator.ManifestsIn(source); err != nil {
		t.Fatal(err)
	}
	return r
}

// unpack writes the files of an archive into a folder.
func unpack(archive []byte, folder string) error {
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		path := filepath.Join(folder, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else if h.Typeflag == tar.TypeReg {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}

// apply puts the manifests of a version over what is there. As with Helm, what only the other
// version has stays, and definitions are left alone unless told otherwise.
func (r release) apply(t *testing.T, w *world, definitions bool) {
	t.Helper()
	objects := slices.DeleteFunc(slices.Clone(r.manifests), func(u *unstructured.Unstructured) bool {
		return u.GetKind() == "CustomResourceDefinition" && !definitions
	})
	if err := operator.Apply(t.Context(), w.Cluster, objects); err != nil {
		t.Fatal(err)
	}
}

// pages returns the journal as a backup has it: the command of docs/kubernetes/operations.md.
func (w *world) pages(t *testing.T) []v1alpha1.JournalPage {
	t.Helper()
	var list v1alpha1.JournalPageList
	if err := w.admin.List(t.Context(), &list, client.InNamespace(operator.Namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		m := &list.Items[i].ObjectMeta
		*m = metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace}
	}
	return list.Items
}

// restore puts a backup of the journal in place of what is there.
func (w *world) restore(t *testing.T, pages []v1alpha1.JournalPage) {
	t.Helper()
	if err := w.admin.DeleteAllOf(t.Context(), &v1alpha1.JournalPage{}, client.InNamespace(operator.Namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range pages {
		if err := w.admin.Create(t.Context(), pages[i].DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
}

// bothKnow is a policy that both versions have, and which takes no GPUs from jobs within the
// test.
var bothKnow = map[string]any{"policy": "themis:lease=1h"}

// passage is a cluster that goes from one version to the other: with a gang that runs, a job
// that waits, and one that has finished, all from before. One node is free.
type passage struct {
	*world
	old, young         release
	now                *running // the operator
	terms              int
	gang, waits, ended *v1alpha1.TrainingJob
	pods               []types.UID // of the gang
}

// install begins with the version before. Its definitions need to be applied only once: those
// are what takes most time.
func (p *passage) install(t *testing.T, definitions bool) {
	t.Helper()
	p.uninstall(t)
	p.old.apply(t, p.world, definitions)
	p.replace(t, p.old, bothKnow)
	p.gang = p.create(t, training{name: "gang", gpus: allGPUs - nodeGPUs, perPod: nodeGPUs})
	p.wait(t, p.gang, api.Running)
	p.pods = uidsOf(p.podsOf(t, p.gang, 1))
	p.ended = p.create(t, training{name: "ended", gpus: nodeGPUs, perPod: nodeGPUs, runFor: time.Second})
	p.wait(t, p.ended, api.Finished)
	p.waits = p.create(t, training{name: "waits", gpus: 2 * nodeGPUs, perPod: nodeGPUs})
	p.wait(t, p.waits, api.Waiting)
}

// begins starts an operator, with a log of its own.
func (p *passage) begins(t *testing.T, r release, settings map[string]any) *running {
	t.Helper()
	p.terms++
	return p.standby(t, how{name: fmt.Sprintf("%s-%d", p.namespaces[0], p.terms), program: r.program, settings: settings})
}

// replace starts an operator, stops the one that leads, as a Deployment does, and waits until
// the new one leads.
func (p *passage) replace(t *testing.T, r release, settings map[string]any) {
	t.Helper()
	next := p.begins(t, r, settings)
	p.stop()
	next.waitLeads(t)
	p.now = next
}

func (p *passage) stop() {
	if p.now != nil {
		p.now.Stop(20 * time.Second)
	}
}

// works checks that the operator brings a job to its end on the free node and can say so, and
// that it has left the jobs of the beginning as they were.
func (p *passage) works(t *testing.T, when string) {
	t.Helper()
	job := p.create(t, training{name: when, gpus: nodeGPUs, perPod: nodeGPUs, runFor: time.Second})
	p.wait(t, job, api.Finished)
	if job.Status.Attempt != 1 {
		t.Errorf("job %s needed %d attempts; want 1", when, job.Status.Attempt)
	}
	p.undisturbed(t, when)
}

func (p *passage) undisturbed(t *testing.T, when string) {
	t.Helper()
	p.wait(t, p.gang, api.Running)
	p.wait(t, p.waits, api.Waiting)
	p.wait(t, p.ended, api.Finished)
	if pods := uidsOf(p.podsOf(t, p.gang, 1)); !slices.Equal(pods, p.pods) || p.gang.Status.Attempt != 1 || p.ended.Status.Attempt != 1 {
		t.Fatalf("%s: the gang is in attempt %d with pods %v; want attempt 1 with %v", when, p.gang.Status.Attempt, pods, p.pods)
	}
}

// TestVersionBefore: the version before this one is upgraded while jobs run and wait, rolled
// back, and upgraded again, in the ways of docs/upgrading.md. No job is lost or runs twice,
// and no pod of a running gang is made anew.
func TestVersionBefore(t *testing.T) {
	c := shared.Cluster(t)
	old := releaseBefore(t)
	manifests, err := operator.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	young := release{manifests: manifests}
	t.Cleanup(func() {
		if err := operator.Install(context.Background(), c); err != nil {
			t.Error(err)
		}
	})
	t.Run("without-loss", func(t *testing.T) {
		p := &passage{world: begin(t, setting{namespaces: []string{"without-loss"}}), old: old, young: young}
		p.install(t, true)
		young.apply(t, p.world, true)
		p.works(t, "old-under-new-roles")
		p.replace(t, young, bothKnow)
		p.works(t, "upgraded")
		kept := p.create(t, training{name: "kept", gpus: nodeGPUs, perPod: nodeGPUs})
		p.wait(t, kept, api.Running)
		pods := uidsOf(p.podsOf(t, kept, 1))
		p.replace(t, old, bothKnow)
		if now := uidsOf(p.podsOf(t, kept, 1)); !slices.Equal(now, pods) {
			t.Errorf("a job that the new version started has pods %v; want %v", now, pods)
		}
		p.end(t, kept)
		p.wait(t, kept, api.Finished)
		p.works(t, "image-rolled-back")
		old.apply(t, p.world, false)
		p.works(t, "manifests-rolled-back")
		young.apply(t, p.world, false)
		p.replace(t, young, bothKnow)
		p.works(t, "upgraded-again")
		p.end(t, p.gang)
		p.wait(t, p.gang, api.Finished)
		p.end(t, p.waits)
		p.waitAll(t)
		p.account(t)
	})
	t.Run("from-a-backup", func(t *testing.T) {
		p := &passage{world: begin(t, setting{namespaces: []string{"from-a-backup"}}), old: old, young: young}
		p.install(t, false)
		p.stop()
		backup := p.pages(t)
		young.apply(t, p.world, false)
		p.replace(t, young, map[string]any{"policy": "fairway"})
		p.works(t, "new-default")
		since := p.create(t, training{name: "since", gpus: nodeGPUs, perPod: nodeGPUs})
		p.wait(t, since, api.Running)
		p.stop()
		p.account(t)

		written := p.pages(t)
		refuses := p.begins(t, old, bothKnow)
		eventually(t, "the old operator refuses", func() error {
			if refuses.Running() {
				return errors.New("it runs")
			}
			return nil
		})
		if refuses.leads() || !strings.Contains(refuses.log(), `unknown policy "fairway"`) {
			t.Fatalf("the old operator led, or did not say why not: %s", refuses.Tail(3))
		}
		if now := p.pages(t); !cmp.Equal(now, written) {
			t.Error("the old operator has changed a journal that it cannot read")
		}
		p.undisturbed(t, "refused")

		// Jobs that came since start again, others have noticed nothing.
		lost := uidsOf(p.podsOf(t, since, 1))
		p.restore(t, backup)
		p.replace(t, old, bothKnow)
		eventually(t, "the job that came since starts again", func() error {
			if now := uidsOf(p.podsOf(t, since, 1)); len(now) != 1 || now[0] == lost[0] {
				return fmt.Errorf("it has pods %v; had %v", now, lost)
			}
			return nil
		})
		p.end(t, since)
		p.wait(t, since, api.Finished)
		p.works(t, "restored")
		p.replace(t, young, bothKnow)
		p.works(t, "upgraded-again")
		p.end(t, p.gang)
		p.wait(t, p.gang, api.Finished)
		p.end(t, p.waits)
		p.waitAll(t)
	})
}

func uidsOf(pods []corev1.Pod) []types.UID {
	var out []types.UID
	for i := range pods {
		out = append(out, pods[i].UID)
	}
	slices.Sort(out)
	return out
}
