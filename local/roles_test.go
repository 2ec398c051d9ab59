// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// tellRole writes what a process knows of its place into a file, and waits for a file "end".
const tellRole = `echo "$FAIRWAY_ROLES $RANK/$WORLD_SIZE local $LOCAL_RANK of $FAIRWAY_SLOTS colour $COLOUR pid $$ $MASTER_PORT $FAIRWAY_MEET" > new-$$
mv new-$$ $FAIRWAY_ROLE-$RANK
while [ ! -e end ]; do sleep 0.02; done`

func rolesAttempt(gpus sched.GPUSet, trainer, rollout string) api.Attempt {
	a := attempt("gang", 1, gpus, trainer)
	a.Task.Env = map[string]string{"COLOUR": "red"}
	a.Task.Roles = []api.JobRole{
		{Name: "trainer", GPUs: 1},
		{Name: "rollout", GPUs: 1, MaxGPUs: 3, Command: []string{"sh", "-c", rollout}, Env: map[string]string{"COLOUR": "blue"}},
	}
	a.Spec.GPUs, a.Spec.MinGPUs, a.Spec.MaxGPUs = 2, 2, 4
	return a
}

func newRoles(t *testing.T, gpus sched.GPUSet, trainer, rollout string) *gangRig {
	return newGangOf(t, func(a *api.Attempt) { *a = rolesAttempt(gpus, trainer, rollout) }, gpus)
}

// told waits for what a process has written, and returns it up to its process, that, and
// its two ports.
func (g *gangRig) told(name string) (text string, pid int, port, meet string) {
	g.t.Helper()
	eventually(g.t, name, func() bool { text = read(g.t, filepath.Join(g.work, name)); return text != "" })
	text, rest, _ := strings.Cut(text, " pid ")
	fields := strings.Fields(rest)
	if len(fields) != 3 {
		g.t.Fatalf("%s says %q and %q", name, text, rest)
	}
	pid, _ = strconv.Atoi(fields[0])
	return text, pid, fields[1], fields[2]
}

// TestRoles: each role has a command, variables and a world of its own; processes of the
// elastic one come and go while the others stay; the attempt ends with the first role.
func TestRoles(t *testing.T) {
	t.Parallel()
	g := newRoles(t, 0b1110, tellRole, tellRole)
	want := map[string]string{
		"trainer-0": "trainer=1,rollout=2 0/1 local 0 of 1 colour red",
		"rollout-0": "trainer=1,rollout=2 0/2 local 0 of 2,3 colour blue",
		"rollout-1": "trainer=1,rollout=2 1/2 local 1 of 2,3 colour blue",
	}
	ports, meets := map[string]string{}, map[string]bool{}
	for name, want := range want {
		text, _, port, meet := g.told(name)
		if text != want {
			t.Errorf("%s is told %q; want %q", name, text, want)
		}
		role, _, _ := strings.Cut(name, "-")
		if ports[role] != "" && ports[role] != port {
			t.Errorf("the processes of %s have the ports %s and %s", role, ports[role], port)
		}
		ports[role], meets[meet] = port, true
	}
	if ports["trainer"] == ports["rollout"] || len(meets) != 1 {
		t.Errorf("ports %v, places to meet %v; want a port for each role, and one place for all", ports, meets)
	}
	_, trainer, _, _ := g.told("trainer-0")
	_, first, _, _ := g.told("rollout-0")
	_, second, _, _ := g.told("rollout-1")
	g.reopen()
	g.order(0b0110) // the second rollout goes
	g.arrived()
	if exists(fmt.Sprintf("/proc/%d", second)) {
		t.Errorf("the second rollout, process %d, is still there", second)
	}
	for _, name := range []string{"rollout-1", "rollout-2"} {
		_ = os.Remove(filepath.Join(g.work, name))
	}
	g.order(0b1111)
	g.arrived()
	if text, _, port, _ := g.told("rollout-1"); text != "trainer=1,rollout=3 1/3 local 0 of 0,2,3 colour blue" || port != ports["rollout"] {
		t.Errorf("a new process is told %q, port %s", text, port)
	}
	if text, _, _, _ := g.told("rollout-2"); text != "trainer=1,rollout=3 2/3 local 2 of 0,2,3 colour blue" {
		t.Errorf("a new process is told %q", text)
	}
	for pid, name := range map[int]string{trainer: "trainer", first: "first rollout"} {
		if alive(t, fmt.Sprintf("FAIRWAY_NONCE=%s", g.m.runs[g.a.AttemptID].order.Nonce)) == 0 || !exists(fmt.Sprintf("/proc/%d", pid)) {
			t.Errorf("the %s, process %d, is gone", name, pid)
		}
	}
	g.end()
}

