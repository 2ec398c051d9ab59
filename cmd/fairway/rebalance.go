// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func newRebalance() *cobra.Command {
	var f choiceFlags
	var r remote
	var every sched.Duration
	c := &cobra.Command{
		Use:   "rebalance",
		Short: "Move your waiting jobs to clusters that start them earlier",
		Long: `Move those of your jobs that wait, and have never started, to the cluster that is
expected to start them at least a minute and a quarter of their wait earlier.

A job is copied, paused, to the other cluster; then its own cluster ends it, unless it
has started; then the copy is resumed. Each step is recorded by the cluster that does
it, so however this command is interrupted, no job is lost and none runs twice: the
next rebalance completes or undoes what was left. Jobs that have secrets, belong to an
app, a search or an array, or depend on others stay, and so do those on Kubernetes
whose objects say more than a job file can, such as volumes. It prints why.

With --every it goes on until it is interrupted. A cluster that does not answer is left
out; its jobs stay its own.`,
		Example: `  fairway rebalance --cluster any
  fairway rebalance --cluster any --every 1m`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < 0 {
				return usagef("--every %s: want 0s (once) or more", every)
			}
			if len(f.names) == 0 {
				f.names = []string{anyCluster}
			}
			told := map[string]string{}
			for {
				err := rebalance(c, &f, &r, told)
				if every == 0 {
					return err
				}
				if err != nil {
					fmt.Fprintln(c.ErrOrStderr(), clean(err.Error()))
				}
				select {
				case <-c.Context().Done():
					return nil
				case <-time.After(every.D()):
				}
			}
		},
	}
	f.register(c.Flags())
	c.Flags().TextVar(&every, "every", sched.Duration(0), "repeat after this time, until interrupted")
	r.register(c)
	return c
}

// rebalance looks once at all waiting jobs of the user. told is why jobs stay, as it was
// printed before.
func rebalance(c *cobra.Command, f *choiceFlags, r *remote, told map[string]string) error {
	members, err := f.open(r)
	if err != nil {
		return err
	}
	defer closeAll(members)
	m := mover{ctx: c.Context(), members: members, out: c.OutOrStdout(), choice: f, told: told}
	for _, from := range members {
		m.look(from)
	}
	for _, p := range m.paused {
		m.note(m.complete(p))
	}
	for _, w := range m.waiting {
		m.note(m.consider(w))
	}
	return errors.Join(m.faults...)
}

// mover moves jobs. It keeps nothing that a later one would need.
type mover struct {
	ctx     context.Context
	members []*member
	choice  *choiceFlags
	out     io.Writer
	// paused are the copies of moves that were not completed, waiting the jobs that may move.
	paused, waiting []located
	told            map[string]string
	faults          []error
}

type located struct {
	at  *member
	job api.Job
}

// name is how the job is called on other clusters.
func (l located) name() string { return l.at.name + "/" + string(l.job.ID) }

func (m *mover) note(err error) {
	if err != nil {
		m.faults = append(m.faults, err)
	}
}

// look finds the user's jobs on a cluster.
func (m *mover) look(at *member) {
	if at.err != nil {
		m.note(fmt.Errorf("%s: %w", at.name, at.err))
		return
	}
	who, err := at.daemon.Whoami(m.ctx)
	at.tenant = who.Tenant
	if err == nil {
		for j, fault := range at.daemon.List(m.ctx, api.JobFilter{User: who.User, States: []string{api.Waiting, api.Paused}, Limit: api.MaxPage}) {
			switch {
			case fault != nil:
				err = fault
			case j.State == api.Paused && j.MovedFrom != "":
				m.paused = append(m.paused, located{at, j})
			case j.State == api.Waiting && j.Status.Starts == 0:
				m.waiting = append(m.waiting, located{at, j})
			}
		}
	}
	if err != nil {
		at.err = err // it is no target either
		m.note(fmt.Errorf("%s: %w", at.name, err))
	}
}

// bound says what ties a job to its cluster; empty: nothing that is seen from here.
func bound(j api.Job) string {
	own := sched.AppID(strings.TrimPrefix(string(j.App), string(j.Tenant)+"/"))
	switch {
	case j.Member != nil:
		return "it is an array"
	case len(j.DependsOn) > 0:
		return "it depends on other jobs of its cluster"
	case len(j.Secrets) > 0:
		return "it has secrets, whose values no cluster gives out"
	case own != "" && own != sched.AppID(j.ID):
		return "it belongs to app " + string(own)
	}
	return ""
}

