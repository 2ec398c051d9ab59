// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

// What runs the containers of jobs that name an image.
const (
	RuntimeAuto = "auto" // the first of the others that works
	Podman      = "podman"
	Apptainer   = "apptainer"
	Docker      = "docker"
	RuntimeOff  = "off"
)

// Runtimes are the settings of a machine, in the order of auto: the first two leave the
// processes of a container among those of the supervisor, so all limits hold.
var Runtimes = []string{RuntimeAuto, Podman, Apptainer, Docker, RuntimeOff}

// Runtime is a program that runs containers.
type Runtime struct {
	Kind    string `json:"kind,omitempty"` // empty: there is none
	Program string `json:"program,omitempty"`
	Version string `json:"version,omitempty"`
	// Init is a program that podman can make the first process of a container. The first
	// process ignores signals that it does not handle, and so would a plain script.
	Init string `json:"init,omitempty"`
}

func (r Runtime) String() string {
	if r.Kind == "" {
		return ""
	}
	return r.Kind + " " + r.Version
}

// boxOrder is how the ranks of an attempt run in containers. It is part of the order, so
// that a daemon that finds the attempt can remove what is left of them.
type boxOrder struct {
	Runtime
	Mounts []string `json:"mounts,omitempty"` // folders of the operator's choice
	Socket string   `json:"socket,omitempty"` // folder of the socket for agents; files there change, so a mounted file would not do
	GPUs   []int    `json:"gpus,omitempty"`   // as nvidia-smi counts
}

// beside reports whether another service runs the containers, so that their processes are
// neither below the supervisor nor in the control group of the attempt.
func (b *boxOrder) beside() bool { return b != nil && b.Kind == Docker }
