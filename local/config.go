// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"log/slog"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/suspend"
	"github.com/fairway-gpu/fairway/sched"
)

// Config holds the settings of a machine. Zero fields mean the default.
type Config struct {
	Dir string // the machine's folder; required by Open
	API string // value of FAIRWAY_API for the jobs: only their agents use it
	// Shim starts a supervisor: ShimMain is called with the arguments that follow
	// it. For example {"/proc/self/exe", "shim"}. Required by Open.
	Shim []string

	Node    sched.Node // as Discover found it
	Devices []Device   // by slot

	GracePeriod time.Duration // between the request to stop and the kill; default 30 s
	LogLimit    int64         // bytes of a log file; each rank has two; default 64 MiB
	LogKeep     int           // ended attempts whose logs are kept; default 1000
	LogBytes    int64         // bytes of all logs of ended attempts; default 8 GiB
	KeepEnded   time.Duration // how long the checkpoints of ended jobs are kept; default 7 days
	// Ended reports whether a job will never run again. Without it, checkpoints are
	// never removed, and following a log stops at the end of an attempt.
	Ended func(sched.JobID) bool

	// Memory is a folder in the machine's memory (tmpfs), for copies of checkpoints;
	// default /dev/shm. There are none without Ended.
	Memory string

	// SaveFails reports whether an attempt that was asked to stop cannot save its work.
	// Its grace period is prolonged then, up to api.MaxGracePeriod. Nil: never.
	SaveFails func(api.AttemptID) bool

	// Claim reports whether an attempt that was found in a folder is one that the
	// orders know; with number 0, whether the folder of a job is. Others are stopped
	// if they run, and set aside. Nil: all are known.
	Claim func(api.Attempt) (bool, error)

	Name   string        // of the node; default: the name of the host
	Slots  int           // offer that many CPU slots instead of GPUs; 0: GPUs, or a slot for each core
	SMI    string        // the program nvidia-smi; default: found in PATH
	Sample time.Duration // time between two measurements; default 5 s
	Report time.Duration // how often agents report; default 30 s
	Probe  time.Duration // time between two looks at the room on the disk; default 2 s

	// Processes bounds the processes and threads of a job for each of its slots, where
	// control groups can be made; default 8192, less than 0: no limit. NewPrivileges
	// lets jobs run set-user-ID programs, AllGPUs open the devices of other jobs' GPUs.
	Processes     int
	NewPrivileges bool
	AllGPUs       bool

	// MPS sets whether jobs that share a GPU use NVIDIA's multi-process service:
	// MPSAuto (the default), MPSOn or MPSOff. MPSThreads is the share of a GPU's
	// multiprocessors that each may use, in percent; 0: all of them. A job that holds
	// a quarter of a GPU or less may use no more than its share.
	MPS        string
	MPSControl string // the program nvidia-cuda-mps-control; default: found in PATH
	MPSThreads int
	MPSCheck   time.Duration // between looks at it; default 15 s
	// Warm is how many interpreters that have imported torch may wait, so that a job
	// starts as a fork of one; 0: none. One that is not used for WarmIdle ends; default
	// 30 minutes.
	Warm     int
	WarmIdle time.Duration
	// Runtime runs the containers of jobs with an image, as FindRuntime found it. Mounts
	// are folders that every container sees, at the same paths.
	Runtime Runtime
	Mounts  []string
	// NoSuspend says that jobs are not suspended in place.
	NoSuspend bool
	Suspend   suspend.Host // how they are; default: by fairway-cuda
	// Tell receives messages for the operator; may be nil.
	Tell func(string)

	Now func() time.Time // default time.Now
	Log *slog.Logger     // default: nothing is logged
}

// The modes of MPS.
const (
	MPSAuto = "auto" // where the machine has it
	MPSOn   = "on"   // and it is a problem if it has not
	MPSOff  = "off"
)

// Device is the GPU or CPU core of one slot of the node.
type Device struct {
	Index  int // as nvidia-smi counts; -1: a CPU slot
	UUID   string
	Type   sched.GPUType
	Memory int64  // bytes; 0: unknown
	File   string // such as /dev/nvidia0; empty: unknown, so others cannot be kept from it
}

func (c Config) withDefaults() Config {
	or := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	or(&c.GracePeriod, 30*time.Second)
	or(&c.KeepEnded, 7*24*time.Hour)
	or(&c.Sample, 5*time.Second)
	or(&c.Report, 30*time.Second)
	or(&c.Probe, 2*time.Second)
	if c.LogLimit <= 0 {
		c.LogLimit = 64 << 20
	}
	if c.LogKeep <= 0 {
		c.LogKeep = 1000
	}
	if c.LogBytes <= 0 {
		c.LogBytes = 8 << 30
	}
	if c.Processes == 0 {
		c.Processes = 8192
	}
	if c.Memory == "" {
		c.Memory = "/dev/shm"
	}
	if c.SMI == "" {
		c.SMI = "nvidia-smi"
	}
	if c.MPS == "" {
		c.MPS = MPSAuto
	}
	if c.MPSControl == "" {
		c.MPSControl = "nvidia-cuda-mps-control"
	}
	or(&c.MPSCheck, 15*time.Second)
	or(&c.WarmIdle, 30*time.Minute)
	if c.Claim == nil {
		c.Claim = func(api.Attempt) (bool, error) { return true, nil }
	}
	if c.SaveFails == nil {
		c.SaveFails = func(api.AttemptID) bool { return false }
	}
	if c.Tell == nil {
		c.Tell = func(string) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
