// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubetest runs a real Kubernetes control plane for tests: etcd,
// kube-apiserver and, as asked, kube-controller-manager, kube-scheduler and
// hundreds of pretended GPU nodes (KWOK) or a few real ones (kubelet with
// containerd). It knows nothing of Fairway: what it starts, restarts, breaks and
// audits is Kubernetes.
//
//	func TestGang(t *testing.T) {
//		c := kubetest.Start(t, kubetest.Options{
//			ControllerManager: true,
//			Nodes:             []kubetest.NodeSpec{{Count: 50, GPUs: 8, Type: "a100"}},
//		})
//		...
//	}
//
// A program that is no test uses Open and Close.
//
// The programs are built once by tools/controlplane/build.sh into a cache
// folder; FAIRWAY_CONTROLPLANE names another folder that holds them. Where they
// are missing a test is skipped, or fails if FAIRWAY_E2E=1 says that it has to
// run. FAIRWAY_E2E=0 skips it in any case.
//
// All processes listen on loopback, keep their files in a folder of their own
// and die with the test process, also when that is killed.
package kubetest
