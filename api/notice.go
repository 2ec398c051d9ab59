// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// The events that people can be notified of.
const (
	NoticeStarted   = "started"   // an attempt has its GPUs
	NoticePreempted = "preempted" // it lost them to others
	NoticeRetried   = "retried"   // an attempt failed, and another follows
	NoticeFinished  = "finished"
	NoticeFailed    = "failed"
	NoticeCancelled = "cancelled"
)

// NoticeEvents returns all events.
func NoticeEvents() []string {
	return []string{NoticeStarted, NoticePreempted, NoticeRetried, NoticeFinished, NoticeFailed, NoticeCancelled}
}

// DefaultNotices are the events that people are notified of who name none: the ends.
func DefaultNotices() []string { return []string{NoticeFinished, NoticeFailed, NoticeCancelled} }

// Notice is something that happened to a job, for people.
type Notice struct {
	Seq    uint64         `json:"seq"` // of the record
	At     time.Time      `json:"at"`
	Event  string         `json:"event"`
	Job    sched.JobID    `json:"job"`
	Name   string         `json:"name,omitempty"`
	User   string         `json:"user,omitempty"`
	Tenant sched.TenantID `json:"tenant,omitempty"`
	App    sched.AppID    `json:"app,omitempty"`
	Text   string         `json:"text,omitempty"` // why, or how
	// Notify is whom the job names: see Task.
	Notify []string `json:"notify,omitempty"`
}

// Delivery is how a target has taken its notices since the daemon started.
type Delivery struct {
	Target string `json:"target"`
	Failed uint64 `json:"failed"`          // tries that failed
	Lost   uint64 `json:"lost,omitempty"`  // notices that were given up
	Error  string `json:"error,omitempty"` // of the last try; empty: it went well
}

// maxNotify bounds the targets that a job names.
const maxNotify = 10

// ParseNotify reads "TARGET" or "TARGET:EVENT,EVENT...".
func ParseNotify(text string) (target string, events []string, err error) {
	target, list, some := strings.Cut(text, ":")
	events = DefaultNotices()
	if some {
		events = strings.Split(list, ",")
	}
	for _, e := range events {
		if !slices.Contains(NoticeEvents(), e) {
			return "", nil, Errorf(Invalid, "is %.60q, and %.20q is not an event", text, e).On("notify").Try("use TARGET, or TARGET:EVENT,EVENT with " + strings.Join(NoticeEvents(), ", "))
		}
	}
	if target == "" || len(target) > maxName || strings.ContainsFunc(target, unprintable) {
		return "", nil, Errorf(Invalid, "is %.60q", text).On("notify").Try("name a target of the daemon's configuration, or TARGET:EVENT,EVENT")
	}
	return target, events, nil
}

// validateNotify checks whom a job names, but not whether the daemon knows them.
func (t *Task) validateNotify() error {
	if n := len(t.Notify); n > maxNotify {
		return Errorf(Invalid, "has %d entries", n).On("notify").Try(fmt.Sprintf("use at most %d", maxNotify))
	}
	for _, text := range t.Notify {
		if _, _, err := ParseNotify(text); err != nil {
			return err
		}
	}
	return nil
}
