// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/strictyaml"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/policy"
)

// Log is the configuration of a program's own log.
type Log struct {
	Level  string `json:"level"`  // debug, info, warn, error
	Format string `json:"format"` // text or json
}

// Validate says which field is wrong, if any.
func (c Log) Validate() error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Level) {
		return fmt.Errorf("log.level = %s; want debug, info, warn or error", c.Level)
	}
	if c.Format != "text" && c.Format != "json" {
		return fmt.Errorf("log.format = %s; want text or json", c.Format)
	}
	return nil
}

// New makes the log.
func (c Log) New(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // validated
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// PolicyEntries describes the built-in policies for the API.
func PolicyEntries() []api.PolicyEntry {
	var out []api.PolicyEntry
	table := policy.Builtin()
	for _, name := range table.Names() {
		e := table[name]
		p := api.PolicyEntry{Name: name, Summary: e.Summary, Paper: e.Paper, Agents: e.Agents, Losses: e.Losses, Oracle: e.Oracle}
		for _, v := range e.Variants {
			p.Variants = append(p.Variants, api.PolicyVariant{Name: v.Name, Summary: v.Summary})
		}
		for _, k := range e.Knobs {
			p.Knobs = append(p.Knobs, api.PolicyKnob(k))
		}
		out = append(out, p)
	}
	return out
}

// Signatures returns the built-in signatures of failures with those of a file, if
// one is named, before them.
func Signatures(path string) (*diagnose.Table, error) {
	table, err := diagnose.Builtin()
	if err != nil || path == "" {
		return table, err
	}
	var mine diagnose.File
	err = strictyaml.ReadFile(path, &mine, func() (err error) {
		table, err = table.With(mine)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read signatures: %w", err)
	}
	return table, nil
}

// Redact takes out what nobody needs to replay a journal and somebody may have
// meant to keep.
func Redact(records []api.Record) {
	for i := range records {
		r := &records[i]
		if r.Task != nil {
			t := *r.Task
			redactTask(&t)
			r.Task = &t
		}
		if r.Search != nil && r.Search.Spec != nil {
			s, spec := *r.Search, *r.Search.Spec
			redactTask(&spec.Trial.Task)
			s.Spec, s.Owner = &spec, nil
			r.Search = &s
		}
		if r.Token != nil {
			t := *r.Token
			t.Hash = nil
			r.Token = &t
		}
		if r.Bidder != nil {
			b := *r.Bidder
			b.URL, b.Sealed = "", nil
			r.Bidder = &b
		}
		r.Owner, r.Key = nil, ""
	}
}

func redactTask(t *api.Task) {
	t.Command, t.Dir, t.Env, t.Secrets, t.SecretsRef = nil, "", nil, nil, ""
	t.Roles = slices.Clone(t.Roles) // the store has them too
	for i := range t.Roles {
		t.Roles[i].Command, t.Roles[i].Env = nil, nil
	}
}

// ExportedSnapshot is the first line of an export whose oldest records are gone: the
// state that the record after UpTo changes.
type ExportedSnapshot struct {
	Snapshot json.RawMessage `json:"snapshot"`
	UpTo     uint64          `json:"up_to"`
}

// WriteRecords writes records as JSON Lines.
func WriteRecords(w io.Writer, records []api.Record) error {
	buf := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	for i := range records {
		if err := enc.Encode(&records[i]); err != nil {
			return fmt.Errorf("write journal: record %d: %w", records[i].Seq, err)
		}
	}
	return buf.Flush()
}
