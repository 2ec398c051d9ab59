// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// JobRole is a part of a gang that has its own program and size, such as the trainer and the
// rollout workers of reinforcement learning. Schedulers see the gang only: its size is the
// sum of those of its roles, and what it has above its least goes to the one role that is
// elastic. The first role leads: its rank 0 reports for the job, which has finished when
// all processes of that role have.
type JobRole struct {
	Name    string            `json:"name"`
	GPUs    int               `json:"gpus"`               // a process for each
	MaxGPUs int               `json:"max_gpus,omitempty"` // above GPUs: it is elastic
	Command []string          `json:"command,omitempty"`  // empty: the job's
	Run     string            `json:"run,omitempty"`      // a script, instead; only in a submission
	Env     map[string]string `json:"env,omitempty"`      // over the job's
}

// MaxRoles is how many roles a gang may have.
const MaxRoles = 16

// maxRoleGPUs is far more than there are, and its sums are numbers still.
const maxRoleGPUs = 1 << 20

// Variables by which a process knows its role. RANK, WORLD_SIZE and MASTER_PORT are those of
// the processes of its role, which can be a world of torch.distributed of their own.
const (
	RoleVariable  = "FAIRWAY_ROLE"
	RolesVariable = "FAIRWAY_ROLES" // all of them and their sizes when the process started: trainer=1,rollout=3
	MeetVariable  = "FAIRWAY_MEET"  // host:port for rank 0 of the first role to listen on, and all others to find it
)

