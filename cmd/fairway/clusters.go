// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/federate"
)

// anyCluster stands for all contexts of the file.
const anyCluster = "any"

const (
	answerTime = 10 * time.Second // that a cluster has to answer
	sendTime   = 30 * time.Second // that a submission is tried again after a lost answer
)

// choiceFlags say which clusters a job may go to, and how one is chosen.
type choiceFlags struct {
	names []string
	rule  federate.Rule
}

func (f *choiceFlags) register(fl *pflag.FlagSet) {
	f.rule = federate.Default
	fl.StringSliceVar(&f.names, "cluster", nil, "choose among these contexts: `any` (all but local), or names; see docs/clusters.md")
	fl.TextVar((*sched.Duration)(&f.rule.Patience), "patience", sched.Duration(0), "with --cluster: how much later than the earliest a cheaper cluster may start the job")
}

// member is a cluster that was asked.
type member struct {
	name   string
	price  float64
	daemon *client.Client // nil: there is no way to it
	tenant sched.TenantID // of the user
	err    error          // why it is no choice
	answer api.Preview
}

// open returns a connection to each cluster. Those to which there is none have an error.
func (f *choiceFlags) open(r *remote) ([]*member, error) {
	for name, given := range map[string]string{"--context": r.context, "--address": r.address, "--token": r.token, "--token-file": r.tokenFile, "$" + envToken: os.Getenv(envToken)} {
		if given != "" {
			return nil, usagef("--cluster and %s were both given; want one: each context has its own address and token", name)
		}
	}
	all, err := readContexts(contextsFile())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range f.names {
		switch _, there := all.Contexts[name]; {
		case name == anyCluster:
			names = append(names, all.names()...)
		case there || name == thisMachine:
			names = append(names, name)
		default:
			return nil, usagef("--cluster: unknown context %.80q; want %s, or some of %s", name, anyCluster, strings.Join(append(all.names(), thisMachine), ", "))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return nil, usagef("--cluster %s: there are no contexts; add some with \"fairway context add\"", strings.Join(f.names, ","))
	}
	out := make([]*member, len(names))
	sideBySide(len(names), func(i int) {
		m := &member{name: names[i], price: all.Contexts[names[i]].Price}
		m.daemon, m.err = (&remote{context: names[i], ca: r.ca}).dial()
		out[i] = m
	})
	return out, nil
}

func closeAll(members []*member) {
	for _, m := range members {
		if m.daemon != nil {
			m.daemon.Close()
		}
	}
}

// sideBySide calls f for 0 to n-1, all at once.
func sideBySide(n int, f func(i int)) {
	var g sync.WaitGroup
	for i := range n {
		g.Go(func() { f(i) })
	}
	g.Wait()
}

// askAll fills in what each cluster says about a job.
func askAll(ctx context.Context, members []*member, s api.Submission) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	sideBySide(len(members), func(i int) {
		if m := members[i]; m.daemon != nil {
			m.answer, m.err = m.daemon.Preview(ctx, s)
			if errors.Is(m.err, context.DeadlineExceeded) {
				m.err = api.Errorf(api.Unavailable, "no answer within %s", answerTime)
			}
		}
	})
}

// offer is what a cluster's answer means for the choice.
func (m *member) offer() federate.Offer {
	o := federate.Offer{Price: m.price, Never: m.err != nil, Ousts: len(m.answer.Size.Victims)}
	if m.err == nil {
		o.Wait, o.Known, o.Never = waitOf(m.answer.Size.Starts, m.answer.Size.Reason, m.answer.Now)
	}
	return o
}

// waitOf reads how long a job waits from the reason why it does.
func waitOf(starts bool, r *api.Reason, now time.Time) (wait time.Duration, known, never bool) {
	switch {
	case starts:
		return 0, true, false
	case r == nil || r.Code == sched.Impossible.String():
		return 0, false, true
	case r.Until.IsZero():
		return 0, false, false
	}
	return max(0, r.Until.Sub(now)), true, false
}

func offersOf(members []*member) []federate.Offer {
	out := make([]federate.Offer, len(members))
	for i, m := range members {
		out[i] = m.offer()
	}
	return out
}

// said says for people what a cluster answered.
func (m *member) said() string {
	if m.err != nil {
		return "no: " + clean(m.err.Error())
	}
	return startText(m.answer.Size, m.answer.Now.Local())
}