// stays prints why a job does not move, unless it was said before.
func (m *mover) stays(l located, why string) {
	name := l.name()
	if l.job.Member != nil {
		name = l.at.name + "/" + l.job.Member.Array
	}
	if m.told[name] != why {
		m.told[name] = why
		fmt.Fprintf(m.out, "%s stays: %s\n", clean(name), clean(why))
	}
}

// consider moves a job if that pays.
func (m *mover) consider(l located) error {
	from, j := l.at, l.job
	if why := bound(j); why != "" {
		m.stays(l, why)
		return nil
	}
	e, err := from.daemon.Explain(m.ctx, j.ID)
	if err != nil {
		return fmt.Errorf("%s: explain %s: %w", from.name, j.ID, err)
	}
	if e.Job.State != api.Waiting {
		return nil // it has started meanwhile
	}
	s, err := from.daemon.Submission(m.ctx, j.ID)
	if api.CodeOf(err) == api.Conflict {
		m.stays(l, err.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", from.name, err)
	}
	s.MovedFrom = l.name()
	// The user may have other names there: who has the token there is meant.
	s.User = ""
	if s.Tenant == from.tenant {
		s.Tenant = ""
	}
	// The time makes it the key of this job, if the cluster should be set up anew and
	// count from one again.
	s.Key = fmt.Sprintf("moved-from-%s-%s-%d", from.name, j.ID, j.Submitted.UnixNano())
	others := slices.DeleteFunc(slices.Clone(m.members), func(o *member) bool { return o == from || o.daemon == nil || o.err != nil })
	if len(others) == 0 {
		return nil
	}
	asked := make([]*member, len(others)) // what they say is of this job only
	for i, o := range others {
		copied := *o
		asked[i] = &copied
	}
	askAll(m.ctx, asked, s)
	stay := from.offer()
	stay.Wait, stay.Known, stay.Never = waitOf(false, e.Job.Reason, e.Now)
	stay.Never = false
	to, pays := m.choice.rule.Move(stay, offersOf(asked))
	if !pays {
		return nil
	}
	fmt.Fprintf(m.out, "%s: %s starts %s; on %s %s\n", from.name, clean(string(j.ID)), expectedStart(*e.Job.Reason, e.Now.Local()), asked[to].name, asked[to].said())
	taken, _, err := submitOnce(m.ctx, others[to].daemon, s)
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", l.name(), others[to].name, err)
	}
	return m.complete(located{others[to], taken})
}

// complete hands a job over to its copy and resumes that; if the job has started, or was
// given to another copy, it cancels the copy.
func (m *mover) complete(l located) error {
	at, copied, name := l.at, l.job, l.name()
	if copied.State != api.Paused {
		// Somebody has resumed or cancelled it. A job must not be handed over to a copy
		// that has ended.
		return nil
	}
	cluster, id, _ := strings.Cut(copied.MovedFrom, "/")
	i := slices.IndexFunc(m.members, func(o *member) bool { return o.name == cluster })
	if i < 0 || m.members[i].daemon == nil || m.members[i].err != nil {
		return fmt.Errorf("%s stays paused: %s, from where it moves, does not answer or is not among the clusters", name, cluster)
	}
	_, err := m.members[i].daemon.HandOver(m.ctx, sched.JobID(id), api.Handover{To: name})
	switch {
	case err == nil:
		if _, err := at.daemon.Command(m.ctx, copied.ID, api.Resume); err != nil {
			return fmt.Errorf("resume %s: %w", name, err)
		}
		fmt.Fprintf(m.out, "%s is now %s\n", clean(copied.MovedFrom), clean(name))
		return nil
	case api.CodeOf(err) == api.Conflict:
		_, again := at.daemon.Command(m.ctx, copied.ID, api.Cancel)
		fmt.Fprintf(m.out, "%s stays: %s\n", clean(copied.MovedFrom), clean(err.Error()))
		return again
	}
	return fmt.Errorf("%s stays paused: hand over %s: %w", name, copied.MovedFrom, err)
}
