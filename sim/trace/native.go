// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Native format, described in docs/workload-format.md: JSON Lines. The first
// line is a header, every other line is one sim.Work.

const (
	nativeKind = "workload"
	// Version is the version of the native format that Write writes.
	Version = 1
)

// header is the first line of a native file.
type header struct {
	Fairway string `json:"fairway"`
	Version int    `json:"version"`
	sim.Workload
}

// Write writes a workload in the native format. The same workload gives the
// same bytes.
func Write(w io.Writer, wl *sim.Workload) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(bw)
	enc.SetEscapeHTML(false)
	h := header{Fairway: nativeKind, Version: Version, Workload: *wl}
	h.Start = h.Start.UTC()
	if err := enc.Encode(h); err != nil {
		return fmt.Errorf("write workload %s: header: %w", wl.Name, err)
	}
	for i := range wl.Work {
		job := wl.Work[i]
		job.Submitted = job.Submitted.UTC()
		if err := enc.Encode(job); err != nil {
			return fmt.Errorf("write workload %s: job %s: %w", wl.Name, job.ID, err)
		}
	}
	if err := bw.Flush(); err != nil {
		return fmt.Errorf("write workload %s: %w", wl.Name, err)
	}
	return nil
}

func readNative(br *bufio.Reader, b *builder) error {
	lines := lineReader{r: br}
	first, err := lines.next()
	if err == io.EOF {
		return errors.New("the file is empty; want a header line")
	}
	if err != nil {
		return err
	}
	if err := b.readHeader(first, lines.line); err != nil {
		return err
	}
	seen := map[sched.JobID]int{}
	for {
		line, err := lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		b.report.Rows++
		var w sim.Work
		row := decodeStrict(line, &w)
		if row == nil {
			row = b.checkNative(&w, seen[w.ID])
		}
		if row != nil {
			row.Line = lines.line
			if err := b.bad(*row); err != nil {
				return err
			}
			continue
		}
		seen[w.ID] = lines.line
		w.Tenant, w.User, w.Model = sched.TenantID(b.name(string(w.Tenant))), b.name(w.User), b.name(w.Model)
		if err := b.keep(w); err != nil {
			return err
		}
	}
}

// readHeader reads the first line. It checks the version before the fields: a newer
// file must not be refused for a new field.
func (b *builder) readHeader(line string, at int) error {
	refuse := func(row *BadRow) error {
		row.Line = at
		return b.refuse(*row)
	}
	var kind struct {
		Fairway string `json:"fairway"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal([]byte(line), &kind); err != nil {
		return refuse(jsonRow(line, err))
	}
	if kind.Fairway != nativeKind {
		return refuse(&BadRow{Column: 1, Field: "fairway", Value: kind.Fairway, Text: fmt.Sprintf("want %q in the header line", nativeKind)})
	}
	if kind.Version < 1 || kind.Version > Version {
		text := fmt.Sprintf("this program reads versions 1 to %d", Version)
		if kind.Version > Version {
			text += "; the file was written by a newer one"
		}
		return refuse(&BadRow{Column: 1, Field: "version", Value: fmt.Sprint(kind.Version), Text: text})
	}
	var h header
	if row := decodeStrict(line, &h); row != nil {
		return refuse(row)
	}
	if y := h.Start.UTC().Year(); y < firstYear || y > lastYear {
		return refuse(&BadRow{Column: 1, Field: "start", Value: fmt.Sprint(h.Start), Text: fmt.Sprintf("want a time in the years %d to %d", firstYear, lastYear)})
	}
	for _, t := range h.Tenants {
		if err := b.judge.checkTenant(t); err != nil {
			return refuse(&BadRow{Column: 1, Field: "tenants", Value: string(t.ID), Text: err.Error()})
		}
	}
	if err := sched.CheckTenants(h.Tenants); err != nil {
		return refuse(&BadRow{Column: 1, Field: "tenants", Value: fmt.Sprint(len(h.Tenants)), Text: err.Error()})
	}
	name := b.wl.Name
	b.wl = h.Workload
	if b.wl.Name == "" {
		b.wl.Name = name
	}
	return nil
}

func (b *builder) checkNative(w *sim.Work, before int) *BadRow {
	if before > 0 {
		return &BadRow{Column: 1, Field: "id", Value: string(w.ID), Text: fmt.Sprintf("line %d has a job of that id; ids must differ", before)}
	}
	if err := b.judge.check(w); err != nil {
		return &BadRow{Column: 1, Field: "job", Value: string(w.ID), Text: err.Error()}
	}
	if w.Submitted.Before(b.wl.Start) {
		return &BadRow{Column: 1, Field: "submitted", Value: w.Submitted.UTC().String(), Text: fmt.Sprintf("want a time not before the start, %s", b.wl.Start)}
	}
	return nil
}

// decodeStrict reads one JSON object that fills the line and has no unknown field.
func decodeStrict(line string, into any) *BadRow {
	dec := json.NewDecoder(strings.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return jsonRow(line, err)
	}
	at := dec.InputOffset()
	if rest := bytes.TrimSpace([]byte(line[at:])); len(rest) > 0 {
		return &BadRow{Column: int(at) + 1, Value: string(rest), Text: "want one JSON object on a line and nothing behind it"}
	}
	return nil
}

// jsonRow returns the error of the JSON decoder as a bad row.
func jsonRow(line string, err error) *BadRow {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		// The file does not show which fields are embedded.
		field := strings.TrimPrefix(strings.TrimPrefix(kind.Field, "Spec."), "Workload.")
		return &BadRow{Column: int(kind.Offset), Field: field, Value: kind.Value, Text: "want " + kind.Type.String()}
	case errors.As(err, &syntax):
		return &BadRow{Column: int(syntax.Offset), Value: line, Text: "not JSON: " + syntax.Error()}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &BadRow{Column: len(line) + 1, Value: line, Text: "not JSON: the object is not closed"}
	}
	const unknown = "json: unknown field "
	if field, ok := strings.CutPrefix(err.Error(), unknown); ok {
		field = strings.Trim(field, "\"")
		return &BadRow{Column: 1 + strings.Index(line, "\""+field+"\""), Field: field, Value: field, Text: "the format has no such field"}
	}
	return &BadRow{Column: 1, Value: line, Text: err.Error()}
}
