// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

// nature says whether a retry of a job can succeed.
type nature uint8

const (
	stays  nature = iota // permanent, unless the recording says otherwise
	passes               // transient: over after some attempts
	memory               // over with more memory
)

// kind describes a row of the Philly study's table of failures.
type kind struct {
	id     string // in the table of package diagnose
	nature nature
	gang   bool // it does not appear in a screening
}

// kinds are the failure reasons in traces.
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
