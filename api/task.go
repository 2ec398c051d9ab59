// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// Task is what to run for a job: everything the scheduler does not look at.
type Task struct {
	Name    string            `json:"name,omitempty"` // for people; need not be unique
	Command []string          `json:"command"`        // one process of it for each GPU (or CPU slot) of the gang
	Dir     string            `json:"dir,omitempty"`  // working folder; empty: a folder of the job's own
	Env     map[string]string `json:"env,omitempty"`
	// Secrets names the variables whose values no record, answer or event holds. The
	// daemon keeps them in a file of its own, under SecretsRef, which users cannot set.
	Secrets    []string `json:"secrets,omitempty"`
	SecretsRef string   `json:"secrets_ref,omitempty"`
	// Notice is the time between the signal that asks the job to save its work
	// and the kill. 0: the daemon's default.
	GracePeriod sched.Duration `json:"notice,omitempty"`
	// Retries is how often an attempt that failed is tried again. Attempts lost
	// to the machine do not count.
	Retries int `json:"retries,omitempty"`
	// Retry says which failures are tried again, Retries times at most: those that
	// trying again can mend (RetryAdaptive, the default), all, or none.
	Retry string `json:"retry,omitempty"`
	// Preemptible says whether the job may be stopped for others. nil: once it has
	// shown that it can save its work, unless its tenant has another default. true:
	// from the start. false: never, as with NonPreemptible.
	Preemptible *bool `json:"preemptible,omitempty"`
	// Image is the container image to run it in; on one machine it may be empty.
	Image string `json:"image,omitempty"`
	// Origin is what the job was made from, for the executor: on Kubernetes the
	// kind, namespace and name of the object. Users cannot set it.
	Origin string `json:"origin,omitempty"`
	// Single runs one process for the whole gang instead of one for each GPU,
	// for programs that start their own workers.
	Single bool `json:"single,omitempty"`
	// Graph is the file of the model's graph that GPUUtil and GPUMemory were
	// predicted from, for people.
	Graph string `json:"graph,omitempty"`
	// Recipe is how the model is trained, for that prediction: words such as
	// "amp+adam" (see "fairway predict").
	Recipe string `json:"recipe,omitempty"`
	// Predicted is the distribution that the graph gives, of which GPUUtil is the mean
	// and GPUMemory a bound; nil: nothing was predicted. "fairway submit" fills it in.
	Predicted *PredictedUse `json:"predicted,omitempty"`
	// DependsOn are the jobs and arrays that have to end before the job queues for GPUs,
	// each as Dependency prints it. The daemon replaces names by ids.
	DependsOn []string `json:"depends_on,omitempty"`
	// Notify are the targets that are told what happens to the job, each as ParseNotify
	// reads it.
	Notify []string `json:"notify,omitempty"`
	// Plans are the execution plans that it may run under, of which the daemon chooses one
	// for each attempt; nil: it has one way to train.
	Plans *plan.Options `json:"plans,omitempty"`
	// Roles divide the gang into parts with programs and sizes of their own; none: all
	// processes are alike.
	Roles []JobRole `json:"roles,omitempty"`
	// MovedFrom is the job of another cluster that it is to replace, as CLUSTER/JOB: it is
	// submitted paused, and resumed when that one was handed over. See docs/clusters.md.
	MovedFrom string `json:"moved_from,omitempty"`
	// Member is which job of an array it is; nil: it is of none. Users cannot set it.
	Member *Member `json:"member,omitempty"`
}

// PredictedUse is how a job is predicted to use each of its GPUs, beyond GPUUtil and
// GPUMemory. Intervals hold nine times out of ten.
type PredictedUse struct {
	UtilLow  float64        `json:"util_low"` // 0 to 1
	UtilHigh float64        `json:"util_high"`
	Memory   int64          `json:"memory"` // bytes that are expected; GPUMemory is enough 98 times out of 100
	StepLow  sched.Duration `json:"step_low,omitempty"`
	StepHigh sched.Duration `json:"step_high,omitempty"`
}

