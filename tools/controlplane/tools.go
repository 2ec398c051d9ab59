// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package controlplane names the programs that build.sh builds, so that "go mod
// tidy" keeps what they need in this module and out of Fairway's own.
package controlplane

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
