// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/kube/journal"
	"github.com/fairway-gpu/fairway/sim/replay"
)

func newJournal() *cobra.Command {
	c := &cobra.Command{Use: "journal", Short: "Export the operator's journal"}
	c.AddCommand(newExport())
	return c
}

func newExport() *cobra.Command {
	w := where{namespace: os.Getenv("POD_NAMESPACE")}
	var out string
	var full bool
	c := &cobra.Command{
		Use:   "export --namespace NAMESPACE [--out FILE]",
		Short: "Write the journal as JSON Lines, for fairway sim and fairway journal verify",
		Long: `Write what the journal in the cluster holds as JSON Lines, one record a line, oldest
first: that which came after the last snapshot. "fairway sim --journal FILE" and
"fairway journal verify --journal FILE" read it.

It needs to read journalpages in the operator's namespace and changes nothing.
Commands, folders, environments and the hashes of tokens are left out unless you
ask for them with --full.`,
		Example: `  fairway-operator journal export --namespace fairway-system --out journal.jsonl
  fairway sim --journal journal.jsonl --policy fifo,las,pollux`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.complete(); err != nil {
				return err
			}
			records, err := w.records(c)
			if err != nil {
				return err
			}
			if !full {
				daemon.Redact(records)
			}
			return export(c, out, records)
		},
	}
	w.register(c)
	c.Flags().StringVarP(&out, "out", "o", "-", "`file` to write (\"-\": standard output)")
	c.Flags().BoolVar(&full, "full", false, "with commands, folders, environments and the hashes of tokens")
	return c
}

// records reads the journal.
func (w where) records(c *cobra.Command) ([]api.Record, error) {
	rc, err := w.config()
	if err != nil {
		return nil, err
	}
	k, err := w.client(rc)
	if err != nil {
		return nil, err
	}
	j, err := journal.Open(c.Context(), journal.Config{Pages: journal.Objects{Client: k, Namespace: w.namespace}, Leader: "export"})
	if err != nil {
		return nil, err
	}
	var out []api.Record
	err = j.ReadHot(0, func(seq uint64, payload []byte) error {
		r, err := replay.Decode(payload)
		if err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		r.Seq = seq
		out = append(out, r)
		return nil
	})
	return out, err
}

func export(c *cobra.Command, path string, records []api.Record) error {
	if path == "-" {
		return daemon.WriteRecords(c.OutOrStdout(), records)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := errors.Join(daemon.WriteRecords(f, records), f.Close()); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "wrote %d records to %s\n", len(records), path)
	return nil
}