// valid reports whether the intervals are intervals.
func (p *PredictedUse) valid() bool {
	return p.UtilLow >= 0 && p.UtilHigh >= p.UtilLow && p.UtilHigh <= 1 && p.Memory >= 0 && p.StepLow >= 0 && p.StepHigh >= p.StepLow
}

// Which failures are tried again.
const (
	RetryAdaptive = "adaptive"
	RetryAlways   = "always"
	RetryNever    = "never"
)

// Submission is a request to run a job. The id, the time, the tenant and the
// user are filled in by the daemon.
type Submission struct {
	sched.Spec
	Task
	// Key makes submitting idempotent: the same key of the same tenant gives the
	// job that was submitted first. It is remembered for at least 7 days after that
	// job has ended; if the job is no longer kept by then, the request is refused.
	Key string `json:"key,omitempty"`
	// Screen is how long the job has to prove itself on a few GPUs: a duration,
	// ScreenOff, or nothing: the daemon decides by what became of jobs like it. It
	// stands for the field of the same name in Spec.
	Screen string `json:"screen,omitempty"`
	// Run is a script for bash, instead of a command.
	Run string `json:"run,omitempty"`
	// SecretValues are the values of secret variables. They are never recorded.
	SecretValues map[string]string `json:"secret_values,omitempty"`
	// Array makes several jobs of it, as Indexes reads it: one for each number.
	Array string `json:"array,omitempty"`
	// WaitForCapacity lets a job wait that can never run on the nodes there are.
	WaitForCapacity bool `json:"wait_for_capacity,omitempty"`
}

// ScreenOff asks for no screening.
const ScreenOff = "off"

// ScreenTime reads Screen; asked is false if the daemon is to decide.
func (s *Submission) ScreenTime() (d sched.Duration, asked bool, err error) {
	switch s.Screen {
	case "":
		return 0, false, nil
	case ScreenOff:
		return 0, true, nil
	}
	err = d.UnmarshalText([]byte(s.Screen))
	if err != nil || d <= 0 || d.D() > MaxScreen {
		return 0, true, Errorf(Invalid, "is %.40q", s.Screen).On("screen").Try("use off, or a time up to " + sched.Duration(MaxScreen).String())
	}
	return d, true, nil
}

// Limits of a submission.
const (
	maxName        = 200
	maxMoved       = 300
	maxArgs        = 4096
	maxCommand     = 128 << 10 // bytes of all arguments together
	maxEnv         = 64 << 10
	maxSecrets     = 100
	maxKey         = 200
	MaxRetries     = 100
	MaxGracePeriod = time.Hour
	MaxScreen      = 24 * time.Hour
	maxGraph       = 4096
	maxRecipe      = 100
	maxImage       = 1000
	maxList        = 4096 // entries of sizes and gpu_types
	MaxSubmit      = 1000 // jobs of one request: they become durable in one write
)

// MaySubmit says why a request to submit a number of jobs is refused, if it is.
func MaySubmit(who Identity, jobs int) error {
	if err := who.Require(User); err != nil {
		return err
	}
	if jobs < 1 || jobs > MaxSubmit {
		return Errorf(Invalid, "has %d entries", jobs).On("jobs").Try(fmt.Sprintf("send 1 to %d", MaxSubmit))
	}
	return nil
}

// InList says which of several jobs an error is about.
func InList(err error, i, n int) error {
	if n == 1 {
		return err
	}
	return within(fmt.Sprintf("jobs[%d]", i), err)
}

