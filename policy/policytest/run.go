// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policytest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/fairway-gpu/fairway/sched"
)

// Build makes a policy from a spec, such as policy.Registry.New.
type Build func(spec string) (sched.Policy, error)

// Run runs a scenario. The file is a list of commands, each followed by "----" and
// what it prints; with the flag -rewrite the printed parts are rewritten. Time is
// given since the start, as "90s" or "1h". An argument that a command does not know
// fails the test.
//
// The commands:
//
//	cluster nodes=N gpus=N [racks=N] [type=T] [cpus=N] [memory=GiB]
//	        [gpu-memory=GiB] [islands=N] [levels=(LEVEL/NODES,...)]
//	    adds N nodes, named n0, n1, ... over the whole file, dealt to racks r0,
//	    r1, ... in blocks, and to domains of that many nodes at each level of a
//	    topology, the widest first; "rack" among them stands for the racks. The
//	    first command of a file.
//	outages every=D repair=D
//	    says how often a node goes out of use, and for how long, on average.
//	tenant id=T [parent=T] [weight=X] [quota=N] [max=N] [borrow]
//	    declares a tenant.
//	submit id=J [n=N] [gpus=N] [at=TIME] [length=D] [estimate=D] [work=X]
//	       [tenant=T] [user=U] [app=A] [model=M] [priority=N] [types=(T,...)] [task=N]
//	       [min=N] [max=N] [cpus=N] [memory=GiB] [gpu-memory=GiB] [widest=LEVEL]
//	       [required=(LEVEL[/GPUS],...)] [preferred=LEVEL]
//	       [util=X] [screen=D] [pinned] [consolidate] [shareable]
//	    submits a job, or with n=N the jobs J1, J2, ... A job with a length ends
//	    by itself during play, after having run that long.
//	decide policy=SPEC [at=TIME]
//	    moves the clock, asks the policy, carries out what it says, and prints
//	    the actions, the waiting jobs with their reasons, the ledger, and the
//	    wake-up. One
//	    policy value serves all commands of a file that name the same spec.
//	play policy=SPEC until=TIME
//	    decides now, and after everything that happens until that time; prints
//	    starts, stops and ends.
//	advance to=TIME | by=D
//	    moves the clock.
//	end id=J [phase=finished|killed|failed]
//	fail id=J [retry=D]
//	    the job fails and may be tried again after D.
//	report id=J [rate=X] [slowdown=X]
//	    the job reports its speed, in units of work each second, and how many
//	    times longer a step takes beside others than alone.
//	checkpoint id=J [done=X]
//	    the job has saved its work.
//	cordon node=N, uncordon node=N, down node=N
//	    change a node; the jobs on a node that goes down fail.
//	jobs
//	    prints the state of every job.
func Run(t *testing.T, file string, build Build) {
	s := scenario{build: build, policies: map[string]sched.Policy{}}
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		a := newArgs(t, d)
		out := s.command(a)
		a.finish()
		return out
	})
}

type scenario struct {
	*World
	build    Build
	policies map[string]sched.Policy // by spec
}

func (s *scenario) command(a *args) string {
	if a.d.Cmd != "cluster" && s.World == nil {
		a.fail("%s: there is no cluster yet", a.d.Cmd)
	}
	switch a.d.Cmd {
	case "cluster":
		return s.cluster(a)
	case "outages":
		every, _ := a.duration("every")
		repair, _ := a.duration("repair")
		s.State.Expect(sched.Outages{PerHour: 1 / every.Hours(), Repair: sched.Duration(repair)})
		return ""
	case "tenant":
		return s.tenant(a)
	case "submit":
		return s.submit(a)
	case "decide":
		return s.decide(a)
	case "play":
		return s.play(a)
	case "advance":
		return s.advance(a)
	case "end":
		return text(s.Apply(sched.Event{Kind: sched.JobEnded, Job: sched.JobID(a.need("id")), Phase: phase(a)}))
	case "fail":
		retry, _ := a.duration("retry")
		return text(s.Apply(sched.Event{Kind: sched.JobFailed, Job: sched.JobID(a.need("id")), Until: s.Now.Add(retry)}))
	case "report":
		return text(s.Apply(sched.Event{Kind: sched.JobReported, Job: sched.JobID(a.need("id")), Rate: a.number("rate", 0), Slowdown: a.number("slowdown", 0)}))
	case "checkpoint":
		return text(s.Apply(sched.Event{Kind: sched.JobCheckpoint, Job: sched.JobID(a.need("id")), Done: a.number("done", 0)}))
	case "cordon":
		return text(s.SetNode(s.node(a), sched.Cordoned))
	case "uncordon":
		return text(s.SetNode(s.node(a), sched.Ready))
	case "down":
		return text(s.Down(s.node(a)))
	case "jobs":
		return s.jobs()
	}
	a.fail("unknown command %q", a.d.Cmd)
	return ""
}

