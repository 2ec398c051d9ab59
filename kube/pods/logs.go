// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/sched"
)

const (
	maxTails    = 4 // pods of a failed gang whose logs are read
	tailLines   = 2000
	tailWithin  = 5 * time.Second
	followEvery = 500 * time.Millisecond
	maxTail     = 10_000_000 // lines; more than this means all
)

var _ api.Logs = (*Executor)(nil)

// LogReader returns a Config.ReadLog that reads from the API server.
func LogReader(c kubernetes.Interface) func(context.Context, string, string, *corev1.PodLogOptions) (io.ReadCloser, error) {
	return func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
		return c.CoreV1().Pods(namespace).GetLogs(pod, o).Stream(ctx)
	}
}

// source is a log that can be read.
type source struct {
	namespace, pod, container string
	rank                      int
}

// readable returns the logs of an attempt's started pods, by rank.
func (e *Executor) readable(r *run) []source {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []source
	for rank, p := range e.gangs[r.id].ranks(r.namespace()) {
		if s, ok := sourceOf(p, rank); ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b source) int { return a.rank - b.rank })
	return out
}

// sourceOf returns the log of the training container; ok is false if it has not
// started.
func sourceOf(p *corev1.Pod, rank int) (s source, ok bool) {
	at := 0
	for i := range p.Spec.Containers {
		if len(devicesIn(&p.Spec.Containers[i])) > 0 {
			at = i
			break
		}
	}
	if at >= len(p.Spec.Containers) {
		return s, false
	}
	name := p.Spec.Containers[at].Name
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == name && (c.State.Running != nil || c.State.Terminated != nil) {
			return source{p.Namespace, p.Name, name, rank}, true
		}
	}
	return s, false
}

func devicesIn(c *corev1.Container) map[corev1.ResourceName]int64 {
	return devicesOf(&corev1.PodSpec{Containers: []corev1.Container{*c}})
}

// tails returns the ends of logs: one rank first, then others.
func (e *Executor) tails(ctx context.Context, from []source, first int) []diagnose.Log {
	slices.SortStableFunc(from, func(a, b source) int {
		switch {
		case (a.rank == first) == (b.rank == first):
			return 0
		case a.rank == first:
			return -1
		}
		return 1
	})
	var out []diagnose.Log
	for _, s := range from[:min(len(from), maxTails)] {
		text, err := e.tail(ctx, s)
		if err != nil {
			e.Log.Info("read pod log", "pod", s.pod, "namespace", s.namespace, "err", err)
			continue
		}
		out = append(out, diagnose.Log{Name: s.pod, Rank: s.rank, Text: text})
	}
	return out
}

func (e *Executor) tail(ctx context.Context, s source) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tailWithin)
	defer cancel()
	lines := int64(tailLines)
	r, err := e.ReadLog(ctx, s.namespace, s.pod, &corev1.PodLogOptions{Container: s.container, TailLines: &lines})
	if err != nil {
		return "", err
	}
	defer r.Close()
	var last []byte
	block := make([]byte, 64<<10)
	for {
		n, err := r.Read(block)
		last = append(last, block[:n]...)
		if over := len(last) - diagnose.TailBytes; over > 0 {
			last = last[:copy(last, last[over:])]
		}
		if err == io.EOF {
			return string(bytes.ToValidUTF8(last, nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// noLog says that what is asked for is not there.
func noLog(id sched.JobID, q api.LogQuery) *api.Error {
	if q.Attempt > 0 {
		return api.Errorf(api.Unknown, "job %s has no log of rank %d of attempt %d here", id, q.Rank, q.Attempt)
	}
	return api.Errorf(api.Unknown, "job %s has no log of rank %d here", id, q.Rank)
}

// CopyLog writes what the pod of a rank has printed to w. With Follow and no
// attempt number it continues from attempt to attempt until the job ends.
func (e *Executor) CopyLog(ctx context.Context, id sched.JobID, q api.LogQuery, w io.Writer) error {
	switch {
	case e.ReadLog == nil:
		return api.Errorf(api.Unavailable, "logs cannot be read here")
	case q.Stream != "":
		return api.Errorf(api.Invalid, "is %.20q", q.Stream).On("stream").Try("leave it out: both streams are in one log, in the order written")
	case q.Rank < 0 || q.Attempt < 0 || q.Tail < 0:
		return api.Errorf(api.Invalid, "rank is %d, attempt is %d, tail is %d", q.Rank, q.Attempt, q.Tail).On("rank").Try("use numbers that are not negative")
	}
	done := 0
	for {
		s, number, ok := e.find(id, q, done)
		switch {
		case ok:
			if err := e.copyOne(ctx, s, q, w); err != nil {
				return err
			}
			if !q.Follow || q.Attempt > 0 {
				return nil
			}
			done, q.Tail = number, 0
			continue
		case !q.Follow && done == 0:
			return noLog(id, q).Try("it may not have started yet, or ended so long ago that its pods are gone")
		case e.Ended == nil && done > 0 || e.Ended != nil && e.Ended(id):
			if done == 0 {
				return noLog(id, q).Try("its pods are gone")
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
}

// find returns the log of the attempt after done; for 0, of the last attempt.
func (e *Executor) find(id sched.JobID, q api.LogQuery, done int) (s source, number int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for n := range e.byJob[id] {
		if n <= done || q.Attempt > 0 && n != q.Attempt || ok && (done == 0) != (n > number) {
			continue
		}
		attempt := api.AttemptID{Job: id, Number: n}
		namespace := ""
		if r := e.runs[attempt]; r != nil {
			namespace = r.namespace()
		}
		p := e.gangs[attempt].ranks(namespace)[q.Rank]
		if p == nil {
			continue
		}
		if found, begun := sourceOf(p, q.Rank); begun {
			s, number, ok = found, n, true
		}
	}
	return s, number, ok
}

// LogFiles returns the logs that can be read, by attempt and rank.
func (e *Executor) LogFiles(id sched.JobID) ([]api.LogFile, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []api.LogFile
	for n := range e.byJob[id] {
		attempt, namespace := api.AttemptID{Job: id, Number: n}, ""
		if r := e.runs[attempt]; r != nil {
			namespace = r.namespace()
		}
		for rank, p := range e.gangs[attempt].ranks(namespace) {
			if _, begun := sourceOf(p, rank); begun {
				out = append(out, api.LogFile{Attempt: n, Rank: rank, Ended: request.Ended(p)})
			}
		}
	}
	slices.SortFunc(out, func(a, b api.LogFile) int { return cmp.Or(a.Attempt-b.Attempt, a.Rank-b.Rank) })
	return out, nil
}

func (e *Executor) copyOne(ctx context.Context, s source, q api.LogQuery, w io.Writer) error {
	o := &corev1.PodLogOptions{Container: s.container, Follow: q.Follow}
	if q.Tail > 0 && q.Tail < maxTail {
		lines := int64(q.Tail)
		o.TailLines = &lines
	}
	if !q.Since.IsZero() {
		o.SinceTime = &metav1.Time{Time: q.Since}
	}
	r, err := e.ReadLog(ctx, s.namespace, s.pod, o)
	if err != nil {
		return api.Errorf(api.Unavailable, "read the log of pod %s: %w", s.pod, err)
	}
	defer r.Close()
	if _, err := io.Copy(w, r); err != nil {
		return fmt.Errorf("copy the log of pod %s: %w", s.pod, err)
	}
	return nil
}
