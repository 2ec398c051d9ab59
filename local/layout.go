// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// The files of an attempt's folder.
const (
	attemptFile = "attempt.json" // what to run; written before anything is started
	lockFile    = "lock"         // held while a supervisor exists
	shimFile    = "shim.json"    // the supervisor; written before it starts a rank
	stopFile    = "stop.json"    // the request to stop
	suspendFile = "suspend.json" // its suspension; there from its beginning until the attempt has gone on
	exitFile    = "exit.json"    // how it ended; written before the lock is released
	toldFile    = "told"         // the exit was acknowledged
	shimLog     = "shim.log"     // the supervisor's own messages
)

// epochFile is in the folder of a job: the epoch of the journal that made it. A
// folder of version 0.1 has none.
const epochFile = "epoch"

// jobsFolder holds the folders of jobs.
const jobsFolder = "jobs"

// setAsideDir holds folders that do not belong to the journal.
const setAsideDir = "set-aside"

// The folders that belong to a job's user.
const (
	checkpointDir = "checkpoint"
	workDir       = "work"
)

// jobName is what a job id must look like to be the name of a folder: no
// separator, no leading dot, nothing that a shell or a terminal would act on.
var jobName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// JobsIn returns the jobs that have a folder in the folder of a machine.
func JobsIn(dir string) (ids []sched.JobID, err error) {
	names, err := os.ReadDir(filepath.Join(dir, jobsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, n := range names {
		if jobName.MatchString(n.Name()) {
			ids = append(ids, sched.JobID(n.Name()))
		}
	}
	return ids, err
}

func checkJob(id sched.JobID) error {
	if !jobName.MatchString(string(id)) {
		return api.Errorf(api.Invalid, "job id %.40q cannot name a folder", string(id)).On("id").
			Try("use at most 128 letters, digits, dots, dashes and underscores, the first a letter or a digit")
	}
	return nil
}

// attemptNumber parses the name of an attempt's folder; 0: it is not one.
func attemptNumber(name string) int {
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 || strconv.Itoa(n) != name {
		return 0
	}
	return n
}

func rankLog(rank int) string { return fmt.Sprintf("rank-%d.log", rank) }

// olderLog names the older part of a log.
func olderLog(name string) string { return name + ".1" }

// logTimes names the file that says when the lines of a log file were written.
func logTimes(name string) string { return name + ".times" }

// order is the content of attempt.json: all that a supervisor needs.
type order struct {
	api.Attempt
	// Nonce distinguishes the processes of this attempt from all others: each has it
	// in its environment.
	Nonce       string         `json:"nonce"`
	Boot        string         `json:"boot"` // id of the machine's present run
	API         string         `json:"api"`
	GracePeriod sched.Duration `json:"notice"`
	Report      sched.Duration `json:"report"`
	LogLimit    int64          `json:"log_limit"`
	Checkpoint  string         `json:"checkpoint_dir"`
	Memory      string         `json:"memory_dir,omitempty"` // for a copy of the newest checkpoint
	Work        string         `json:"work_dir"`
	Visible     string         `json:"visible"`                  // CUDA_VISIBLE_DEVICES
	Slots       int            `json:"slots"`                    // size of the gang
	CPU         bool           `json:"cpu"`                      // the slots are CPU slots
	Group       bool           `json:"cgroup"`                   // make a control group
	Processes   int            `json:"processes,omitempty"`      // and threads; 0: no limit
	Denied      []string       `json:"denied_devices,omitempty"` // files of the GPUs of others
	// NewPrivileges lets the ranks gain privileges by set-user-ID programs.
	NewPrivileges bool      `json:"new_privileges,omitempty"`
	Switch        bool      `json:"switch_user"` // become Owner
	MPS           *mpsOrder `json:"mps,omitempty"`
	Box           *boxOrder `json:"container,omitempty"` // nil: the ranks run on the machine itself
	// SecretsFile has the values of the secret variables; only the supervisor reads it.
	SecretsFile string            `json:"secrets_file,omitempty"`
	secrets     map[string]string // from there
}

// ranks returns the number of processes.
func (o *order) ranks() int {
	if o.Task.Single {
		return 1
	}
	return o.Slots
}

// slots returns the indexes of its GPUs.
func (o *order) slots() (out []int) {
	for _, s := range o.Placement {
		out = append(out, s.GPUs.Indexes()...)
	}
	return out
}

// shimRecord is the content of shim.json.
type shimRecord struct {
	Nonce string `json:"nonce"`
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // of the process, in clock ticks since boot
	Boot  string `json:"boot"`
	// Groups are the control groups that hold the ranks.
	Groups []string `json:"cgroups,omitempty"`
	// PGID is the process group of the ranks; 0: none has started yet.
	PGID int `json:"pgid,omitempty"`
	// Up is true if all ranks have been started.
	Up bool `json:"up,omitempty"`
	// Warm is true if ranks were forked from an interpreter that had imported torch.
	Warm bool `json:"warm,omitempty"`
}

// stopRecord is the content of stop.json.
type stopRecord struct {
	Deadline time.Time `json:"deadline"`
}

// exitRecord is the content of exit.json.
type exitRecord struct {
	api.Exit
	// Notes are other problems, such as output that could not be kept.
	Notes []string `json:"notes,omitempty"`
}

// mpsOrder is the MPS setting of an attempt on a shared GPU. It is part of the
// order, so that a daemon that adopts the attempt knows it.
type mpsOrder struct {
	Pipe    string `json:"pipe"`
	Log     string `json:"log"`
	Memory  int64  `json:"memory,omitempty"`  // bytes on each GPU for each process; 0: no limit
	Threads int    `json:"threads,omitempty"` // percent of a GPU's multiprocessors; 0: all
}
