// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "strings"

// ShellCommand returns the command that runs a script: bash stops at the first command
// that fails, also in a pipe. Unset variables are empty, because the scripts that
// activate environments rely on that.
func ShellCommand(script string) []string {
	return []string{"bash", "-c", "set -eo pipefail\n" + script}
}

// ExpandRun turns Run into the command that it stands for.
func (s *Submission) ExpandRun() error {
	if s.Run == "" {
		return nil
	}
	switch {
	case len(s.Command) > 0:
		return Errorf(Invalid, "is set, and command too").On("run").Try("leave one of them out")
	case strings.TrimSpace(s.Run) == "":
		return Errorf(Invalid, "is blank").On("run").Try("write the lines that the job is to run")
	}
	s.Command, s.Run = ShellCommand(s.Run), ""
	return nil
}
