// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// JobID names a job. It is unique over the life of a State.
type JobID string

// Job is one training job: what was asked for, and what has happened so far.
type Job struct {
	Spec
	Status
	tenant int // 1 + index of its tenant in State.tenants; 0: nobody declared it
}

// Spec is what the user asked for. It does not change after submission, but
// for memory: a job that ran out of it is tried again with more.
type Spec struct {
	ID        JobID     `json:"id"`
	App       AppID     `json:"app,omitempty"` // default: an app of its own, named like the job
	Tenant    TenantID  `json:"tenant,omitempty"`
	User      string    `json:"user,omitempty"`
	Submitted time.Time `json:"submitted"`

	// GPUs is the size of the gang. A rigid job runs at this size or not at
	// all; an elastic one (MaxGPUs > 0) at any useful size in its range, and
	// GPUs is then the size the user would have guessed.
	GPUs    int   `json:"gpus"`
	MinGPUs int   `json:"min_gpus,omitempty"`
	MaxGPUs int   `json:"max_gpus,omitempty"`
	Sizes   []int `json:"sizes,omitempty"` // useful sizes, ascending; none: every size in the range
	// TaskGPUs is the number of GPUs of one task of the gang. A task lives on
	// one node, so every node holds a multiple of it. 0 counts as 1.
	TaskGPUs int `json:"task_gpus,omitempty"`
	// MilliGPU is how much of each GPU the job needs, in thousandths.
	// 0 counts as WholeGPU.
	MilliGPU int32 `json:"milli_gpu,omitempty"`
	// Shareable allows a policy to give the job GPUs that others use too.
	Shareable bool `json:"shareable,omitempty"`

	GPUTypes  []GPUType `json:"gpu_types,omitempty"`  // acceptable types, best first; none: any
	GPUMemory int64     `json:"gpu_memory,omitempty"` // bytes needed on each GPU
	CPUs      int       `json:"cpus,omitempty"`       // for each GPU
	Memory    int64     `json:"memory,omitempty"`     // bytes of host memory for each GPU
	MaxSpread Level     `json:"widest,omitempty"`     // the widest acceptable placement; NoLevel: any
	// Topology asks for one domain of a level, for the gang and for its segments. All of
	// the rules hold.
	Topology []Rule `json:"topology,omitempty"`
	// Selector is the label that a node must have for the job to run there; "":
	// any node.
	Selector string `json:"needs,omitempty"`

	Priority       int  `json:"priority,omitempty"` // larger goes first, where the policy looks at it
	NonPreemptible bool `json:"non_preemptible,omitempty"`
	// Protected keeps a running job where it is, at the size it has, until it has
	// shown that it can save its work (Status.Can). A driver of real jobs sets it
	// for every job that has not opted out.
	Protected bool `json:"protected,omitempty"`
	// TimeLimit is how long the job may run, all its attempts together; then its
	// driver ends it. 0: as long as it takes. It says nothing about how long it will.
	TimeLimit Duration `json:"time_limit,omitempty"`
	// Screen is how long the job has to run on a few GPUs before it may have all
	// it asks for, where new jobs are screened. 0: it is trusted.
	Screen Duration `json:"screen,omitempty"`

	Model string `json:"model,omitempty"` // what it trains
	// Consolidate says that the model loses speed when its GPUs are spread
	// (Tiresias: the size distribution of its tensors is skewed).
	Consolidate bool    `json:"consolidate,omitempty"`
	GPUUtil     float64 `json:"gpu_util,omitempty"` // expected utilisation of its GPUs, 0 to 1; 0: unknown
	Batch       Batch   `json:"batch,omitzero"`

	// Estimate is the expected run time at GPUs, well placed. 0: unknown.
	Estimate Duration `json:"estimate,omitempty"`
	// Work is the total work in the job's own unit (steps, epochs, seconds).
	Work float64 `json:"work,omitempty"`
}

