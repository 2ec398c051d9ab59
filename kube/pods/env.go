// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
)

// annotationMaster holds the address of the gang's first pod, once it is known.
const annotationMaster = "fairway.dev/master"

// environment returns the variables of the pod of a rank. Each pod is one process: RANK
// and WORLD_SIZE count pods. The PET_ variables are torchrun's options, so that a plain
// torchrun in the container starts a process for each GPU.
func (c *Config) environment(p *plan, rank int) []corev1.EnvVar {
	a := p.attempt
	world, port := strconv.Itoa(len(p.seats)), strconv.Itoa(c.Port)
	number := strconv.Itoa(rank)
	perPod := strconv.Itoa(p.seats[rank].gpus.Len())
	nodes := map[string]bool{}
	for _, n := range p.nodes {
		nodes[n] = true
	}
	vars := map[string]string{
		"RANK": number, "LOCAL_RANK": "0", "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": "1",
		"GROUP_RANK": number, "NODE_RANK": number, "MASTER_PORT": port,
		"PET_NNODES": world, "PET_NODE_RANK": number, "PET_NPROC_PER_NODE": perPod, "PET_MASTER_PORT": port,
		"CUDA_DEVICE_ORDER": "PCI_BUS_ID",

		"FAIRWAY_API": c.API, "FAIRWAY_TOKEN_FILE": tokenFolder + "/token",
		"FAIRWAY_NOTICE": api.SecondsVariable(c.notice(a)), "FAIRWAY_REPORT_SECONDS": api.SecondsVariable(c.Report),
		"FAIRWAY_NODES": strconv.Itoa(len(nodes)), "FAIRWAY_SLOTS": p.seats[rank].list(),
	}
	maps.Copy(vars, a.Variables())
	var out []corev1.EnvVar
	for k, v := range vars {
		out = append(out, corev1.EnvVar{Name: k, Value: v})
	}
	master := c.master(p, rank)
	for _, name := range []string{"MASTER_ADDR", "PET_MASTER_ADDR"} {
		master.Name = name
		out = append(out, master)
	}
	slices.SortFunc(out, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// master returns the address of the first pod.
func (c *Config) master(p *plan, rank int) corev1.EnvVar {
	switch {
	case len(p.seats) == 1:
		return corev1.EnvVar{Value: "127.0.0.1"}
	case c.Rendezvous == ByIP:
		// It is read when the container starts; the binding has written it by then.
		path := fmt.Sprintf("metadata.annotations['%s']", annotationMaster)
		if rank == 0 {
			path = "status.podIP"
		}
		return corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	first := podName(p.from.Name, p.attempt.Number, 0)
	return corev1.EnvVar{Value: fmt.Sprintf("%s.%s.%s.svc", first, p.from.Name, p.from.Namespace)}
}

// list prints the GPUs of a seat.
func (s seat) list() string {
	var out []string
	for _, i := range s.gpus.Indexes() {
		out = append(out, strconv.Itoa(i))
	}
	return strings.Join(out, ",")
}

// withEnv adds variables to those of a container. Added variables win.
func withEnv(own, more []corev1.EnvVar) []corev1.EnvVar {
	own = slices.DeleteFunc(own, func(v corev1.EnvVar) bool {
		return slices.ContainsFunc(more, func(m corev1.EnvVar) bool { return m.Name == v.Name })
	})
	// The added ones come first, so that a container's own variables can refer to them.
	return append(slices.Clone(more), own...)
}
