// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/access"
	"github.com/fairway-gpu/fairway/kube/journal"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

// away is an API server that cannot be reached.
type away struct{ client.Client }

func (away) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errors.New("connection refused")
}

// running opens a state in which one job of a namespace runs, and returns its attempt.
func running(t *testing.T, c client.Client, namespace string) (*state.Store, api.AttemptID) {
	t.Helper()
	ctx := t.Context()
	j, err := journal.Open(ctx, journal.Config{Pages: journal.Objects{Client: c, Namespace: namespace}, Leader: "test"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := state.Open(ctx, state.Config{
		Journal: j, Node: sched.Node{Name: "n0", Type: "h200", GPUs: 4}, Policies: policy.Builtin(), Standard: "fifo",
		Key: make([]byte, 32), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	who := api.Identity{User: "u", Tenant: "t", Role: api.User, Owner: api.Owner{UID: -1, GID: -1}}
	s := api.Submission{Task: api.Task{Name: "net", Command: []string{"train"}, Origin: "TrainingJob/" + namespace + "/net"}, Spec: sched.Spec{GPUs: 2}}
	jobs, err := b.Submit(ctx, who, []api.Submission{s})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	go loop.Run(running, loop.Config{Backend: b, Policy: b.InForce, Log: b.Log})
	var id api.AttemptID
	eventually(t, "the job is started", func() bool {
		for _, a := range b.Attempts() {
			if a.Job == jobs[0].ID {
				id = a.AttemptID
			}
		}
		return id != api.AttemptID{}
	})
	return b, id
}

// pod creates a pod that claims to belong to an attempt and is bound to a node.
func pod(t *testing.T, c client.Client, at client.ObjectKey, id api.AttemptID) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name, Labels: map[string]string{
			v1alpha1.LabelID: string(id.Job), v1alpha1.LabelAttempt: strconv.Itoa(id.Number),
		}},
		Spec: corev1.PodSpec{
			ServiceAccountName: "trainer", SchedulerName: v1alpha1.SchedulerName, NodeName: "n0",
			Containers: []corev1.Container{{Name: "main", Image: "none"}},
		},
	}
	create(t, c, p)
	return p
}

func TestAgents(t *testing.T) {
	c, admin := open(t)
	namespace(t, c, "a-mine")
	namespace(t, c, "a-other")
	b, id := running(t, admin, "a-mine")
	mine, other := account(t, admin, "a-mine", "trainer"), account(t, admin, "a-other", "trainer")
	right := pod(t, admin, client.ObjectKey{Namespace: "a-mine", Name: "net-1-0"}, id)
	foreign := pod(t, admin, client.ObjectKey{Namespace: "a-other", Name: "net-1-0"}, id)
	stranger := pod(t, admin, client.ObjectKey{Namespace: "a-mine", Name: "stranger"}, api.AttemptID{})
	unknown := pod(t, admin, client.ObjectKey{Namespace: "a-mine", Name: "unknown"}, api.AttemptID{Job: "no-such-9", Number: 1})
	gone := pod(t, admin, client.ObjectKey{Namespace: "a-mine", Name: "gone"}, id)
	ofGone := token(t, admin, mine, access.AgentAudience, gone)
	if err := admin.Delete(t.Context(), gone, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	// The pod of a batch Job has annotations, which its binding set.
	batch := pod(t, admin, client.ObjectKey{Namespace: "a-mine", Name: "batch"}, api.AttemptID{})
	batch.Labels = nil
	batch.Annotations = map[string]string{v1alpha1.LabelID: string(id.Job), v1alpha1.LabelAttempt: strconv.Itoa(id.Number)}
	if err := admin.Update(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	good := token(t, admin, mine, access.AgentAudience, right)
	for _, x := range []struct {
		name, secret string
		want         api.Code // empty: it is accepted
	}{
		{"the pod of the attempt", good, ""},
		{"again", good, ""},
		{"a pod with annotations", token(t, admin, mine, access.AgentAudience, batch), ""},
		{"a pod of another namespace with the labels of ours", token(t, admin, other, access.AgentAudience, foreign), api.Denied},
		{"a pod of no job", token(t, admin, mine, access.AgentAudience, stranger), api.Denied},
		{"a pod of a job that there is not", token(t, admin, mine, access.AgentAudience, unknown), api.Denied},
		{"a token of no pod", token(t, admin, mine, access.AgentAudience, nil), api.Denied},
		{"a token for the API", token(t, admin, mine, access.UserAudience, right), api.Denied},
		{"a token for the API server", token(t, admin, mine, "https://kubernetes.default.svc", right), api.Denied},
		{"a pod that is gone", ofGone, api.Denied},
		{"claims changed", resign(t, c, good, func(m map[string]any) {
			m["kubernetes.io"].(map[string]any)["pod"].(map[string]any)["uid"] = string(stranger.UID)
		}), api.Denied},
		{"signature broken", good[:len(good)-8] + "AAAAAAAA", api.Denied},
		{"expired", resign(t, c, good, func(m map[string]any) { m["exp"] = time.Now().Add(-time.Hour).Unix() }), api.Denied},
		{"the secret of a machine", "fwa_" + id.String() + ".AAAA", api.Denied},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := access.NewAgents(access.AgentsConfig{Client: admin, Pods: admin, State: b, Now: time.Now})
			_, err := a.Report(t.Context(), x.secret, api.AgentReport{Done: 1})
			if got := codeOrNone(err); got != x.want {
				t.Errorf("got %q (%v); want %q", got, err, x.want)
			}
		})
	}
	t.Run("replay after the attempt ended", func(t *testing.T) {
		a := access.NewAgents(access.AgentsConfig{Client: admin, Pods: admin, State: b, Now: time.Now})
		if _, err := a.Report(t.Context(), good, api.AgentReport{Done: 2}); err != nil {
			t.Fatal(err)
		}
		if err := b.Exited(t.Context(), api.Exit{AttemptID: id}); err != nil {
			t.Fatal(err)
		}
		_, err := a.Report(t.Context(), good, api.AgentReport{Done: 3})
		if got := codeOrNone(err); got != api.Conflict {
			t.Errorf("got %q (%v); want %q", got, err, api.Conflict)
		}
	})
}

func codeOrNone(err error) api.Code {
	if err == nil {
		return ""
	}
	return api.CodeOf(err)
}

// taker accepts every report.
type taker struct{ taken int }

func (*taker) Job(api.Identity, sched.JobID) (api.Job, error) {
	return api.Job{Task: api.Task{Origin: "TrainingJob/a-rate/net"}}, nil
}

func (b *taker) ReportFor(context.Context, api.AttemptID, api.AgentReport) (api.AgentAnswer, error) {
	b.taken++
	return api.AgentAnswer{}, nil
}

// TestReportRate: however many tokens a pod gets, it reports a hundred times at once
// and then ten times a second.
func TestReportRate(t *testing.T) {
	c, admin := open(t)
	namespace(t, c, "a-rate")
	mine := account(t, admin, "a-rate", "trainer")
	p := pod(t, admin, client.ObjectKey{Namespace: "a-rate", Name: "net-1-0"}, api.AttemptID{Job: "net-1", Number: 1})
	tokens := []string{token(t, admin, mine, access.AgentAudience, p), token(t, admin, mine, access.AgentAudience, p)}
	now, b := time.Now(), &taker{}
	a := access.NewAgents(access.AgentsConfig{Client: admin, Pods: admin, State: b, Now: func() time.Time { return now }})
	report := func(times int) {
		for i := range times {
			if _, err := a.Report(t.Context(), tokens[i%2], api.AgentReport{}); err != nil && api.CodeOf(err) != api.TooMany {
				t.Fatal(err)
			}
		}
	}
	report(150)
	if b.taken != 100 {
		t.Errorf("%d of 150 reports at once were taken; want 100", b.taken)
	}
	now = now.Add(time.Second)
	report(50)
	if b.taken != 110 {
		t.Errorf("%d reports were taken a second later; want 110", b.taken)
	}
}