// Batch bounds what co-adaptation may do to the batch size.
type Batch struct {
	Initial  int  `json:"initial,omitempty"`   // the batch size the user's learning rate is meant for
	Max      int  `json:"max,omitempty"`       // of all GPUs together
	LocalMin int  `json:"local_min,omitempty"` // of one GPU
	LocalMax int  `json:"local_max,omitempty"`
	Adapt    bool `json:"adapt,omitempty"` // opt in: the batch size may change during training
}

// Ability is what a job can do when the scheduler asks it to make room.
type Ability uint8

// The abilities of a job, each including those before it.
const (
	Unproven Ability = iota // nothing is known: stopping it may lose all of its work
	Saves                   // it saves its work on notice and goes on from there
	Resizes                 // it also goes on with another number of GPUs
	InPlace                 // and, on the same machine, without leaving them
)

var abilityNames = [...]string{"unproven", "saves", "resizes", "in_place"}

func (a Ability) String() string {
	if int(a) < len(abilityNames) {
		return abilityNames[a]
	}
	return fmt.Sprintf("ability(%d)", uint8(a))
}

// MarshalText implements encoding.TextMarshaler.
func (a Ability) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Ability) UnmarshalText(b []byte) error {
	i := slices.Index(abilityNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("ability %q: want one of %v", b, abilityNames)
	}
	*a = Ability(i)
	return nil
}

// Phase is where a job is in its life.
type Phase uint8

// The phases of a job.
const (
	Pending Phase = iota
	Running
	Finished  // ended by itself, as it should
	Cancelled // ended by its user
	Failed    // ended by an error that is not retried
)

var phaseNames = [...]string{"pending", "running", "finished", "killed", "failed"}

func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// MarshalText implements encoding.TextMarshaler.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Phase) UnmarshalText(b []byte) error {
	i := slices.Index(phaseNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("phase %q: want one of %v", b, phaseNames)
	}
	*p = Phase(i)
	return nil
}

// Ended reports whether the job will never run again.
func (p Phase) Ended() bool { return p >= Finished }

// Status is what has happened to a job. Only State.Apply writes it.
//
// Sums that grow while a job runs or waits (GPUSeconds, Ran, Waited, Done)
// hold the value at Since or ReportedAt; the methods of Job that take the
// present time give the value now.
type Status struct {
	Seq       int64     `json:"seq"` // order of submission: breaks every tie
	Phase     Phase     `json:"phase"`
	Since     time.Time `json:"since"` // start of the present wait or of the present placement
	Placement Placement `json:"placement,omitempty"`

	FirstStart  time.Time `json:"first_start,omitzero"`
	GPUSeconds  float64   `json:"gpu_seconds,omitempty"` // attained service
	Ran         Duration  `json:"ran,omitempty"`
	Waited      Duration  `json:"waited,omitempty"`
	Starts      int       `json:"starts,omitempty"`
	Preemptions int       `json:"preemptions,omitempty"` // stopped by the scheduler to wait
	Moves       int       `json:"moves,omitempty"`       // stopped by the scheduler to go on elsewhere or at another size
	Failures    int       `json:"failures,omitempty"`    // attempts that ended with an error
	MostGPUs    int       `json:"most_gpus,omitempty"`   // ever held at once

	// NotBefore keeps a job that failed from being retried at once.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Paused keeps the job off all GPUs until somebody resumes it.
	Paused bool `json:"paused,omitempty"`
	// Avoid names the nodes that a retry stays away from while there are others.
	// It is replaced, never changed in place.
	Avoid []string `json:"avoid,omitempty"`
	// Screening says that the job runs on fewer GPUs than it asks for, to see
	// whether it works at all.
	Screening bool `json:"screening,omitempty"`
	// ProbationPassed is set once the job has run for as long as its screening takes.
	ProbationPassed bool `json:"proven,omitempty"`
	// Suspended is where a job was stopped without a checkpoint: it can go on
	// there at once, its state is still in the host's memory.
	Suspended Placement `json:"suspended,omitempty"`
	// Suspends says that the job would lose work if it were stopped, and can be suspended
	// where it runs or, while it waits, wherever it may run. Suspension is what is known about that; it is replaced,
	// never changed in place.
	Suspends   bool        `json:"suspends,omitempty"`
	Suspension *Suspension `json:"suspension,omitempty"`

	Done             float64   `json:"done,omitempty"` // work done, in the unit of Spec.Work
	Rate             float64   `json:"rate,omitempty"` // work for each second, as last reported
	ReportedAt       time.Time `json:"reported_at,omitzero"`
	Checkpoint       time.Time `json:"checkpoint,omitzero"` // last one written
	CheckpointedWork float64   `json:"kept,omitempty"`      // work that the last checkpoint holds
	// Slowdown is how many times longer a step takes beside the other jobs on
	// its GPUs than alone, as last measured since the start. 0: not measured.
	Slowdown float64 `json:"slowdown,omitempty"`

	// Can is what the job has shown that it can do. It matters for jobs that are
	// Protected.
	Can Ability `json:"can,omitempty"`

	// SaveFailed says that the job could not save its work, and has not saved any since.
	SaveFailed bool `json:"save_failed,omitempty"`

	// Perf is the last report of the job's agent; nil: it has not reported yet,
	// or has no agent.
	Perf *goodput.Report `json:"perf,omitempty"`

	Note Note `json:"note,omitzero"`
}

