// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/sched/suggest"
)

// templateFolders are where templates are, the user's own first.
func templateFolders() []string {
	return []string{filepath.Join(homeDir("XDG_CONFIG_HOME", ".config"), "templates"), "/etc/fairway/templates"}
}

// template is a job file that is used by its name.
type template struct {
	Name string `json:"name"`
	File string `json:"file"`
	Text string `json:"text,omitempty"` // the comment in its first line
}

// templates returns those of all folders. Of two with one name the user's own counts.
func templates() ([]template, error) {
	out := []template{} // in JSON a list, also when there is none
	for _, dir := range templateFolders() {
		files, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("read templates: %w", err)
		}
		for _, f := range files {
			name, ok := strings.CutSuffix(f.Name(), ".yaml")
			if !ok || name == "" || slices.ContainsFunc(out, func(t template) bool { return t.Name == name }) {
				continue
			}
			t := template{Name: name, File: filepath.Join(dir, f.Name())}
			t.Text = firstComment(t.File)
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b template) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// firstComment returns what a file says about itself in its first line.
func firstComment(path string) string {
	const longest = 200
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, longest)).ReadString('\n')
	text, ok := strings.CutPrefix(line, "#")
	if !ok {
		return ""
	}
	return strings.TrimSpace(text)
}

// templateFile returns the file of a template.
func templateFile(name string) (string, error) {
	all, err := templates()
	if err != nil {
		return "", err
	}
	var names []string
	for _, t := range all {
		if t.Name == name {
			return t.File, nil
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return "", usagef("--template: no template %.60q; there are none in %s", name, strings.Join(templateFolders(), " and "))
	}
	return "", usagef("--template: no template %s", suggest.Among(name, names))
}

func newTemplates() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "templates",
		Short: "List job templates",
		Long: `List job templates: job files that "fairway submit --template NAME" uses by name. They
are the files NAME.yaml in fairway/templates in your configuration folder and in
/etc/fairway/templates, which is for all users of the machine. Flags and the command after
"--" override a template as they do a job file. A comment in its first line describes it.`,
		Example: `  fairway templates
  fairway submit --template big --name resnet -- python3 train.py`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := templates()
			switch {
			case err != nil:
				return err
			case asJSON:
				return printAnswer(c.OutOrStdout(), all)
			case len(all) == 0:
				fmt.Fprintf(c.OutOrStdout(), "no templates; put job files into %s\n", strings.Join(templateFolders(), " or "))
				return nil
			}
			g := grid{}
			g.add("TEMPLATE", "FILE", "WHAT")
			for _, t := range all {
				g.add(clean(t.Name), clean(t.File), orDash(clean(t.Text)))
			}
			g.print(c.OutOrStdout(), "", widthOf(c.OutOrStdout()))
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