// TestRolesEnd: the end of the first role is the end of the attempt; of the others only a
// failure while it trains counts.
func TestRolesEnd(t *testing.T) {
	t.Parallel()
	const busy = "while :; do sleep 0.02; done"
	for name, c := range map[string]struct {
		trainer, rollout string
		stop             bool
		want             func(api.Exit) bool
	}{
		"the trainer is done":         {trainer: "exit 0", rollout: busy, want: api.Exit.OK},
		"a rollout ends first":        {trainer: "sleep 0.3", rollout: "exit 0", want: api.Exit.OK},
		"rollouts fail when it ends":  {trainer: "exit 0", rollout: "trap 'exit 3' TERM; " + busy, want: api.Exit.OK},
		"rollouts yield when it ends": {trainer: "exit 0", rollout: "trap 'exit 75' TERM; " + busy, want: api.Exit.OK},
		"a rollout fails":             {trainer: "trap 'exit 75' TERM; " + busy, rollout: "[ $RANK = 1 ] && exit 3; " + busy, want: func(e api.Exit) bool { return e.Code == 3 && e.Rank == 2 && !e.Yielded }},
		"the trainer fails":           {trainer: "exit 4", rollout: busy, want: func(e api.Exit) bool { return e.Code == 4 && e.Rank == 0 }},
		"it saves when asked":         {trainer: "trap 'exit 75' TERM; touch up; " + busy, rollout: "trap 'exit 3' TERM; " + busy, stop: true, want: func(e api.Exit) bool { return e.Yielded && e.Noticed }},
		"it cannot save when asked":   {trainer: "trap 'exit 5' TERM; touch up; " + busy, rollout: "trap 'exit 75' TERM; " + busy, stop: true, want: func(e api.Exit) bool { return e.Code == 5 && !e.Yielded }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			a := rolesAttempt(0b0111, c.trainer, c.rollout)
			r.orders.set(a)
			if c.stop {
				eventually(t, "the trainer", func() bool { return exists(filepath.Join(r.m.cfg.Dir, "jobs", "gang", workDir, "up")) })
				r.orders.set()
			}
			if e := r.exit(a.AttemptID); !c.want(e) {
				t.Errorf("exit %s", show(e))
			}
		})
	}
}

// TestRolesKeepTheirGPUs: a change that would take the GPU of a role of one size ends the
// attempt, to start anew.
func TestRolesKeepTheirGPUs(t *testing.T) {
	t.Parallel()
	g := newRoles(t, 0b0111, "trap 'exit 75' TERM; touch up; while :; do sleep 0.02; done", tellRole)
	eventually(t, "the trainer", func() bool { return exists(filepath.Join(g.work, "up")) })
	g.order(0b1110)
	if e := g.exit(g.a.AttemptID); !e.Yielded {
		t.Errorf("exit %s", show(e))
	}
	if text := read(t, g.m.attemptDir(g.a.AttemptID), resizedFile); !strings.Contains(text, "a process of the role trainer would lose its GPU") {
		t.Errorf("the supervisor answered %s", text)
	}
}