// text prints an error, which a scenario may expect.
func text(err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return ""
}

func phase(a *args) sched.Phase {
	var p sched.Phase
	if err := p.UnmarshalText([]byte(a.word("phase", "finished"))); err != nil {
		a.fail("%v", err)
	}
	return p
}

func (s *scenario) node(a *args) int {
	name := a.need("node")
	i, ok := s.State.Cluster().Node(name)
	if !ok {
		a.fail("%s: unknown node %q", a.d.Cmd, name)
	}
	return i
}

func (s *scenario) advance(a *args) string {
	if to, ok := a.duration("to"); ok {
		s.moveTo(a, to)
	} else if by, ok := a.duration("by"); ok {
		s.Now = s.Now.Add(by)
	} else {
		a.fail("advance: want to or by")
	}
	return ""
}

func (s *scenario) moveTo(a *args, to time.Duration) {
	a.t.Helper()
	if at := Start.Add(to); at.Before(s.Now) {
		a.fail("%s: %s is in the past; it is %s", a.d.Cmd, to, since(s.Now))
	} else {
		s.Now = at
	}
}

func (s *scenario) policy(a *args) sched.Policy {
	a.t.Helper()
	spec := a.need("policy")
	p, ok := s.policies[spec]
	if !ok {
		var err error
		if p, err = s.build(spec); err != nil {
			a.fail("%v", err)
		}
		s.policies[spec] = p
	}
	return p
}

func (s *scenario) decide(a *args) string {
	if at, ok := a.duration("at"); ok {
		s.moveTo(a, at)
	}
	jobs := s.State.Snapshot(s.Now).Jobs
	actions, plan, err := s.Decide(s.policy(a))
	if err != nil {
		return text(err)
	}
	var b strings.Builder
	for _, act := range actions {
		fmt.Fprintln(&b, act.Text(s.State.Cluster()))
	}
	for i, j := range jobs {
		if len(plan.Want[i]) == 0 {
			fmt.Fprintf(&b, "wait %s (%s): %s\n", j.ID, plan.Why[i].Code, plan.Why[i].Text(s.State.Cluster()))
		}
	}
	ledger(&b, plan)
	if !plan.Wake.IsZero() {
		fmt.Fprintf(&b, "wake %s\n", since(plan.Wake))
	}
	return b.String()
}

// ledger prints the trades that were considered.
func ledger(b *strings.Builder, plan sched.Plan) {
	for _, e := range plan.Ledger {
		verdict := "refused"
		if e.Taken {
			verdict = "taken"
		}
		fmt.Fprintf(b, "ledger %s: %s\n", verdict, e.Text)
	}
}

func (s *scenario) play(a *args) string {
	until, ok := a.duration("until")
	if !ok {
		a.fail("play: until is missing")
	}
	var b strings.Builder
	err := s.Play(s.policy(a), Start.Add(until), func(seen Seen) {
		if seen.Ended != "" {
			fmt.Fprintf(&b, "%s end %s\n", since(seen.At), seen.Ended)
		}
		for _, act := range seen.Actions {
			verb, where := "start", act.To
			switch {
			case act.Verb == sched.Stop:
				verb, where = "stop", act.From
			case act.Screening:
				verb = "screen"
			}
			fmt.Fprintf(&b, "%s %s %s %s\n", since(seen.At), verb, act.Job.ID, where.Text(s.State.Cluster()))
		}
		ledger(&b, seen.Plan)
	})
	return b.String() + text(err)
}

func (s *scenario) jobs() string {
	var b strings.Builder
	for _, j := range s.State.Snapshot(s.Now).Jobs {
		fmt.Fprintf(&b, "%s %s", j.ID, j.Phase)
		if j.Phase == sched.Running {
			fmt.Fprintf(&b, " on %s", j.Placement.Text(s.State.Cluster()))
		}
		fmt.Fprintf(&b, ", %g GPU-seconds", j.AttainedBy(s.Now))
		if j.Note != (sched.Note{}) {
			fmt.Fprintf(&b, ", note level=%d count=%d", j.Note.Level, j.Note.Count)
			if !j.Note.Since.IsZero() {
				fmt.Fprintf(&b, " since=%s", since(j.Note.Since))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// since prints a time as the time since the start.
func since(t time.Time) string { return sched.Duration(t.Sub(Start)).String() }
