// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/fairway-gpu/fairway/api"
)

// Redact takes out what nobody needs to replay a journal and somebody may have
// meant to keep.
func Redact(records []api.Record) {
	for i := range records {
		r := &records[i]
		if r.Task != nil {
			t := *r.Task
			t.Command, t.Dir, t.Env = nil, "", nil
			r.Task = &t
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
