// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// PythonEnv returns the virtual environment ("venv") or conda environment that a task
// was submitted from, and its folder: the one whose programs come first in its PATH.
// An empty kind: from neither.
func (t *Task) PythonEnv() (kind, dir string) {
	for _, bin := range filepath.SplitList(t.Env["PATH"]) {
		for _, e := range [][2]string{{"venv", "VIRTUAL_ENV"}, {"conda", "CONDA_PREFIX"}} {
			if dir := t.Env[e[1]]; dir != "" && filepath.Clean(bin) == filepath.Join(dir, "bin") {
				return e[0], dir
			}
		}
	}
	return "", ""
}

// Variables returns what every process of an attempt is told about it in its
// environment, wherever it runs. A backend adds where the process is and how it
// finds the others.
func (a *Attempt) Variables() map[string]string {
	vars := map[string]string{
		"FAIRWAY_JOB": string(a.Job), "FAIRWAY_ATTEMPT": strconv.Itoa(a.Number),
		"FAIRWAY_GPU_TYPE": string(a.GPUType), "FAIRWAY_GPUS": strconv.Itoa(a.Placement.GPUs()),
	}
	b := a.Spec.Batch
	for k, v := range map[string]int{"INITIAL": b.Initial, "MAX": b.Max, "LOCAL_MIN": b.LocalMin, "LOCAL_MAX": b.LocalMax} {
		if v > 0 {
			vars["FAIRWAY_BATCH_"+k] = strconv.Itoa(v)
		}
	}
	if b.Adapt {
		vars["FAIRWAY_ADAPT"] = "1"
	}
	if m := a.Task.Member; m != nil {
		index := strconv.Itoa(m.Index)
		vars["FAIRWAY_ARRAY"], vars["FAIRWAY_ARRAY_INDEX"], vars["FAIRWAY_ARRAY_COUNT"] = m.Array, index, strconv.Itoa(m.Of)
		vars["SLURM_ARRAY_TASK_ID"] = index // scripts written for Slurm read it
	}
	if a.Screening {
		vars["FAIRWAY_SCREENING"] = "1"
	}
	if a.Plan != nil {
		vars[PlanVariable] = a.Plan.String()
	}
	if a.BatchScale > 0 {
		vars["FAIRWAY_BATCH_SCALE"] = strconv.FormatFloat(a.BatchScale, 'g', -1, 64)
	}
	return vars
}

// SecondsVariable is how a variable of the environment says how long something is.
func SecondsVariable(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// MPSMemory returns the GPU memory that MPS lets a job have which says it needs so
// many bytes: what a program says is not exact. 0: no limit.
func MPSMemory(need int64) int64 {
	if need <= 0 {
		return 0
	}
	return need + need/10 + 64<<20
}

// MPSLimits returns the variables by which MPS keeps a program on so many GPUs to
// bytes of the memory and a percentage of the threads of each; 0: no limit. Limits
// are by the numbers that the program itself gives its GPUs.
func MPSLimits(gpus int, memory int64, threads int) map[string]string {
	vars := map[string]string{}
	if memory > 0 {
		limits := make([]string, gpus)
		for i := range limits {
			limits[i] = fmt.Sprintf("%d=%dM", i, (memory+1<<20-1)>>20)
		}
		vars["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = strings.Join(limits, ",")
	}
	if threads > 0 {
		vars["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = strconv.Itoa(threads)
	}
	return vars
}
