// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubetest runs a real Kubernetes control plane for tests: etcd, kube-apiserver
// and, on request, kube-controller-manager, kube-scheduler, and hundreds of simulated
// GPU nodes (KWOK) or a few real ones (kubelet with containerd). It knows nothing of
// Fairway: it starts, restarts, breaks and audits Kubernetes.
//
//	func TestGang(t *testing.T) {
//		c := kubetest.Start(t, kubetest.Options{
//			ControllerManager: true,
//			Nodes:             []kubetest.NodeSpec{{Count: 50, GPUs: 8, Type: "a100"}},
//		})
//		...
//	}
//
// Programs other than tests use Open and Close.
//
// The programs are built once by tools/controlplane/build.sh into a cache folder;
// FAIRWAY_CONTROLPLANE names another folder that holds them. If they are missing, a
// test is skipped, or fails with FAIRWAY_E2E=1. FAIRWAY_E2E=0 skips it in any case.
//
// All processes listen on loopback, keep their files in their own folder and die with
// the test process, even if that is killed.
package kubetest