// Note is what a policy remembers about a job between two decisions. The core
// carries it and never reads it.
type Note struct {
	Level int       `json:"level,omitempty"`
	Count int       `json:"count,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// Restarts returns how often the job was started again.
func (j *Job) Restarts() int { return max(0, j.Starts-1) }

// Pinned reports whether the job, once it runs, stays where it is: nobody may
// preempt, move or resize it. One that can be suspended may be preempted, but goes on
// only where it was.
func (j *Job) Pinned() bool { return j.NonPreemptible || j.losesWork() && !j.Suspends && !j.Bound() }

// Elastic reports whether the job may run at more than one size. One that may
// not be resized runs at the size its user would have guessed.
func (j *Job) Elastic() bool {
	return j.MaxGPUs > j.MinGPUs && !j.NonPreemptible && (!j.Protected || j.Can >= Resizes)
}

// Task returns the GPUs of one task with the default filled in.
func (j *Job) Task() int { return max(1, j.TaskGPUs) }

// Milli returns the share of each GPU the job needs, default filled in.
func (j *Job) Milli() int32 {
	if j.MilliGPU <= 0 {
		return WholeGPU
	}
	return j.MilliGPU
}

// Fits reports whether n GPUs is a size the job can run at.
func (j *Job) Fits(n int) bool {
	if !j.Elastic() {
		return n == j.GPUs
	}
	if n < j.MinGPUs || n > j.MaxGPUs {
		return false
	}
	return len(j.Sizes) == 0 || slices.Contains(j.Sizes, n)
}

// LargestSize returns the largest size up to most, in whole tasks, that the job
// can run at; 0 if there is none.
func (j *Job) LargestSize(most int) int {
	if !j.Elastic() || len(j.Sizes) > 0 { // few sizes
		best := 0
		for n := j.NextSize(0); n > 0 && n <= most; n = j.NextSize(n) {
			best = n
		}
		return best
	}
	if n := min(most, j.MaxGPUs) / j.Task() * j.Task(); n >= j.MinGPUs {
		return n
	}
	return 0
}

// NoSize is more GPUs than any cluster has.
const NoSize = math.MaxInt32

// StartSize returns the GPUs a job starts with: what it asks for or, if an elastic
// job cannot run at that size, the nearest smaller size, or else its smallest;
// NoSize if there is none at all.
func (j *Job) StartSize() int { return cmp.Or(j.LargestSize(j.GPUs), j.NextSize(0), NoSize) }

// Spreads reports whether the job accepts GPUs as far apart as a level.
func (j *Job) Spreads(l Level) bool { return j.MaxSpread == NoLevel || l <= j.MaxSpread }

// NextSize returns the smallest size above n, in whole tasks, that the job can
// run at; 0 if there is none.
func (j *Job) NextSize(n int) int {
	if !j.Elastic() {
		if n < j.GPUs {
			return j.GPUs
		}
		return 0
	}
	n = max(n, j.MinGPUs-1)
	task := j.Task()
	if len(j.Sizes) == 0 {
		if n = (n/task + 1) * task; n <= j.MaxGPUs {
			return n
		}
		return 0
	}
	for _, size := range j.Sizes {
		if size > n && size <= j.MaxGPUs && size%task == 0 {
			return size
		}
	}
	return 0
}

// Accepts reports whether the job may run on that type of GPU.
func (j *Job) Accepts(t GPUType) bool {
	return len(j.GPUTypes) == 0 || slices.Contains(j.GPUTypes, t)
}

// Suits reports whether the job may run on a node like that: its GPUs are of a
// type that the job accepts and have memory enough, and it bears the mark that
// the job needs. What is free there, and the state of the node, are not asked.
func (j *Job) Suits(n *Node) bool {
	return n.Matches(j.Selector) && (n.GPUMemory == 0 || j.GPUMemory <= n.GPUMemory) && j.Accepts(n.Type)
}

// Age returns the time since submission.
func (j *Job) Age(now time.Time) time.Duration { return now.Sub(j.Submitted) }

// AttainedBy returns the GPU-seconds held until now; half a GPU counts half.
func (j *Job) AttainedBy(now time.Time) float64 {
	if j.Phase != Running {
		return j.GPUSeconds
	}
	return j.GPUSeconds + float64(j.Placement.Milli())/WholeGPU*now.Sub(j.Since).Seconds()
}

// Unsaved returns the GPU-seconds since the last checkpoint of a running job: what it
// would lose if it were killed.
func (j *Job) Unsaved(now time.Time) float64 {
	since := j.Since
	if j.Checkpoint.After(since) {
		since = j.Checkpoint
	}
	return max(0, now.Sub(since).Seconds()) * float64(j.Placement.Milli()) / WholeGPU
}

// RanBy returns the time spent running until now.
func (j *Job) RanBy(now time.Time) time.Duration {
	if j.Phase != Running {
		return j.Ran.D()
	}
	return j.Ran.D() + now.Sub(j.Since)
}

// WaitedBy returns the time spent waiting until now.
func (j *Job) WaitedBy(now time.Time) time.Duration {
	if j.Phase != Pending {
		return j.Waited.D()
	}
	return j.Waited.D() + now.Sub(j.Since)
}

// DoneBy returns the work done until now, from the last report and the rate
// it gave; more than was announced only if that report said so.
func (j *Job) DoneBy(now time.Time) float64 {
	if j.Phase != Running || j.Rate == 0 || !now.After(j.ReportedAt) {
		return j.Done
	}
	done := j.Done + j.Rate*now.Sub(j.ReportedAt).Seconds()
	if j.Done < j.Work {
		done = min(done, j.Work)
	}
	return done
}

// Announced returns the work that the job is said to do in all; 0: nobody says.
func (j *Job) Announced() float64 {
	if j.Work == 0 && j.Perf != nil {
		return j.Perf.Work
	}
	return j.Work
}

// Remaining returns the expected run time still needed at the requested size,
// well placed. ok is false when nobody has an estimate.
func (j *Job) Remaining(now time.Time) (left time.Duration, ok bool) {
	if j.Estimate <= 0 {
		return 0, false
	}
	if j.Work <= 0 {
		return max(0, j.Estimate.D()-j.RanBy(now)), true
	}
	return time.Duration(float64(j.Estimate) * max(0, 1-j.DoneBy(now)/j.Work)), true
}

// OnProbation reports whether the job still has to be screened.
func (j *Job) OnProbation(now time.Time) bool {
	return j.Screen > 0 && !j.ProbationPassed && (j.Phase != Running || now.Sub(j.Since) < j.Screen.D())
}

// Ready reports whether the job may be started now.
func (j *Job) Ready(now time.Time) bool { return !j.Paused && !j.NotBefore.After(now) }

// SpecError is a field of a request that is out of range.
type SpecError struct {
	ID    JobID
	Field string // by its JSON name; several are separated by commas
	Value any
	Want  string
}

func (e *SpecError) Error() string {
	return fmt.Sprintf("job %s: %s = %v; want %s", e.ID, e.Field, e.Value, e.Want)
}

// Validate says what is wrong with the request, if anything.
func (s *Spec) Validate() error {
	bad := func(field string, value any, want string) error {
		return &SpecError{ID: s.ID, Field: field, Value: value, Want: want}
	}
	switch {
	case s.ID == "":
		return fmt.Errorf("job: id is empty; every job needs one")
	case s.GPUs < 1 || s.GPUs > 1<<20:
		return bad("gpus", s.GPUs, "1 to 1048576")
	case s.MinGPUs < 0 || s.MaxGPUs < 0 || (s.MaxGPUs > 0 && s.MinGPUs > s.MaxGPUs):
		return bad("min_gpus, max_gpus", [2]int{s.MinGPUs, s.MaxGPUs}, "0 <= min <= max")
	case s.MaxGPUs > 0 && s.MinGPUs < 1:
		return bad("min_gpus", s.MinGPUs, "1 or more when max_gpus is set")
	case !slices.IsSorted(s.Sizes) || (len(s.Sizes) > 0 && s.Sizes[0] < 1):
		return bad("sizes", s.Sizes, "positive sizes in ascending order")
	case s.MaxGPUs > s.MinGPUs && !(&Job{Spec: *s}).Fits(s.GPUs):
		return bad("gpus", s.GPUs, fmt.Sprintf("a size within min_gpus = %d and max_gpus = %d, and one of sizes if there are any", s.MinGPUs, s.MaxGPUs))
	case s.TaskGPUs < 0 || (s.TaskGPUs > 1 && s.GPUs%s.TaskGPUs != 0):
		return bad("task_gpus", s.TaskGPUs, fmt.Sprintf("a divisor of gpus = %d", s.GPUs))
	case s.MilliGPU < 0 || s.MilliGPU > WholeGPU:
		return bad("milli_gpu", s.MilliGPU, "0 (whole) to 1000")
	case s.CPUs < 0 || s.Memory < 0 || s.GPUMemory < 0:
		return bad("cpus, memory, gpu_memory", [3]int64{int64(s.CPUs), s.Memory, s.GPUMemory}, "0 or more")
	case s.MaxSpread > CrossRack:
		return bad("widest", s.MaxSpread, "slot, machine, rack or cross-rack")
	case s.Selector != "" && !labelOK(s.Selector):
		return bad("needs", fmt.Sprintf("%q", s.Selector), wantLabel)
	case s.TimeLimit < 0:
		return bad("time_limit", s.TimeLimit, "0 (none) or more")
	case s.Screen < 0:
		return bad("screen", s.Screen, "0 (none) or more")
	case s.Estimate < 0:
		return bad("estimate", s.Estimate, "0 (unknown) or more")
	case !(s.Work >= 0): // also refuses NaN
		return bad("work", s.Work, "0 (unknown) or more")
	case !(s.GPUUtil >= 0 && s.GPUUtil <= 1):
		return bad("gpu_util", s.GPUUtil, "0 to 1")
	}
	return s.checkTopology(bad)
}
