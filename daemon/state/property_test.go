// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/store"
)

// player does random things to a state store and plays its executor: attempts that run
// are in up, and one begins only when its GPUs and its job are clear.
type player struct {
	*desk
	*rand.Rand
	up   map[api.AttemptID]api.Attempt
	acks map[sched.JobID]bool // jobs that were acknowledged
	most int                  // attempts up at once
	disk *store.Store         // the journal; nil: the desk's tape
	dir  string               // of the disk
}

func TestRandomLives(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := &player{Rand: rand.New(rand.NewPCG(seed, 1)), up: map[api.AttemptID]api.Attempt{}, acks: map[sched.JobID]bool{}}
			if seed == 0 { // one of them on a real disk
				p.dir = t.TempDir()
				p.openDisk(t)
			}
			p.use(open(t, p.config))
			specs := []string{"fifo", "las", "tiresias", "srtf", "drf", "fifo:greedy"}
			if _, err := p.SetPolicy(t.Context(), admin, specs[seed%uint64(len(specs))], false); err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				p.step()
				p.check()
				if i%25 == 24 {
					p.restart(i%50 == 49)
				}
			}
			p.drain()
			if p.most < 2 {
				t.Errorf("at most %d attempts were up at once: the test is too tame", p.most)
			}
		})
	}
}

func (p *player) config(c *Config) {
	c.Node.GPUs = 6
	if p.disk != nil {
		c.Journal = p.disk
	}
}

// use goes on with a store in which nobody forecasts starts: they have tests of their own,
// and took nine tenths of the time here.
func (p *player) use(d *desk) {
	p.desk = d
	d.foresight.busy.Lock()
}

