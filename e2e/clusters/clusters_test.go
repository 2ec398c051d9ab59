// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusters tests one user with several clusters: three small Kubernetes control
// planes, each with an operator and one simulated GPU, and a daemon. See docs/clusters.md.
package clusters

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// everyRequest, set to 1, kills "fairway rebalance" at each of its requests, not only at those
// that change something.
const everyRequest = "FAIRWAY_CLUSTERS_FULL"

func TestClusters(t *testing.T) {
	w := begin(t, []string{"a", "b", "c"}, "d")
	a, b, c, d := w.sites["a"], w.sites["b"], w.sites["c"], w.sites["d"]
	holder := w.job(a, "holder", 2*time.Hour, api.Running)

	t.Run("choice", func(t *testing.T) { w.choose(t, a, b, c) })
	t.Run("from Kubernetes to Kubernetes", func(t *testing.T) { w.moves(t, a, b) })
	t.Run("from Kubernetes to a daemon", func(t *testing.T) { w.moves(t, a, d) })
	t.Run("what stays", func(t *testing.T) { w.keeps(t, a, b) })
	t.Run("a control plane that goes away", func(t *testing.T) { w.loses(t, a, b, c, holder) })
	w.job(d, "holder", 2*time.Hour, api.Running)
	t.Run("from a daemon to Kubernetes", func(t *testing.T) { w.moves(t, d, c) })
}

// choose: a job goes to the cluster that starts it first, and of these to the cheapest; a key
// makes one object, also if two commands race.
func (w *world) choose(t *testing.T, a, b, c *site) {
	w.know(b, "--price", "1")
	w.know(c, "--price", "2")
	submit := func(name string, more ...string) (said string, err error) {
		args := append([]string{"submit", "--cluster", "a,b,c", "--clean-env", "--image", "trainer:1", "--name", name}, more...)
		return w.run(append(args, "--", "train")...)
	}
	said, err := submit("first", "--key", "k1")
	got := w.find("first", a, b, c)
	if err != nil || len(got) != 1 || got[0].at != b || !strings.Contains(said, "submitted to b") {
		t.Fatalf("%v: %s\n%s", err, tell(got), said)
	}
	// c would start it first now; but b says that it has the key.
	if said, err = submit("first", "--key", "k1"); err != nil || len(w.find("first", a, b, c)) != 1 {
		t.Fatalf("with the same key: %v: %s\n%s", err, tell(w.find("first", a, b, c)), said)
	}
	var g sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		g.Go(func() {
			said, err := w.run("submit", "--cluster", "c", "--clean-env", "--image", "trainer:1", "--name", "race", "--key", "k2", "--", "train")
			if err != nil {
				errs[i] = fmt.Errorf("%w: %s", err, said)
			}
		})
	}
	g.Wait()
	race := w.find("race", a, b, c)
	if err := errors.Join(errs...); err != nil || len(race) != 1 {
		t.Fatalf("commands that race: %v: %s", err, tell(race))
	}
	var objects v1alpha1.TrainingJobList
	admin, err := operator.Client(c.kube)
	if err == nil {
		err = admin.List(t.Context(), &objects)
	}
	if err != nil || len(objects.Items) != 1 {
		t.Errorf("%d objects on c, %v; want 1", len(objects.Items), err)
	}
	w.end(b, got[0].ID)
	w.end(c, race[0].ID)
}

