// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
)

// The cluster of all tests: GPUs for exactly 104 pods of one GPU.
const (
	nodeCount = 13
	nodeGPUs  = 8
	allGPUs   = nodeCount * nodeGPUs
	gpuNode   = "gpu" // prefix of the nodes' names
)

var gpuNodes = kubetest.NodeSpec{Prefix: gpuNode, Count: nodeCount, GPUs: nodeGPUs, Type: "NVIDIA-H200", PerRack: 4, PerZone: 8}

var shared kubetest.Shared

// requestLog is the API server's audit log of the operators' requests.
var requestLog string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	log.SetLogger(logr.Discard()) // without a logger, clients print a warning
	folder, err := os.MkdirTemp("", "fairway-cluster-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	requestLog = filepath.Join(folder, "requests.jsonl")
	rules := filepath.Join(folder, "audit.yaml")
	text := `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:` + operator.Namespace + `"]
  verbs: [create, update, patch, delete]
`
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared.Options = kubetest.Options{
		ControllerManager: true, Scheduler: true,
		Nodes:          []kubetest.NodeSpec{gpuNodes},
		NodeLease:      40 * time.Second,
		APIServerFlags: []string{"--audit-policy-file=" + rules, "--audit-log-path=" + requestLog},
	}
	return shared.Main(m)
}
