// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/e2e/jumpy"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
)

// disaster is something that happens to the cluster while an operator runs, which is killed
// afterwards.
type disaster struct {
	name   string
	times  int
	strike func(t *testing.T, p *running, link *kubetest.Link, r *rand.Rand) error
}

// disasters returns what else happens while operators are killed: each in turn. Those of the
// clock need an operator that is compiled for them, which takes minutes.
func disasters(t *testing.T, w *world, h *how) []*disaster {
	t.Helper()
	pause := func(r *rand.Rand, most time.Duration) { time.Sleep(time.Duration(r.Int64N(int64(most)))) }
	all := []*disaster{
		{name: "API server killed", strike: func(t *testing.T, _ *running, _ *kubetest.Link, r *rand.Rand) error {
			w.KillAPIServer()
			pause(r, 3*time.Second)
			return w.StartAPIServer(t.Context())
		}},
		// The operator stops leading, and another leads while the first still waits for
		// answers to what it sent. Then it is back, and believes for a moment that it leads.
		{name: "leader cut off while another leads", strike: func(t *testing.T, p *running, link *kubetest.Link, r *rand.Rand) error {
			if r.IntN(2) == 0 {
				link.Block()
			} else {
				link.BlockAnswers()
			}
			insist(t.Context(), func() error { return w.freeLease(t.Context()) })
			other := *h
			other.name, other.link = "heir", nil
			next, err := w.start(t, other)
			if err != nil {
				return err
			}
			eventually(t, "the other leads, or has ended", func() error {
				if next.Running() && !next.leads() {
					return fmt.Errorf("it waits: %s", next.Tail(2))
				}
				return nil
			})
			pause(r, time.Second)
			link.Unblock()
			pause(r, 2*time.Second)
			next.Kill()
			return nil
		}},
		{name: "node silent", strike: func(t *testing.T, _ *running, _ *kubetest.Link, r *rand.Rand) error {
			node := fmt.Sprintf("%s-%d", gpuNode, r.IntN(nodeCount))
			if err := w.FailNode(t.Context(), node); err != nil {
				return err
			}
			pause(r, 6*time.Second)
			return w.RecoverNode(t.Context(), node)
		}},
		{name: "API server stalls", strike: func(_ *testing.T, _ *running, _ *kubetest.Link, r *rand.Rand) error {
			if err := w.PauseAPIServer(); err != nil {
				return err
			}
			pause(r, 6*time.Second)
			return w.ResumeAPIServer()
		}},
		{name: "node deleted", strike: func(t *testing.T, _ *running, _ *kubetest.Link, r *rand.Rand) error {
			node := fmt.Sprintf("%s-%d", gpuNode, r.IntN(nodeCount))
			deleteNode(t, w, node)
			pause(r, 6*time.Second)
			addNode(t, w, node)
			return nil
		}},
		{name: "leader paused", strike: func(_ *testing.T, p *running, _ *kubetest.Link, r *rand.Rand) error {
			if !p.Running() {
				return nil
			}
			if err := p.Pause(); err != nil {
				return err
			}
			pause(r, 6*time.Second)
			return p.Resume()
		}},
	}
	folder := t.TempDir()
	overlay, err := jumpy.Overlay(folder)
	if err != nil {
		t.Fatal(err)
	}
	if h.program, err = operator.Build(t.Context(), folder, "-overlay", overlay); err != nil {
		t.Fatal(err)
	}
	clock, err := jumpy.NewClock(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(jumpy.Variable, clock.Name())
	return append(all, &disaster{name: "clock jumps", strike: func(_ *testing.T, _ *running, _ *kubetest.Link, r *rand.Rand) error {
		// As far as the cluster's certificates allow.
		span := []time.Duration{time.Minute, 50 * time.Minute, 24 * time.Hour, 5 * 24 * time.Hour}[r.IntN(4)]
		back := min(span, 50*time.Minute)
		if err := clock.Set(time.Duration(r.Int64N(int64(span+back))) - back); err != nil {
			return err
		}
		pause(r, 3*time.Second)
		return nil
	}})
}
