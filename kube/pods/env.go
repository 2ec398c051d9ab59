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

// Annotations that hold addresses, once they are known: of the first pod of its role, and of
// the first pod of the gang.
const (
	annotationMaster = "fairway.dev/master"
	annotationMeet   = "fairway.dev/meet"
)

// environment returns the variables of the pod of a rank. Each pod is one process: RANK
// and WORLD_SIZE count pods, those of its role if there are roles. The PET_ variables are torchrun's options, so that a plain
// torchrun in the container starts a process for each GPU.
func (c *Config) environment(p *plan, rank int) []corev1.EnvVar {
	a := p.attempt
	first, size := p.role(rank)
	world, port := strconv.Itoa(size), strconv.Itoa(c.Port)
	number := strconv.Itoa(p.at[rank].Rank)
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
	master := c.address(p, rank, first, annotationMaster)
	if size == 1 {
		master = corev1.EnvVar{Value: "127.0.0.1"}
	}
	for _, name := range []string{"MASTER_ADDR", "PET_MASTER_ADDR"} {
		master.Name = name
		out = append(out, master)
	}
	slices.SortFunc(out, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return append(out, c.roleVars(p, rank)...)
}

// roleVars returns what a pod knows about the roles of its gang.
func (c *Config) roleVars(p *plan, rank int) []corev1.EnvVar {
	task := &p.attempt.Task
	if len(task.Roles) == 0 {
		return nil
	}
	host := c.address(p, rank, 0, annotationMeet)
	host.Name = api.MeetVariable + "_HOST" // before the one that refers to it
	return []corev1.EnvVar{
		{Name: api.RoleVariable, Value: task.Roles[p.at[rank].Role].Name}, {Name: api.RolesVariable, Value: task.RolesText(len(p.seats))},
		host, {Name: api.MeetVariable, Value: fmt.Sprintf("$(%s):%d", host.Name, c.Port+1)},
	}
}

// role returns the rank of the first pod of a pod's role, and how many pods that has.
func (p *plan) role(rank int) (first, size int) {
	first = rank - p.at[rank].Rank
	for _, at := range p.at {
		if at.Role == p.at[rank].Role {
			size++
		}
	}
	return first, size
}

// address returns the address of one pod of a gang for another, which finds it in an
// annotation if there are no names.
func (c *Config) address(p *plan, rank, of int, annotation string) corev1.EnvVar {
	switch {
	case len(p.seats) == 1:
		return corev1.EnvVar{Value: "127.0.0.1"}
	case c.Rendezvous == ByIP:
		// It is read when the container starts; the binding has written it by then.
		path := fmt.Sprintf("metadata.annotations['%s']", annotation)
		if rank == of {
			path = "status.podIP"
		}
		return corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	name := podName(p.from.Name, p.attempt.Number, of)
	return corev1.EnvVar{Value: fmt.Sprintf("%s.%s.%s.svc", name, p.service, p.from.Namespace)}
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
