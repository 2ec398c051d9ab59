// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
)

var (
	// shellWords are commands of a shell: no program can do what they do.
	shellWords = []string{"cd", "source", ".", "export", "unset", "set", "eval", "exec", "alias", "ulimit", "if", "for", "while", "module", "{", "("}
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
)

// shellSyntax are the characters that only a shell understands.
const shellSyntax = "|&;<>()$`\\\"'*?[]#~=%{}!\n"

// commandLine returns the command that somebody meant. One argument with spaces that is
// no program is a line for a shell; a simple one is taken apart, because a program that
// is started directly gets signals, and may start warm.
func commandLine(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	first := args[0]
	if len(args) == 1 && strings.ContainsAny(strings.TrimSpace(first), " \t"+shellSyntax) {
		if _, err := os.Stat(first); err == nil {
			return args, nil
		}
		words := strings.Fields(first)
		if strings.ContainsAny(first, shellSyntax) || slices.Contains(shellWords, words[0]) {
			return api.ShellCommand(first), nil
		}
		return words, nil
	}
	line := strings.Join(args, " ")
	if !strings.ContainsAny(line, shellSyntax) {
		line += " && ..."
	}
	switch {
	case first == "cd":
		return nil, usagef("%q is a command of the shell, which Fairway does not start: use --dir FOLDER, or quote the whole line: -- %q", first, line)
	case slices.Contains(shellWords, first):
		return nil, usagef("%q is a command of the shell, which Fairway does not start: quote the whole line: -- %q", first, line)
	case assignment.MatchString(first):
		return nil, usagef("%.60q is not a program: set variables with -e %.60s", first, first)
	}
	return args, nil
}
