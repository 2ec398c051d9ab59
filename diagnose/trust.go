// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strconv"
	"strings"
	"time"
)

// trustFor is how long a good run of a similar job is remembered. Code and data
// change: after that a job counts as new again.
const trustFor = 14 * 24 * time.Hour

// Outcome is how a past job ended that is like a new one: of the same user, name
// and command.
type Outcome struct {
	At   time.Time     `json:"at"` // of its end, or of the failure of an attempt
	Good bool          `json:"good"`
	Ran  time.Duration `json:"ran"` // how long that attempt ran
}

// ScreenFor returns how long a new job is to be screened, given what became of
// jobs like it, in any order: 0 if one of them has run well for the standard time
// or longer within the last 14 days, and none has failed early since; else the
// standard time. An attempt that failed after running for longer than the standard
// time tells nothing about screening: it would have got through.
func ScreenFor(past []Outcome, now time.Time, standard time.Duration) time.Duration {
	var good, bad time.Time // the latest
	for _, o := range past {
		switch {
		case o.At.After(now) || now.Sub(o.At) > trustFor:
		case o.Good && o.Ran >= standard:
			good = later(good, o.At)
		case !o.Good && o.Ran < standard:
			bad = later(bad, o.At)
		}
	}
	if !good.IsZero() && !bad.After(good) {
		return 0
	}
	return standard
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// signalNames are the signals of Linux that end processes, by number.
var signalNames = map[int]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
	10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}

// signalName returns "SIGKILL" for "SIGKILL", "kill" and "9". A signal it does
// not know comes back as it is, in capitals.
func signalName(s string) string {
	s = strings.ToUpper(strings.TrimSpace(s))
	if n, err := strconv.Atoi(s); err == nil {
		if name, ok := signalNames[n]; ok {
			return name
		}
		return s
	}
	if s != "" && !strings.HasPrefix(s, "SIG") {
		s = "SIG" + s
	}
	return s
}

// exitSignal returns the signal that an exit code stands for: 128 + n as shells
// say it, or -n as Python does.
func exitSignal(code int) string {
	if code < 0 {
		return signalNames[-code]
	}
	return signalNames[code-128]
}