func printMembers(w io.Writer, members []*member) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CLUSTER\tPRICE\tSTARTS")
	for _, m := range members {
		fmt.Fprintf(t, "%s\t%s\t%s\n", clean(m.name), priceText(m.price), m.said())
	}
	t.Flush()
}

func priceText(price float64) string {
	if price == 0 {
		return "-"
	}
	return fmt.Sprintf("%g", price)
}

// sendToBest submits a job to the cluster that is chosen, exactly once.
func (f *submitFlags) sendToBest(c *cobra.Command, jobs []api.Submission) error {
	if len(jobs) != 1 {
		return usagef("submit: --cluster chooses for one job; there are %d: submit them one by one, or name one cluster with --context", len(jobs))
	}
	job := jobs[0]
	if len(job.DependsOn) > 0 {
		return usagef("submit: --cluster cannot be used with a job that depends on others, which only their cluster knows: name it with --context")
	}
	if err := foresee(c, jobs, nil); err != nil {
		return err
	}
	job = jobs[0]
	members, err := f.cluster.open(&f.remote)
	if err != nil {
		return err
	}
	defer closeAll(members)
	askAll(c.Context(), members, job)
	printMembers(c.ErrOrStderr(), members)
	if job.Key != "" {
		if members, err = withKey(members, job.Key); err != nil {
			return err
		}
	} else {
		job.Key = newKey()
	}
	for {
		best, ok := f.cluster.rule.Choose(offersOf(members))
		if !ok {
			return api.Errorf(api.Conflict, "no cluster can run the job")
		}
		m := members[best]
		if f.dryRun {
			fmt.Fprintf(c.ErrOrStderr(), "it would go to %s\n", clean(m.name))
			return nil
		}
		taken, lost, err := submitOnce(c.Context(), m.daemon, job)
		switch {
		case err == nil:
			fmt.Fprintf(c.ErrOrStderr(), "submitted to %s; see \"fairway --context %s explain %s\"\n", clean(m.name), clean(m.name), clean(string(taken.ID)))
			return afterSubmit(c, submitted{daemon: m.daemon, jobs: []api.Job{taken}, wait: f.wait, asJSON: f.asJSON})
		case lost:
			return fmt.Errorf("submit job: %s may have taken it, for its answer was lost (%w); to find out, repeat the command with --cluster %s --key %s, which makes no second job", clean(m.name), err, clean(m.name), clean(job.Key))
		}
		fmt.Fprintf(c.ErrOrStderr(), "%s did not take it: %s\n", clean(m.name), clean(err.Error()))
		m.err = err // it is no choice any more
	}
}

func newKey() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return "fairway-" + hex.EncodeToString(b[:])
}

// withKey returns the clusters that a job with a key of the user's may go to: the one that
// has it, if one has. All must have answered, for the one that does not may have it.
func withKey(members []*member, key string) ([]*member, error) {
	for _, m := range members {
		switch {
		case m.err == nil && m.answer.Known != "":
			return []*member{m}, nil
		case m.err != nil && !refused(m.err):
			return nil, fmt.Errorf("submit job: %s does not answer, and may have a job with the key %.60q: %w", clean(m.name), key, m.err)
		}
	}
	return members, nil
}

// refused reports whether an error is a daemon's decision, after which nothing was done.
func refused(err error) bool {
	switch api.CodeOf(err) {
	case api.Invalid, api.Denied, api.Unknown, api.Conflict, api.TooLarge, api.TooMany:
		return true
	}
	return false
}

// notSent reports whether a request never reached a daemon.
func notSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.As(err, &op) && op.Op == "dial"
}

// submitOnce submits a job with a key. After an answer that was lost it tries again, with
// the same key and there: lost is true if it never learned what became of it.
func submitOnce(ctx context.Context, daemon *client.Client, job api.Submission) (taken api.Job, lost bool, err error) {
	deadline := time.Now().Add(sendTime)
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		taken, again := api.Job{}, error(nil)
		taken, again = daemon.Submit(ctx, job)
		if again == nil || refused(again) && !lost {
			return taken, false, again
		}
		if !lost && notSent(again) {
			return taken, false, again
		}
		lost, err = true, cmp.Or(err, again)
		if refused(again) { // for instance because its token has expired since
			return taken, true, again
		}
		if time.Now().After(deadline) {
			return taken, true, err
		}
		select {
		case <-ctx.Done():
			return taken, true, err
		case <-time.After(pause):
		}
	}
}
