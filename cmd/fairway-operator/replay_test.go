// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched/guard"
	"github.com/fairway-gpu/fairway/sim/replay"
)

// setClusterPolicy writes the scheduling policy and waits until it is in force.
func setClusterPolicy(t *testing.T, admin ctrlclient.Client, spec string) {
	t.Helper()
	p := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	err := admin.Get(t.Context(), ctrlclient.ObjectKeyFromObject(p), p)
	if ctrlclient.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	before := p.DeepCopy()
	p.Spec.Policy = spec
	switch {
	case err != nil:
		err = admin.Create(t.Context(), p)
	case !equality.Semantic.DeepEqual(before, p):
		err = admin.Patch(t.Context(), p, ctrlclient.MergeFrom(before))
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, spec+" is in force", func() error {
		if err := admin.Get(t.Context(), ctrlclient.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.InForce != spec {
			return fmt.Errorf("in force is %q", p.Status.InForce)
		}
		return nil
	})
}

// TestReplay: what an operator decided about jobs, under two policies, comes out the
// same when the exported journal is replayed. FAIRWAY_REPLAY_JOBS says how many jobs
// each policy has.
func TestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many jobs, one after the other")
	}
	each := 40
	if text := os.Getenv("FAIRWAY_REPLAY_JOBS"); text != "" {
		var err error
		if each, err = strconv.Atoi(text); err != nil || each < 1 {
			t.Fatalf("FAIRWAY_REPLAY_JOBS=%q; want a number of jobs", text)
		}
	}
	c, admin := install(t)
	if err := c.Namespace(t.Context(), "replayed"); err != nil {
		t.Fatal(err)
	}
	if err := admin.DeleteAllOf(t.Context(), &v1alpha1.JournalPage{}, ctrlclient.InNamespace(system)); err != nil {
		t.Fatal(err)
	}
	operatorPod(t, admin, "fairway-replayed")
	r := startOperator(t, c, "fairway-replayed")
	eventually(t, "it leads", func() error { return leads(r) })
	for i, spec := range []string{"themis", "tiresias"} {
		setClusterPolicy(t, admin, spec)
		for n := range each {
			job := gang("replayed", fmt.Sprintf("job-%d-%d", i, n), time.Second+time.Duration(n%5)*300*time.Millisecond)
			per := int32(1 + n%3)
			job.Spec.GPUs, job.Spec.GPUsPerPod = per*(1+int32(n%4)), &per
			if err := admin.Create(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}
		waitAll(t, admin, "replayed", each*(i+1))
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "journal.jsonl")
	root := newRoot()
	root.SetArgs([]string{"journal", "export", "--kubeconfig", c.Kubeconfig, "--namespace", system, "--out", file})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := replay.Read(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	bounds, err := guard.New(guard.Default())
	if err != nil {
		t.Fatal(err)
	}
	v, err := replay.Verify(records, replay.VerifyOptions{Build: policy.Builtin().New, First: defaultConfig().Policy, Guard: bounds})
	if err != nil || v.Decisions < each || v.Different > 0 {
		t.Errorf("of %d decisions %d come out otherwise, %v; want many and none: %+v", v.Decisions, v.Different, err, v.Differences)
	}
	t.Logf("%d records, %d decisions, %d different", len(records), v.Decisions, v.Different)
	restorePages(t, admin)
	again := filepath.Join(t.TempDir(), "journal.jsonl")
	root = newRoot()
	root.SetArgs([]string{"journal", "export", "--kubeconfig", c.Kubeconfig, "--namespace", system, "--out", again})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if before, after := readText(t, file), readText(t, again); before != after || len(before) == 0 {
		t.Errorf("the restored journal has %d bytes that differ from the %d before", len(after), len(before))
	}
	// The tests that come later begin with an empty journal.
	if err := admin.DeleteAllOf(t.Context(), &v1alpha1.JournalPage{}, ctrlclient.InNamespace(system)); err != nil {
		t.Fatal(err)
	}
}

// restorePages backs up the pages of the journal, removes them and creates them again,
// as docs/kubernetes/operations.md says.
func restorePages(t *testing.T, admin ctrlclient.Client) {
	t.Helper()
	var pages v1alpha1.JournalPageList
	if err := admin.List(t.Context(), &pages, ctrlclient.InNamespace(system)); err != nil {
		t.Fatal(err)
	}
	if err := admin.DeleteAllOf(t.Context(), &v1alpha1.JournalPage{}, ctrlclient.InNamespace(system)); err != nil {
		t.Fatal(err)
	}
	for i := range pages.Items {
		p := &pages.Items[i]
		p.ObjectMeta = metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}
		if err := admin.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// waitAll waits until so many jobs of a namespace have finished.
func waitAll(t *testing.T, admin ctrlclient.Client, namespace string, want int) {
	t.Helper()
	var list v1alpha1.TrainingJobList
	eventually(t, "all jobs have finished", func() error {
		if err := admin.List(t.Context(), &list, ctrlclient.InNamespace(namespace)); err != nil {
			return err
		}
		finished := 0
		for i := range list.Items {
			if list.Items[i].Status.State == api.Finished {
				finished++
			}
		}
		if finished != want {
			return fmt.Errorf("%d of %d jobs", finished, want)
		}
		return nil
	})
}
