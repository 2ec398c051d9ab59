// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

// nature is what becomes of a failure when the job is tried again.
type nature uint8

const (
	stays  nature = iota // it comes again unless the recording says otherwise
	passes               // it is over after some attempts
	memory               // it is over with more memory
)

// kind is what the simulator knows about a row of the Philly study's table of
// failures.
type kind struct {
	id     string // in the table of package diagnose
	nature nature
	gang   bool // it does not show in a screening
}

// kinds are the reasons that traces name.
var kinds = map[string]kind{
	"CPU out of memory":      {id: "host-out-of-memory", nature: memory},
	"incorrect inputs":       {id: "storage-missing"},
	"semantic error":         {id: "version-conflict"},
	"core dump":              {id: "core-dump"},
	"invalid memory access":  {id: "segfault"},
	"model checkpoint error": {id: "checkpoint-write", nature: passes},
	"CUDA failure":           {id: "cuda-failure", nature: passes},
	"syntax error":           {id: "syntax-error"},
	"traceback from crash":   {id: "python-exception"},
	"MPI error":              {id: "mpi-error", nature: passes, gang: true},
	"GPU out of memory":      {id: "gpu-out-of-memory", nature: memory},
	"MPI runtime failure":    {id: "mpi-runtime", nature: passes, gang: true},
	"permission error":       {id: "access-denied"},
	"import error":           {id: "import-error"},
	"job preempted":          {id: "preempted", nature: passes, gang: true},
	"CUDA init failed":       {id: "cuda-init", nature: passes},
	"model diverged":         {id: "model-diverged"},
	"CUDA version mismatch":  {id: "cuda-version"},
	"GPU ECC error":          {id: "gpu-ecc", nature: passes, gang: true},
	"output node error":      {id: "output-node"},
	"cannot load libraries":  {id: "cannot-load-library"},
	"no signature":           {id: "unknown"},
}
