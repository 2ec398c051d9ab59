// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/fairway-gpu/fairway/lab/report"
	"github.com/fairway-gpu/fairway/sim"
)

// output is the folder of --out.
type output struct{ dir string }

func newOutput(dir string) (*output, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make output folder: %w", err)
	}
	return &output{dir}, nil
}

func (o *output) path(name string) string { return filepath.Join(o.dir, name) }

// write writes everything that is known at the end.
func (o *output) write(runs []finishedRun) error {
	results := make([]*sim.Result, len(runs))
	for i, r := range runs {
		results[i] = r.result
	}
	steps := []struct {
		name  string
		write func(io.Writer) error
	}{
		{"result.json", func(w io.Writer) error {
			return json.NewEncoder(w).Encode(struct {
				Version int           `json:"version"`
				Runs    []*sim.Result `json:"runs"`
			}{sim.ResultVersion, results})
		}},
		{"jobs.csv", func(w io.Writer) error { return report.WriteCSV(w, results...) }},
		{"report.html", func(w io.Writer) error { return report.Write(w, results) }},
	}
	for _, s := range steps {
		if err := writeFile(o.path(s.name), s.write); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	buf := bufio.NewWriter(f)
	if err := write(buf); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := buf.Flush(); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}

// decisionLog is a file with one JSON object a line for each decision.
type decisionLog struct {
	f   *os.File
	buf *bufio.Writer
	enc *json.Encoder
	err error
}

func (o *output) decisionLog(policy string) (*decisionLog, error) {
	safe := strings.Map(func(r rune) rune {
		if r == ':' || r == '=' || r == '/' || r == os.PathSeparator {
			return '_'
		}
		return r
	}, policy)
	f, err := os.Create(o.path("decisions-" + safe + ".jsonl"))
	if err != nil {
		return nil, err
	}
	buf := bufio.NewWriterSize(f, 1<<16)
	return &decisionLog{f: f, buf: buf, enc: json.NewEncoder(buf)}, nil
}

func (l *decisionLog) write(e sim.LogEntry) {
	if l.err == nil {
		l.err = l.enc.Encode(e)
	}
}

func (l *decisionLog) close() error {
	if err := l.buf.Flush(); l.err == nil {
		l.err = err
	}
	if err := l.f.Close(); l.err == nil {
		l.err = err
	}
	return l.err
}
