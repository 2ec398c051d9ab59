// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policytest

import (
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/fairway-gpu/fairway/sched"
)

// args are the arguments of one command. Reading an argument marks it as used;
// finish fails the test if some were not read.
type args struct {
	t    *testing.T
	d    *datadriven.TestData
	used map[string]bool
}

func newArgs(t *testing.T, d *datadriven.TestData) *args {
	return &args{t: t, d: d, used: map[string]bool{}}
}

func (a *args) fail(format string, v ...any) {
	a.t.Helper()
	a.d.Fatalf(a.t, format, v...)
}

func (a *args) finish() {
	a.t.Helper()
	for _, arg := range a.d.CmdArgs {
		if !a.used[arg.Key] {
			a.fail("%s: unknown argument %q", a.d.Cmd, arg.Key)
		}
	}
}

func (a *args) words(key string) []string {
	a.used[key] = true
	if arg, ok := a.d.Arg(key); ok {
		return arg.Vals
	}
	return nil
}

func (a *args) word(key, otherwise string) string {
	a.t.Helper()
	switch w := a.words(key); {
	case len(w) == 1:
		return w[0]
	case len(w) > 1 || a.d.HasArg(key):
		a.fail("%s: %s needs one value", a.d.Cmd, key)
	}
	return otherwise
}

func (a *args) need(key string) string {
	a.t.Helper()
	if !a.d.HasArg(key) {
		a.fail("%s: %s is missing", a.d.Cmd, key)
	}
	return a.word(key, "")
}

func (a *args) flag(key string) bool {
	a.t.Helper()
	if len(a.words(key)) > 0 {
		a.fail("%s: %s takes no value", a.d.Cmd, key)
	}
	return a.d.HasArg(key)
}

func (a *args) number(key string, otherwise float64) float64 {
	a.t.Helper()
	w := a.word(key, "")
	if w == "" {
		return otherwise
	}
	x, err := strconv.ParseFloat(w, 64)
	if err != nil {
		a.fail("%s: %s = %q; want a number", a.d.Cmd, key, w)
	}
	return x
}

func (a *args) count(key string, otherwise int) int {
	a.t.Helper()
	w := a.word(key, "")
	if w == "" {
		return otherwise
	}
	n, err := strconv.Atoi(w)
	if err != nil {
		a.fail("%s: %s = %q; want a whole number", a.d.Cmd, key, w)
	}
	return n
}

func (a *args) duration(key string) (time.Duration, bool) {
	a.t.Helper()
	w := a.word(key, "")
	if w == "" {
		return 0, false
	}
	d, err := sched.ParseDuration(w)
	if err != nil {
		a.fail("%s: %s: %v", a.d.Cmd, key, err)
	}
	return d, true
}
