// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"path/filepath"
	"slices"
	"strings"
)

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

// scriptEnds are the ends of the names of scripts.
var scriptEnds = []string{".py", ".sh", ".bash", ".pl", ".R", ".jl", ".lua", ".ipynb"}

// nameByScript gives a job that its user gave no name that of its script.
func (s *Submission) nameByScript() {
	if name := scriptName(s.Command); s.Name == "" && len(name) <= maxName && !strings.ContainsFunc(name, unprintable) {
		s.Name = name
	}
}

// scriptName returns the name of the first script in a command, of its Python module, or of
// a program of the user's own, which is called by a path. Empty: it runs no script.
func scriptName(command []string) string {
	if len(command) == 3 && command[1] == "-c" && strings.HasSuffix(command[0], "sh") {
		command = strings.Fields(command[2])
	}
	for _, a := range command {
		if end := filepath.Ext(a); !strings.HasPrefix(a, "-") && !strings.ContainsAny(a, " \n") && slices.Contains(scriptEnds, end) {
			return strings.TrimSuffix(filepath.Base(a), end)
		}
	}
	for i, a := range command[:max(0, len(command)-1)] {
		if a == "-m" && strings.Contains(filepath.Base(command[0]), "python") {
			return command[i+1][strings.LastIndexByte(command[i+1], '.')+1:]
		}
	}
	if len(command) > 0 && strings.HasPrefix(command[0], ".") && strings.Contains(command[0], "/") {
		return filepath.Base(command[0])
	}
	return ""
}
