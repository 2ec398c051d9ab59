// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write the pages of docs/reference")

const reference = "../../docs/reference"

// TestReference: docs/reference has a page for each command, as its help says. After a
// change: go test ./cmd/fairway -run TestReference -update
func TestReference(t *testing.T) {
	pages := map[string]string{}
	for _, c := range newRoot().Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
			var b strings.Builder
			describeCommand(&b, c, 1)
			// The default is another for root and for those who have set variables.
			pages[c.Name()+".md"] = strings.ReplaceAll(b.String(), defaultDataDir(), "~/.local/state/fairway")
		}
	}
	if *update {
		if err := os.RemoveAll(reference); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(reference, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range pages {
			if err := os.WriteFile(filepath.Join(reference, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	const remedy = "run: go test ./cmd/fairway -run TestReference -update"
	for name, want := range pages {
		if got, err := os.ReadFile(filepath.Join(reference, name)); err != nil || string(got) != want {
			t.Errorf("docs/reference/%s is not what the command's help says (%v); %s", name, err, remedy)
		}
	}
	found, err := os.ReadDir(reference)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if pages[f.Name()] == "" {
			t.Errorf("docs/reference/%s is of no command; %s", f.Name(), remedy)
		}
	}
}

// describeCommand writes a command and those below it. Text with columns is indented, so
// that Markdown shows it as it is.
func describeCommand(b *strings.Builder, c *cobra.Command, level int) {
	fmt.Fprintf(b, "%s %s\n\n", strings.Repeat("#", level), c.CommandPath())
	if level == 1 {
		b.WriteString("<!-- Written by TestReference of cmd/fairway, from the command's help. -->\n\n")
	}
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	if strings.Contains(text, "\n ") { // columns
		block(b, text)
	} else {
		fmt.Fprintf(b, "%s\n\n", strings.ReplaceAll(text, "<", "&lt;"))
	}
	if c.Runnable() {
		b.WriteString("Usage:\n\n")
		block(b, c.UseLine())
	}
	if c.Example != "" {
		b.WriteString("Examples:\n\n")
		block(b, unindent(c.Example))
	}
	flags(b, "Flags", c.NonInheritedFlags())
	if level == 1 {
		flags(b, "Flags of all its commands", c.InheritedFlags())
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			describeCommand(b, sub, level+1)
		}
	}
}

func flags(b *strings.Builder, title string, set *pflag.FlagSet) {
	if text := set.FlagUsages(); set.HasAvailableFlags() {
		fmt.Fprintf(b, "%s:\n\n", title)
		block(b, strings.TrimRight(text, "\n"))
	}
}

var lineStart = regexp.MustCompile(`(?m)^(.)`)

func block(b *strings.Builder, text string) {
	fmt.Fprintf(b, "%s\n\n", lineStart.ReplaceAllString(text, "    $1"))
}

func unindent(text string) string { return regexp.MustCompile(`(?m)^  `).ReplaceAllString(text, "") }
