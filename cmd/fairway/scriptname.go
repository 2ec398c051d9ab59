// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"slices"
	"strings"
)

// scriptEnds are the ends of the names of scripts.
var scriptEnds = []string{".py", ".sh", ".bash", ".pl", ".R", ".jl", ".lua", ".ipynb"}

// scriptName returns the name of a job that its user gave none: that of the first script
// in its command, of the Python module, or of a program of the user's own, which is called
// by a path. Empty: it runs no script.
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
