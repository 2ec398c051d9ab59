// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strconv"
	"strings"
)

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
