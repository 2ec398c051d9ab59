// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched/guard"
	"github.com/fairway-gpu/fairway/sim/replay"
)

func newJournal() *cobra.Command {
	c := &cobra.Command{
		Use:   "journal",
		Short: "Export or restore the daemon's journal, or verify its decisions",
		Example: `  fairway journal export --full --out journal.jsonl
  fairway journal restore journal.jsonl
  fairway journal verify
  fairway sim --journal journal.jsonl --policy fifo,las,pollux`,
	}
	c.AddCommand(newJournalExport(), newJournalRestore(), newJournalVerify(), newJournalAcknowledge())
	return c
}

func newJournalAcknowledge() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:   "acknowledge",
		Short: "Acknowledge that the journal has lost records",
		Long: `Acknowledge that the journal has lost records. Until then "fairway status", the
dashboard, /readyz and the metric fairway_healthy report it. The daemon keeps working
meanwhile. Look first at which jobs are missing, and submit them again.` + exitHelp,
		Example: "  fairway journal acknowledge",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return query[api.DamageList]{&r,
				func(ctx context.Context, daemon *client.Client) (api.DamageList, error) {
					known, err := daemon.AcknowledgeDamage(ctx)
					return api.DamageList{Damages: known}, err
				},
				func(w io.Writer, l api.DamageList) {
					for _, d := range l.Damages {
						fmt.Fprintf(w, "acknowledged: %s: %s\n", d.At.Local().Format("2006-01-02 15:04"), clean(d.Text))
					}
					if len(l.Damages) == 0 {
						fmt.Fprintln(w, "nothing to acknowledge")
					}
				},
			}.run(c)
		},
	}
	r.registerJSON(c)
	return c
}

func newJournalExport() *cobra.Command {
	var data, out string
	var full bool
	c := &cobra.Command{
		Use:   "export [--data DIR] --out FILE",
		Short: "Write the journal as JSON Lines, one record per line",
		Long: `Write the journal as JSON Lines, one record per line, oldest first.

The daemon may keep running: the journal is read from a copy, also if its file was
removed while the daemon has it open. Commands, working folders, environments and
token hashes are omitted unless you pass --full; only a full export can be restored.`,
		Example: `  fairway journal export --out journal.jsonl
  fairway journal export --data /var/lib/fairway --full --out - | gzip > journal.jsonl.gz`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			past, err := readJournalFolder(c, data)
			if err != nil {
				return err
			}
			if !full {
				daemon.Redact(past.records)
				past.snapshot = nil
			}
			return past.export(c, out)
		},
	}
	c.Flags().StringVar(&data, "data", defaultDataDir(), "data `folder` of the daemon")
	c.Flags().StringVarP(&out, "out", "o", "-", "`file` to write (\"-\": standard output)")
	c.Flags().BoolVar(&full, "full", false, "include commands, folders, environments and token hashes")
	return c
}

func (past pastJournal) export(c *cobra.Command, path string) (err error) {
	w := c.OutOrStdout()
	if path != "-" {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("write journal: %w", err)
		}
		defer func() {
			if e := f.Close(); err == nil {
				err = e
			}
			if err == nil {
				fmt.Fprintf(c.ErrOrStderr(), "wrote %d records to %s\n", len(past.records), path)
			}
		}()
		w = f
	}
	if past.snapshot != nil {
		if err := json.NewEncoder(w).Encode(past.snapshot); err != nil {
			return fmt.Errorf("write journal: %w", err)
		}
	}
	return daemon.WriteRecords(w, past.records)
}

type verifyFlags struct {
	journal, first, config string
	noGuard, json          bool
}

func newJournalVerify() *cobra.Command {
	f := verifyFlags{}
	c := &cobra.Command{
		Use:   "verify [--journal DIR|FILE]",
		Short: "Repeat every decision in the journal and compare",
		Long: `Repeat every decision in the journal, with the same policy on the same snapshot, and
compare the actions with those that were carried out. Decisions that changed nothing
left no record and are not checked. The exit code is 1 if a decision differs.`,
		Example: `  fairway journal verify
  fairway journal verify --journal journal.jsonl --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	fl := c.Flags()
	fl.StringVar(&f.journal, "journal", defaultDataDir(), "data `folder` of the daemon, or a file written by \"fairway journal export\"")
	fl.StringVar(&f.first, "policy", defaultConfig().Policy, "initial policy of an old journal whose decisions do not name it")
	fl.StringVar(&f.config, "config", "", "configuration `file` of the daemon, for the bounds on preemption (default: the default bounds)")
	fl.BoolVar(&f.noGuard, "no-guard", false, "the daemon ran without bounds on preemption")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	return c
}

func (f *verifyFlags) run(c *cobra.Command) error {
	bounds := guard.Default()
	if f.config != "" {
		conf, err := readConfig(f.config)
		if err != nil {
			return err
		}
		bounds = conf.Guard
	}
	o := replay.VerifyOptions{Build: policy.Builtin().New, First: f.first}
	if !f.noGuard {
		g, err := guard.New(bounds)
		if err != nil {
			return err
		}
		o.Guard = g
	}
	records, err := readJournal(c, f.journal)
	if err != nil {
		return err
	}
	v, err := replay.Verify(records, o)
	if err != nil {
		return err
	}
	if f.json {
		err = json.NewEncoder(c.OutOrStdout()).Encode(v)
	} else {
		printVerdict(c.OutOrStdout(), v)
	}
	if err == nil && v.Different > 0 {
		return fmt.Errorf("%d of %d decisions differ", v.Different, v.Decisions)
	}
	return err
}

func printVerdict(w io.Writer, v *replay.Verdict) {
	fmt.Fprintf(w, "%d records, %d decisions with %d actions: %d the same, %d different\n", v.Records, v.Decisions, v.Actions, v.Same, v.Different)
	if v.Overtaken > 0 {
		fmt.Fprintf(w, "%d actions were rightly dropped: their jobs had changed during the decision\n", v.Overtaken)
	}
	if v.Guessed > 0 {
		fmt.Fprintf(w, "%d decisions do not record their snapshot: the state just before them was used\n", v.Guessed)
	}
	for _, d := range v.Differences {
		fmt.Fprintf(w, "\ndecision %d, record %d, %s, %s:\n", d.Decision, d.Seq, d.At.Format("2006-01-02 15:04:05.000"), d.Policy)
		for _, a := range d.Recorded {
			fmt.Fprintf(w, "  only in the journal: %s\n", a)
		}
		for _, a := range d.Again {
			fmt.Fprintf(w, "  only this time:      %s\n", a)
		}
	}
	if n := v.Different - len(v.Differences); n > 0 {
		fmt.Fprintf(w, "\nand %d more\n", n)
	}
}
