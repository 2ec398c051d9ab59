// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package realnodes

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// testCrash: the leader's process is killed. When its lease expires, the other replica
// leads, or the restarted container of the same pod.
func (s *site) testCrash(t *testing.T) {
	old := s.waitLeader(t)
	if err := syscall.Kill(processOf(t, *old.Pod), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.nextLeads(t, old)
	s.waitInstalled(t)
	s.trainOne(t, "after-crash")
}

// testDeleteLeader: the leader's pod is deleted without a grace period.
func (s *site) testDeleteLeader(t *testing.T) {
	old := s.waitLeader(t)
	s.sh(t, fmt.Sprintf("kubectl delete pod -n %s %s --grace-period=0 --force", old.Namespace, old.Name))
	s.nextLeads(t, old)
	s.trainOne(t, "after-delete")
	s.waitInstalled(t)
}

// testUpgrade: both replicas are replaced by replicas with the new values.
func (s *site) testUpgrade(t *testing.T) {
	old, err := s.operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.sh(t, strings.TrimRight(s.documented(t, "../upgrading.md", "helm upgrade"), "\n")+" --set config.policy=tiresias,networkPolicy.enabled=true,metrics.dashboard.enabled=true,resources.requests.cpu=100m")
	s.waitInstalled(t)
	now, err := s.operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range now {
		for _, q := range old {
			if p.UID == q.UID {
				t.Errorf("pod %s is of the time before the upgrade", p.Name)
			}
		}
	}
	eventually(t, "the policy of the upgrade is in force", func(context.Context) error {
		if out := s.sh(t, "fairway policy get"); !strings.Contains(out, "tiresias") {
			return fmt.Errorf("it is %s", out)
		}
		return nil
	})
	s.trainOne(t, "after-upgrade")
}

// testEvict: a drain of both nodes at once cannot evict both replicas.
func (s *site) testEvict(t *testing.T) {
	first := s.waitLeader(t)
	pods, err := s.operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	evict := func(ctx context.Context, p *corev1.Pod) error {
		return s.admin.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{})
	}
	// A drain begins like this. Otherwise a new replica might be ready before the next
	// line.
	s.sh(t, "kubectl cordon real-0 real-1")
	eventually(t, "the leader is evicted", func(ctx context.Context) error { return evict(ctx, first.Pod) })
	for i := range pods {
		if pods[i].UID == first.UID {
			continue
		}
		if err := evict(t.Context(), &pods[i]); !apierrors.IsTooManyRequests(err) {
			t.Errorf("evict the other replica: %v; want it refused", err)
		}
	}
	s.nextLeads(t, first)
	s.sh(t, "kubectl uncordon real-0 real-1")
	s.waitInstalled(t)
}

// testUninstall: without Fairway, the gang keeps running and no user object is lost;
// the next installation continues with both.
func (s *site) testUninstall(t *testing.T, gang *v1alpha1.TrainingJob, before map[string]string) {
	s.sh(t, s.documented(t, "operations.md", "helm uninstall"))
	eventually(t, "the operator is gone", func(ctx context.Context) error {
		pods, err := s.operators(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods))
		}
		return err
	})
	if diff := cmp.Diff(before, s.running(t, gang)); diff != "" {
		t.Fatalf("without Fairway the gang is not what it was (-before +after):\n%s", diff)
	}
	late := s.submit(t, waits("late"))
	if out := s.sh(t, "kubectl get tj -n "+team); !strings.Contains(out, "after-upgrade") || !strings.Contains(out, "late") {
		t.Error("the jobs are not there any more")
	}
	s.sh(t, s.documented(t, "install.md", "helm install"))
	s.waitInstalled(t)
	s.waitState(t, late, api.Running)
	s.waitState(t, gang, api.Running)
	if diff := cmp.Diff(before, s.running(t, gang)); diff != "" {
		t.Fatalf("installed again, the gang is not what it was (-before +after):\n%s", diff)
	}
	if gang.Status.Attempt != 1 || gang.Status.Failures != 0 {
		t.Errorf("the gang is in attempt %d, of which %d failed; want 1 and 0", gang.Status.Attempt, gang.Status.Failures)
	}
	s.end(t, gang)
	s.end(t, late)
}

// testManifests: the same without Helm.
func (s *site) testManifests(t *testing.T) {
	s.sh(t, s.documented(t, "operations.md", "helm uninstall"))
	begin := time.Now()
	s.sh(t, s.documented(t, "install.md", "deploy/manifests/fairway.yaml"))
	s.waitInstalled(t)
	t.Logf("from the command to two replicas of which one leads: %v", time.Since(begin).Round(100*time.Millisecond))
	s.trainOne(t, "without-helm")
	s.sh(t, s.documented(t, "install.md", "kind: SchedulingPolicy"))
	eventually(t, "the policy is in force", func(context.Context) error {
		if out := s.sh(t, "kubectl get schedulingpolicy cluster; fairway policy get"); strings.Count(out, "tiresias") < 2 {
			return fmt.Errorf("it is %s", out)
		}
		return nil
	})
}