var roleName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,29}[a-z0-9])?$`)

// Elastic reports whether the role may have other sizes than its smallest.
func (r *JobRole) Elastic() bool { return r.MaxGPUs > r.GPUs }

// ElasticRole returns the index of the role that is elastic; -1: none is.
func (t *Task) ElasticRole() int {
	return slices.IndexFunc(t.Roles, func(r JobRole) bool { return r.Elastic() })
}

// RoleSizes returns how many of a gang's GPUs each of its roles has.
func (t *Task) RoleSizes(gpus int) []int {
	out := make([]int, len(t.Roles))
	for i, r := range t.Roles {
		out[i] = r.GPUs
		gpus -= r.GPUs
	}
	if i := t.ElasticRole(); i >= 0 {
		out[i] += max(0, gpus)
	}
	return out
}

// RolesShown says how the GPUs of a job are divided among its roles, or would be at its
// smallest size; empty: it has none.
func (j *Job) RolesShown() string {
	var out []string
	for i, n := range j.RoleSizes(max(j.GPUs, j.HeldGPUs())) {
		text := fmt.Sprintf("%s %d", j.Roles[i].Name, n)
		if r := j.Roles[i]; r.Elastic() {
			text += fmt.Sprintf(" (%d to %d)", r.GPUs, r.MaxGPUs)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// RolesText prints the roles of a gang with their sizes.
func (t *Task) RolesText(gpus int) string {
	var out []string
	for i, n := range t.RoleSizes(gpus) {
		out = append(out, fmt.Sprintf("%s=%d", t.Roles[i].Name, n))
	}
	return strings.Join(out, ",")
}

// Position is the place of one process of a gang.
type Position struct {
	Role int // 0 where there are no roles
	Rank int // in its role
	Seat int // which of the gang's places it has, in the order of its placement
}

// Positions returns where the processes of a gang with so many places are, the first role
// first. The elastic role has the last places: a gang that shrinks to its first ones keeps
// its fixed roles. It fails if the roles need more places, or cannot use all of them.
func (t *Task) Positions(places int) ([]Position, error) {
	sizes, elastic := []int{places}, -1
	if len(t.Roles) > 0 {
		sizes, elastic = t.RoleSizes(places), t.ElasticRole()
	}
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	if sum != places {
		return nil, fmt.Errorf("%d GPUs cannot be divided among its roles, which need %s", places, t.RolesText(places))
	}
	out, next := make([]Position, 0, places), 0
	for role, size := range sizes {
		first := next
		if role == elastic {
			first = places - size
		} else {
			next += size
		}
		for rank := range size {
			out = append(out, Position{role, rank, first + rank})
		}
	}
	return out, nil
}

// Play returns the task of the processes of one role.
func (t *Task) Play(role int) Task {
	out, r := *t, &t.Roles[role]
	if len(r.Command) > 0 {
		out.Command = r.Command
	}
	if len(r.Env) > 0 {
		out.Env = maps.Clone(t.Env)
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		maps.Copy(out.Env, r.Env)
	}
	return out
}

// settleRoles fills in what follows from the roles: the commands of their scripts, the job's
// own command, which stands for it where jobs are compared, and its size.
func (s *Submission) settleRoles() error {
	if len(s.Roles) == 0 {
		return nil
	}
	if err := s.checkRoles(); err != nil {
		return err
	}
	s.Roles = slices.Clone(s.Roles) // they may be the caller's
	least, most := 0, 0
	for i := range s.Roles {
		r := &s.Roles[i]
		if r.Run != "" {
			r.Command, r.Run = ShellCommand(r.Run), ""
		}
		if err := (&Task{Command: r.Command, Env: r.Env}).validateText(); err != nil {
			return within(fmt.Sprintf("roles[%d]", i), err)
		}
		least, most = least+r.GPUs, most+max(r.GPUs, r.MaxGPUs)
	}
	if len(s.Command) == 0 {
		s.Command = s.Roles[0].Command
	}
	want := s.Spec
	want.GPUs, want.MinGPUs, want.MaxGPUs = least, 0, 0
	if most > least {
		want.MinGPUs, want.MaxGPUs = least, most
	}
	if s.GPUs+s.MinGPUs+s.MaxGPUs > 0 && (s.GPUs != want.GPUs || s.MinGPUs != want.MinGPUs || s.MaxGPUs != want.MaxGPUs) {
		return Errorf(Invalid, "is set, and the job has roles").On("gpus").Try("leave it out: the size of the job is the sum of its roles'")
	}
	s.Spec = want
	return nil
}

// checkRoles says what is wrong with the roles as they were submitted, if anything.
func (s *Submission) checkRoles() error {
	if len(s.Roles) > MaxRoles {
		return Errorf(Invalid, "has %d entries", len(s.Roles)).On("roles").Try(fmt.Sprintf("use at most %d", MaxRoles))
	}
	elastic, names := -1, map[string]bool{}
	for i := range s.Roles {
		r := &s.Roles[i]
		bad := func(field, format string, args ...any) *Error {
			return Errorf(Invalid, format, args...).On(strings.TrimSuffix(fmt.Sprintf("roles[%d].%s", i, field), "."))
		}
		switch {
		case !roleName.MatchString(r.Name):
			return bad("name", "is %.40q", r.Name).Try("use up to 31 small letters, digits and dashes, the first a letter, such as trainer")
		case names[r.Name]:
			return bad("name", "%q is that of another role", r.Name).Try("give each role its own name")
		case r.GPUs == 0:
			return bad("gpus", "is 0 or missing").Try("give each role at least 1; what needs no GPU can be started by a process that has one")
		case r.GPUs < 0 || r.GPUs > maxRoleGPUs || r.MaxGPUs > maxRoleGPUs:
			return bad("gpus", "is %d, and max_gpus %d", r.GPUs, r.MaxGPUs).Try(fmt.Sprintf("use 1 to %d", maxRoleGPUs))
		case r.MaxGPUs != 0 && r.MaxGPUs < r.GPUs:
			return bad("max_gpus", "is %d, below gpus = %d", r.MaxGPUs, r.GPUs).Try("leave it out for a role of one size")
		case r.Elastic() && elastic >= 0:
			return bad("gpus", "is a range, and so is that of %s", s.Roles[elastic].Name).Try("let one role be elastic; the others have one size")
		case r.Run != "" && len(r.Command) > 0:
			return bad("run", "is set, and command too").Try("leave one of them out")
		case r.Run != "" && strings.TrimSpace(r.Run) == "":
			return bad("run", "is blank").Try("write the lines that the role is to run")
		case len(r.Command) > 0 && r.Command[0] == "" || len(r.Command)+len(r.Run)+len(s.Command) == 0:
			return bad("command", "is empty, and the job has none").Try("name the program to run and its arguments, for example [\"python3\", \"rollout.py\"]")
		}
		names[r.Name] = true
		if r.Elastic() {
			elastic = i
		}
		for name := range r.Env {
			if LooksSecret(name) {
				return bad("env", "%.60q looks secret", name).Try("declare it in secrets of the job: all roles get it")
			}
		}
	}
	return s.rolesAlone()
}

// rolesAlone refuses what a gang of roles has no use for.
func (s *Submission) rolesAlone() error {
	for _, c := range []struct {
		field string
		set   bool
		why   string
	}{
		{"sizes", len(s.Sizes) > 0, "the roles say which sizes the job has"},
		{"task_gpus", s.TaskGPUs > 1, "each process of a role has one GPU"},
		{"single", s.Single, "each process of a role has one GPU"},
		{"plans", s.Plans != nil, "plans are for one program on all GPUs"},
		{"batch.adapt", s.Batch.Adapt, "only some of its GPUs train"},
		{"milli_gpu", s.MilliGPU > 0 && s.MilliGPU < 1000, "roles have whole GPUs"},
		{"shareable", s.Shareable, "roles have whole GPUs"},
		{"screen", s.Screen != "" && s.Screen != ScreenOff, "it cannot run on fewer GPUs than its roles need"},
	} {
		if c.set {
			return Errorf(Invalid, "is set, and the job has roles").On(c.field).Try("leave it out: " + c.why)
		}
	}
	return nil
}
