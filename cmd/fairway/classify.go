// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/diagnose"
)

// classifyFlags are the flags of "fairway classify".
type classifyFlags struct {
	exit               string
	signal, signatures string
	events             []string
	asJSON             bool
	list, markdown     bool
}

func newClassify() *cobra.Command {
	var f classifyFlags
	c := &cobra.Command{
		Use:   "classify [FILE...]",
		Short: "Explain why a job failed, from its logs, exit code and signal",
		Long: `Explain why a job failed: the root cause in its logs, its category (user, engine or
infrastructure), the log line that shows it, and whether to retry. Pass the logs of
several ranks (rank3.log, worker-3.out, ...) or of the host (dmesg) to find the rank
that failed first. Without files it reads standard input. It reads the last 64 KiB
of each log.

--signatures adds your own reasons and signatures, in YAML or JSON; they take
precedence over the built-in ones. See docs/failures.md.`,
		Example: `  fairway classify < train.log
  fairway classify --exit 137 rank*.log
  fairway classify --signatures site.yaml --json train.log
  fairway classify --list`,
		RunE: func(c *cobra.Command, files []string) error { return f.run(c, files) },
	}
	c.Flags().StringVar(&f.exit, "exit", "", "exit code of the job (default: unknown)")
	c.Flags().StringVar(&f.signal, "signal", "", "signal that killed the job, such as SIGKILL or 9")
	c.Flags().StringSliceVar(&f.events, "event", nil, "event reported by the host or the scheduler, such as oom-kill, node-lost, preempted")
	c.Flags().StringVar(&f.signatures, "signatures", "", "file with your own signatures")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&f.list, "list", false, "list all failure reasons")
	c.Flags().BoolVar(&f.markdown, "markdown", false, "with --list: print the table of docs/failures.md")
	return c
}

func (f *classifyFlags) run(c *cobra.Command, files []string) error {
	table, err := f.table()
	if err != nil {
		return err
	}
	if f.list {
		return f.printReasons(c.OutOrStdout(), table)
	}
	in, err := f.input(table)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		l, err := readLog("", c.InOrStdin())
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		in.Logs = append(in.Logs, l)
	}
	for _, name := range files {
		l, err := openLog(name)
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		in.Logs = append(in.Logs, l)
	}
	finding := table.Classify(in)
	advice := diagnose.Decide(nil, diagnose.Attempt{Finding: finding})
	if f.asJSON {
		return json.NewEncoder(c.OutOrStdout()).Encode(struct {
			diagnose.Finding
			Advice diagnose.Advice `json:"advice"`
		}{finding, advice})
	}
	printFinding(c.OutOrStdout(), finding, advice)
	return nil
}

// table returns the built-in signatures with the user's before them.
func (f *classifyFlags) table() (*diagnose.Table, error) { return readTable(f.signatures) }

// readTable returns the built-in signatures with those of a file, if one is
// named, before them.
func readTable(path string) (*diagnose.Table, error) {
	table, err := daemon.Signatures(path)
	if err != nil {
		return nil, usageError{err}
	}
	return table, nil
}

// input is what the flags say about the end of the job.
func (f *classifyFlags) input(table *diagnose.Table) (diagnose.Input, error) {
	in := diagnose.Input{Signal: f.signal}
	if f.exit != "" {
		code, err := strconv.Atoi(f.exit)
		if err != nil || code < -255 || code > 255 {
			return in, usagef("--exit %q: want an exit code, 0 to 255, or minus the number of a signal", f.exit)
		}
		in.Exit = &code
	}
	kinds := table.EventKinds()
	for _, e := range f.events {
		kind, text, _ := strings.Cut(e, "=")
		known := false
		for _, k := range kinds {
			known = known || k == kind
		}
		if !known {
			return in, usagef("--event %q: want one of %s", e, strings.Join(kinds, ", "))
		}
		in.Events = append(in.Events, diagnose.Event{Kind: kind, Text: text})
	}
	return in, nil
}

func openLog(name string) (diagnose.Log, error) {
	file, err := os.Open(name)
	if err != nil {
		return diagnose.Log{}, err
	}
	defer file.Close()
	l, err := readLog(name, file)
	l.Rank = rankOf(name)
	return l, err
}

// readLog keeps the end of a log and counts the lines before it.
func readLog(name string, r io.Reader) (diagnose.Log, error) {
	const keep = 2 * diagnose.TailBytes
	l := diagnose.Log{Name: name, Rank: -1, Line: 1}
	var text []byte
	block := make([]byte, diagnose.TailBytes)
	for {
		n, err := r.Read(block)
		text = append(text, block[:n]...)
		if cut := len(text) - diagnose.TailBytes; cut > 0 && len(text) >= keep {
			l.Line += bytes.Count(text[:cut], []byte("\n"))
			text = append(text[:0], text[cut:]...)
		}
		if err == io.EOF {
			l.Text = string(text)
			return l, nil
		}
		if err != nil {
			return l, err
		}
	}
}

// rankInName finds the rank in the name of a log: rank3.log, rank_3,
// worker-3.out, train.3.log.
var rankInName = regexp.MustCompile(`(?i)(?:rank|worker|task|proc)[-_.]?([0-9]{1,6})|[.]([0-9]{1,6})[.](?:log|out|err|txt)$`)

func rankOf(path string) int {
	m := rankInName.FindStringSubmatch(filepath.Base(path))
	if m == nil {
		return -1
	}
	rank, err := strconv.Atoi(m[1] + m[2])
	if err != nil {
		return -1
	}
	return rank
}

func printFinding(w io.Writer, f diagnose.Finding, a diagnose.Advice) {
	g := grid{wrap: true}
	g.add("reason", fmt.Sprintf("%s: %s", f.Reason, clean(f.Text)))
	g.add("category", string(f.Category))
	if f.Philly != "" {
		g.add("known as", fmt.Sprintf("%q in the Philly study", f.Philly))
	}
	g.add("confidence", fmt.Sprintf("%.0f %%", 100*f.Confidence))
	if e := f.Evidence; e != nil {
		if e.Rank >= 0 {
			g.add("rank", strconv.Itoa(e.Rank))
		}
		g.add("evidence", clean(e.String()))
	}
	retry := "no"
	if a.Retry {
		retry = "yes, after " + a.After.String()
	}
	g.add("retry", retry)
	if a.MoreMemory > 0 {
		g.add("memory", fmt.Sprintf("request %g times as much", a.MoreMemory))
	}
	if a.SmallerBatch > 0 {
		g.add("batch", fmt.Sprintf("%g of the current batch per GPU", a.SmallerBatch))
	}
	g.add("advice", clean(f.Retry.Say))
	for i, s := range f.Also {
		title := ""
		if i == 0 {
			title = "also seen"
		}
		g.add(title, fmt.Sprintf("%s (%s)", s.Reason, clean(s.Evidence.String())))
	}
	g.print(w, "", widthOf(w))
}

// printReasons prints the table.
func (f *classifyFlags) printReasons(w io.Writer, t *diagnose.Table) error {
	switch {
	case f.asJSON:
		return json.NewEncoder(w).Encode(t.Reasons())
	case f.markdown:
		_, err := io.WriteString(w, diagnose.Page(t.Reasons()))
		return err
	}
	g := grid{}
	g.add("REASON", "CATEGORY", "PHILLY", "RETRIES", "TEXT")
	for _, r := range t.Reasons() {
		g.add(r.ID, string(r.Category), orDash(r.Philly), r.Retry.String(), clean(r.Text))
	}
	g.print(w, "", widthOf(w))
	return nil
}