// within puts the field of an error below another one.
func within(field string, err error) error {
	if e, ok := err.(*Error); ok && e != nil {
		c := *e
		c.Field = strings.TrimSuffix(field+"."+e.Field, ".")
		return &c
	}
	return err
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Validate says what is wrong with the task, if anything.
func (t *Task) Validate() error {
	bad := func(field, format string, args ...any) *Error {
		return Errorf(Invalid, format, args...).On(field)
	}
	switch {
	case len(t.Name) > maxName || strings.ContainsFunc(t.Name, unprintable):
		return bad("name", "%.40q has %d bytes or holds control characters", t.Name, len(t.Name)).Try(fmt.Sprintf("use at most %d printable bytes", maxName))
	case len(t.Command) == 0 || t.Command[0] == "":
		return bad("command", "is empty").Try("name the program to run and its arguments, for example [\"python3\", \"train.py\"], or write a script into run")
	case len(t.Command) > maxArgs:
		return bad("command", "has %d arguments", len(t.Command)).Try(fmt.Sprintf("use at most %d", maxArgs))
	case len(t.MovedFrom) > maxMoved || strings.ContainsFunc(t.MovedFrom, unprintable):
		return bad("moved_from", "%.40q has %d bytes or holds control characters", t.MovedFrom, len(t.MovedFrom)).Try(fmt.Sprintf("use CLUSTER/JOB, at most %d printable bytes", maxMoved))
	case t.Dir != "" && !filepath.IsAbs(t.Dir):
		return bad("dir", "%.80q is not absolute", t.Dir).Try("give the full path of the working folder")
	case len(t.Image) > maxImage || strings.HasPrefix(t.Image, "-") || strings.ContainsFunc(t.Image, notInImage):
		return bad("image", "%.80q is not the name of an image", t.Image).Try(fmt.Sprintf("use at most %d bytes without spaces, such as docker.io/library/python:3.12", maxImage))
	case t.GracePeriod < 0 || t.GracePeriod.D() > MaxGracePeriod:
		return bad("notice", "is %s", t.GracePeriod).Try("use 0s (the default) to " + sched.Duration(MaxGracePeriod).String())
	case t.Retries < 0 || t.Retries > MaxRetries:
		return bad("retries", "is %d", t.Retries).Try(fmt.Sprintf("use 0 to %d", MaxRetries))
	case t.Retry != "" && t.Retry != RetryAdaptive && t.Retry != RetryAlways && t.Retry != RetryNever:
		return bad("retry", "is %.20q", t.Retry).Try("use adaptive (the default), always or never")
	case len(t.Recipe) > maxRecipe || strings.ContainsFunc(t.Recipe, unprintable):
		return bad("recipe", "%.40q has %d bytes or holds control characters", t.Recipe, len(t.Recipe)).Try("join amp or bf16, adam, checkpoint and compile by +")
	case t.Predicted != nil && !t.Predicted.valid():
		return bad("predicted", "%+v holds no intervals", *t.Predicted).Try("leave it out: fairway submit fills it in from graph")
	case len(t.Graph) > maxGraph || strings.ContainsFunc(t.Graph, unprintable):
		return bad("graph", "%.40q has %d bytes or holds control characters", t.Graph, len(t.Graph)).Try("give the path of a file")
	}
	if err := t.validateDepends(); err != nil {
		return err
	}
	if err := t.validateNotify(); err != nil {
		return err
	}
	return t.validateText()
}

// validateText checks what ends up in the arguments and the environment of a
// process, where a zero byte ends a string.
func (t *Task) validateText() error {
	size := len(t.Dir)
	for i, a := range t.Command {
		if strings.ContainsRune(a, 0) {
			return Errorf(Invalid, "argument %d holds a zero byte", i).On("command")
		}
		size += len(a) + 1
	}
	if size > maxCommand {
		return Errorf(Invalid, "has %d bytes", size).On("command").Try(fmt.Sprintf("use at most %d; put long input into a file", maxCommand))
	}
	if strings.ContainsRune(t.Dir, 0) {
		return Errorf(Invalid, "holds a zero byte").On("dir")
	}
	size = 0
	for k, v := range t.Env {
		if !envName.MatchString(k) || reserved(k) || strings.ContainsRune(v, 0) {
			return Errorf(Invalid, "%.60q is not a variable a job may set", k).On("env").Try("use letters, digits and _ in names, no zero byte in values, and no name that begins with FAIRWAY_ (but " + ParamPrefix + " and " + HangVariable + ")")
		}
		size += len(k) + len(v) + 2
	}
	if size > maxEnv {
		return Errorf(Invalid, "has %d bytes", size).On("env").Try(fmt.Sprintf("use at most %d", maxEnv))
	}
	return nil
}

// reserved reports whether a variable is one that the daemon sets.
func reserved(name string) bool {
	return strings.HasPrefix(name, "FAIRWAY_") && !strings.HasPrefix(name, ParamPrefix) && name != HangVariable
}

// HangVariable is how many seconds a training must stand still at least to count as
// hung; 0: it never does. A job may set it.
const HangVariable = "FAIRWAY_HANG_SECONDS"

func unprintable(r rune) bool { return r < ' ' || r == 0x7f }

// notInImage reports what the name of an image cannot hold, and a command line should not.
func notInImage(r rune) bool { return r <= ' ' || r == 0x7f }

// Complete fills in the defaults of a new submission and says what is wrong with
// it, if anything.
func (s *Submission) Complete() error {
	if s.ID != "" {
		return Errorf(Invalid, "%.40q is set", s.ID).On("id").Try("leave it out: the id is chosen for you; set name, or key to submit only once")
	}
	if s.Member != nil {
		return Errorf(Invalid, "is set").On("member").Try("leave it out; array makes several jobs of one")
	}
	if err := s.ExpandRun(); err != nil {
		return err
	}
	if err := s.settleRoles(); err != nil {
		return err
	}
	s.nameByScript()
	s.sizeByPlans()
	if s.GPUs == 0 { // an elastic job need not guess
		s.GPUs = max(1, s.MinGPUs)
	}
	check := *s
	check.ID = "new"
	if err := check.Validate(); err != nil {
		return err
	}
	s.NonPreemptible = s.NonPreemptible || s.Preemptible != nil && !*s.Preemptible
	return nil
}

// Validate says what is wrong with the submission, if anything.
func (s *Submission) Validate() error {
	if err := s.Task.Validate(); err != nil {
		return err
	}
	if len(s.Key) > maxKey {
		return Errorf(Invalid, "has %d bytes", len(s.Key)).On("key").Try(fmt.Sprintf("use at most %d", maxKey))
	}
	if _, _, err := s.ScreenTime(); err != nil {
		return err
	}
	if err := s.validateSecrets(); err != nil {
		return err
	}
	if s.Array != "" {
		if _, _, err := Indexes(s.Array); err != nil {
			return err
		}
	}
	if err := s.validateLists(); err != nil {
		return err
	}
	if err := s.validatePlans(); err != nil {
		return err
	}
	if s.NonPreemptible && s.Preemptible != nil && *s.Preemptible {
		return Errorf(Invalid, "is true, and non_preemptible too").On("preemptible").Try("leave one of them out")
	}
	err := s.Spec.Validate()
	var field *sched.SpecError
	switch {
	case errors.As(err, &field):
		e := Errorf(Invalid, "is %v", field.Value).On(field.Field).Try("use " + field.Want)
		e.Err = err
		return e
	case err != nil:
		return &Error{Code: Invalid, Message: err.Error(), Err: err}
	}
	return nil
}

// validateLists bounds the parts of the spec that could be of any length.
func (s *Submission) validateLists() error {
	switch {
	case len(s.Model) > maxName:
		return Errorf(Invalid, "has %d bytes", len(s.Model)).On("model").Try(fmt.Sprintf("use at most %d", maxName))
	case len(s.Sizes) > maxList:
		return Errorf(Invalid, "has %d entries", len(s.Sizes)).On("sizes").Try(fmt.Sprintf("use at most %d", maxList))
	case len(s.GPUTypes) > maxList:
		return Errorf(Invalid, "has %d entries", len(s.GPUTypes)).On("gpu_types").Try(fmt.Sprintf("use at most %d", maxList))
	}
	for i, t := range s.GPUTypes {
		if len(t) > maxName {
			return Errorf(Invalid, "has %d bytes", len(t)).On(fmt.Sprintf("gpu_types[%d]", i)).Try(fmt.Sprintf("use at most %d", maxName))
		}
	}
	return nil
}