// moves kills "fairway rebalance" before and after requests. The next one completes what was
// left: the job starts once, on the other cluster.
func (w *world) moves(t *testing.T, from, to *site) {
	kills := 0
	try := func(name string) (killed bool) {
		j := w.job(from, name, time.Minute, api.Waiting)
		said, killed := w.rebalance(from, to)
		all := w.find(name, from, to)
		runnable := 0
		for _, f := range all {
			if f.State != api.Cancelled && f.State != api.Paused {
				runnable++
			}
		}
		if runnable > 1 {
			t.Fatalf("%s: two could run: %s\n%s", name, tell(all), said)
		}
		if killed {
			kills++
			w.at, w.number = "", 0
			said, _ = w.rebalance(from, to)
		}
		err := eventually(func() error {
			starts, there := 0, false
			all = w.find(name, from, to)
			for _, f := range all {
				starts += f.Status.Starts
				there = there || f.at == to && f.State == api.Running && f.MovedFrom == from.name+"/"+string(j.ID)
			}
			if starts != 1 || !there {
				return errors.New(tell(all))
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v\n%s\n%v", name, err, said, w.seen)
		}
		old, err := from.Job(t.Context(), j.ID)
		if err != nil || old.State != api.Cancelled || !strings.HasPrefix(old.MovedTo, to.name+"/") {
			t.Errorf("%s: what was handed over is %s, moved to %q, %v", name, old.State, old.MovedTo, err)
		}
		for _, f := range all {
			if f.at == to && f.State == api.Running {
				if s, err := to.Submission(t.Context(), f.ID); err != nil || s.Image != "trainer:1" || len(s.Command) != 2 || s.Command[1] != "$HOME" || s.Env["LR"] != "0.1" {
					t.Errorf("%s: the copy is %+v, %v", name, s, err)
				}
				w.end(to, f.ID)
			}
		}
		return killed
	}
	label := from.name + to.name
	try("whole" + label)
	if os.Getenv(everyRequest) == "1" {
		for n := 1; ; n++ {
			reached := false
			for _, before := range []bool{true, false} {
				w.at, w.number, w.before = "", n, before
				reached = try(fmt.Sprintf("at%d%t%s", n, before, label)) || reached
			}
			if !reached {
				break
			}
		}
	} else {
		for i, at := range []string{"POST /v1/jobs", "/handover", "/resume"} {
			for _, before := range []bool{true, false} {
				w.at, w.number, w.before = at, 0, before
				if !try(fmt.Sprintf("at%d%t%s", i, before, label)) {
					t.Fatalf("no request ends in %s: %v", at, w.seen)
				}
			}
		}
	}
	t.Logf("%d kills", kills)
}

// keeps: a training job with volumes stays, and rebalance says why.
func (w *world) keeps(t *testing.T, from, to *site) {
	admin, err := operator.Client(from.kube)
	if err != nil {
		t.Fatal(err)
	}
	who, err := from.Whoami(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pod := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "trainer:1", Command: []string{"train"}, VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}}},
		Volumes:    []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	o := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "volumes", Annotations: map[string]string{v1alpha1.AnnotationUser: who.User}},
		Spec: v1alpha1.TrainingJobSpec{GPUs: 1, Template: v1alpha1.TemplateOf(pod)}}
	if err := admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	err = eventually(func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || o.Status.State != api.Waiting {
			return fmt.Errorf("it is %q, %w", o.Status.State, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	said, _ := w.rebalance(from, to)
	if !strings.Contains(said, "stays: ") || !strings.Contains(said, "spec.template.spec.") || len(w.find("volumes", to)) != 0 {
		t.Errorf("rebalance says %q; on %s there is %s", said, to.name, tell(w.find("volumes", to)))
	}
	if err := admin.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// loses: while a control plane is away, jobs go to the others, and the copy of a job that may
// run there stays paused; when it is back, the move is completed.
func (w *world) loses(t *testing.T, away, b, c *site, holder api.Job) {
	j := w.job(away, "left", time.Minute, api.Waiting)
	w.at, w.before = "POST /v1/jobs", false
	if said, killed := w.rebalance(away, b); !killed {
		t.Fatalf("no copy was made: %s", said)
	}
	w.at = ""
	away.op.Kill()
	away.kube.KillAPIServer()
	if said, _ := w.rebalance(away, b); !strings.Contains(said, "stays paused") {
		t.Errorf("while %s is away: %s", away.name, said)
	}
	if copies := w.find("left", b); len(copies) != 1 || copies[0].State != api.Paused {
		t.Errorf("the copy: %s; want it paused", tell(copies))
	}
	said, err := w.run("submit", "--cluster", "a,b,c", "--clean-env", "--image", "trainer:1", "--name", "other", "--", "train")
	other := w.find("other", b, c)
	if err != nil || len(other) != 1 {
		t.Fatalf("with one away: %v: %s\n%s", err, tell(other), said)
	}
	w.end(other[0].at, other[0].ID)

	ctx := t.Context()
	if err := away.kube.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(w.tokenFile(away))
	if err == nil {
		err = w.lead(ctx, away, string(token))
	}
	if err != nil {
		t.Fatal(err)
	}
	err = eventually(func() error {
		if now, err := away.Job(ctx, holder.ID); err != nil || now.State != api.Running || now.Status.Starts != 1 {
			return fmt.Errorf("the job that ran there is %s, started %d times, %w", now.State, now.Status.Starts, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	said, _ = w.rebalance(away, b)
	err = eventually(func() error {
		old, err := away.Job(ctx, j.ID)
		if copies := w.find("left", b); err != nil || old.MovedTo == "" || len(copies) != 1 || copies[0].State != api.Running {
			return fmt.Errorf("moved to %q, %s, %w", old.MovedTo, tell(copies), err)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	w.end(b, w.find("left", b)[0].ID)
}