func (p *player) openDisk(t *testing.T) {
	t.Helper()
	s, _, err := store.Open(store.Config{Dir: p.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	p.disk = s
}

func (p *player) step() {
	p.clock.add(time.Duration(p.IntN(20)) * time.Second)
	ids := slices.Sorted(maps.Keys(p.acks))
	anyJob := func() sched.JobID {
		if len(ids) == 0 {
			return "none"
		}
		return ids[p.IntN(len(ids))]
	}
	switch p.IntN(12) {
	case 0, 1, 2:
		p.submitSome()
	case 3:
		c := []api.Command{api.Cancel, api.Pause, api.Resume, api.Resume}[p.IntN(4)]
		_, _ = p.Command(p.t.Context(), admin, anyJob(), c)
	case 4:
		p.tell()
	case 5:
		p.endOne()
	case 6:
		if p.disk != nil {
			return
		}
		p.tape.setFail(errDisk)
		before := p.dump()
		wantCode(p.t, "Submit", func() error {
			_, err := p.Submit(p.t.Context(), ann, []api.Submission{submission("no", 1)})
			return err
		}(), api.Unavailable)
		p.tape.setFail(nil)
		if diff := difference(before, p.dump()); diff != "" {
			p.t.Fatalf("a refused change changed (-before +after):\n%s", diff)
		}
	case 7:
		if err := p.Compact(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
	case 8:
		state := []sched.NodeState{sched.Ready, sched.Ready, sched.Cordoned}[p.IntN(3)]
		if _, err := p.SetNode(p.t.Context(), admin, "box", state); err != nil {
			p.t.Fatal(err)
		}
	default:
		policy, _ := p.InForce()
		p.decide(policy)
	}
	p.follow()
}

func (p *player) submitSome() {
	var list []api.Submission
	for range 1 + p.IntN(3) {
		s := submission("j", 1+p.IntN(3))
		s.Retries = p.IntN(2)
		if p.IntN(3) == 0 {
			s.GPUs, s.MinGPUs, s.MaxGPUs = 2, 1, 4
		}
		if p.IntN(3) == 0 {
			s.App = "app"
		}
		s.Estimate = sched.Duration(time.Duration(1+p.IntN(50)) * time.Minute)
		list = append(list, s)
	}
	jobs, err := p.Submit(p.t.Context(), []api.Identity{ann, bob, admin}[p.IntN(3)], list)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, j := range jobs {
		p.acks[j.ID] = true
	}
}

func (p *player) attempts() []api.AttemptID {
	return slices.SortedFunc(maps.Keys(p.up), func(a, b api.AttemptID) int { return cmpIDs(a, b) })
}

func cmpIDs(a, b api.AttemptID) int {
	if a.Job != b.Job {
		if a.Job < b.Job {
			return -1
		}
		return 1
	}
	return a.Number - b.Number
}

// tell lets the agent of an attempt report.
func (p *player) tell() {
	ids := p.attempts()
	if len(ids) == 0 {
		return
	}
	id := ids[p.IntN(len(ids))]
	r := api.AgentReport{Done: float64(p.IntN(1000)), Rate: float64(p.IntN(3)), Work: 2000, Checkpoint: p.IntN(2) == 0, Complete: p.IntN(9) == 0}
	if p.IntN(2) == 0 {
		r.Training, r.Point = training(sampleOf(p.IntN(4))), &api.Point{Batch: 8}
	}
	p.report(id.Job, id.Number, r)
}

// endOne ends an attempt in some way.
func (p *player) endOne() {
	ids := p.attempts()
	if len(ids) == 0 {
		return
	}
	e := api.Exit{AttemptID: ids[p.IntN(len(ids))]}
	switch p.IntN(4) {
	case 0:
		e.Code = 1
	case 1:
		e.Lost = true
	case 2:
		e.Code, e.Yielded, e.Noticed = api.YieldCode, true, true
	}
	delete(p.up, e.AttemptID)
	p.exited(e)
}

// follow does what an executor does, but not always at once.
func (p *player) follow() {
	ordered := map[api.AttemptID]api.Attempt{}
	for _, a := range p.Attempts() {
		ordered[a.AttemptID] = a
	}
	for _, id := range p.attempts() {
		if _, ok := ordered[id]; ok || p.IntN(3) == 0 {
			continue
		}
		delete(p.up, id)
		e := api.Exit{AttemptID: id, Noticed: true, Signal: "SIGKILL"}
		if p.IntN(2) == 0 {
			e.Signal, e.Code, e.Yielded = "", api.YieldCode, true
		}
		p.exited(e)
	}
	// An attempt that was taken back before it began ends too.
	p.mu.RLock()
	var open []api.AttemptID
	for id, x := range p.mem.jobs {
		for _, n := range x.Open {
			open = append(open, api.AttemptID{Job: id, Number: n})
		}
	}
	p.mu.RUnlock()
	slices.SortFunc(open, cmpIDs)
	for _, id := range open {
		_, wanted := ordered[id]
		if _, up := p.up[id]; !up && !wanted {
			p.exited(api.Exit{AttemptID: id, Noticed: true})
		}
	}
	for _, a := range p.Attempts() {
		if _, up := p.up[a.AttemptID]; up || p.IntN(4) == 0 || !p.isClear(a) {
			continue
		}
		p.up[a.AttemptID] = a
		p.Started(a.AttemptID)
	}
	p.most = max(p.most, len(p.up))
}

func (p *player) isClear(a api.Attempt) bool {
	for id, other := range p.up {
		if id.Job == a.Job || overlap(other.Placement, a.Placement) {
			return false
		}
	}
	return true
}

// check looks at what must hold at every moment.
func (p *player) check() {
	p.t.Helper()
	var used sched.GPUSet
	for _, a := range p.Attempts() {
		for _, s := range a.Placement {
			if s.GPUs&used != 0 {
				p.t.Fatalf("GPUs %s of attempt %s are ordered twice", s.GPUs&used, a.AttemptID)
			}
			used |= s.GPUs
		}
	}
	o, _ := p.Overview(admin)
	if got := o.Running + o.Waiting + o.Paused + o.Finished + o.Failed + o.Cancelled; got != len(p.acks) {
		p.t.Fatalf("%d jobs are accounted for; %d were acknowledged", got, len(p.acks))
	}
	find := p.Store.job
	if len(p.acks)%10 == 0 { // a forecast each time would take most of the test
		find = p.Store.Job
	}
	for id := range p.acks {
		if _, err := find(admin, id); err != nil {
			p.t.Fatalf("acknowledged job %s: %v", id, err)
		}
	}
}

// restart compares with what a crash would leave, and goes on from there.
func (p *player) restart(compact bool) {
	p.t.Helper()
	want := p.dump()
	if compact {
		if err := p.Compact(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
	}
	p.Close()
	if p.disk != nil {
		if err := p.disk.Close(); err != nil {
			p.t.Fatal(err)
		}
		p.openDisk(p.t.(*testing.T))
	}
	p.use(reopen(p.t, p.tape, p.clock, p.config))
	if diff := difference(want, p.dump()); diff != "" {
		p.t.Fatalf("after a restart (-before +after):\n%s", diff)
	}
}

// drain lets every job come to its end.
func (p *player) drain() {
	p.t.Helper()
	if _, err := p.SetNode(p.t.Context(), admin, "box", sched.Ready); err != nil {
		p.t.Fatal(err)
	}
	for id := range p.acks {
		_, _ = p.Command(p.t.Context(), admin, id, api.Resume)
	}
	for range 4000 {
		o, _ := p.Overview(admin)
		if o.Running+o.Waiting+o.Paused == 0 && len(p.up) == 0 {
			p.check()
			return
		}
		p.clock.add(10 * time.Minute)
		policy, _ := p.InForce()
		p.decide(policy)
		p.follow()
		if ids := p.attempts(); len(ids) > 0 {
			delete(p.up, ids[0])
			p.exited(api.Exit{AttemptID: ids[0]})
		}
		p.check()
	}
	o, _ := p.Overview(admin)
	p.t.Fatalf("jobs are left: %+v", o)
}
