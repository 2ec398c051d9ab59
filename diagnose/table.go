// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// Limits of a table, so that one of a user cannot exhaust the scheduler.
const (
	MaxTableBytes   = 1 << 20
	maxReasons      = 1000
	maxSignatures   = 5000
	maxLiteralBytes = 64 << 10 // of all signatures together
	maxPattern      = 2000     // bytes
	minLiteral      = 4        // bytes: a shorter one is on every other line
)

// Weight says how near to the root a signature is.
type Weight string

// The weights.
const (
	Cause   Weight = "cause"   // stands for itself
	Symptom Weight = "symptom" // may come from an earlier error
	Peer    Weight = "peer"    // a symptom that another rank is mostly to blame for
	Echo    Weight = "echo"    // only says that something ended
)

// File is a table of signatures as it is written.
type File struct {
	// Benign are words that make a line harmless: the program went on.
	Benign  []string `json:"benign,omitempty"`
	Reasons []Reason `json:"reasons"`
}

// Reason is one reason for failure and how to recognise it.
type Reason struct {
	ID       string   `json:"id"`
	Text     string   `json:"text"`
	Category Category `json:"category"`
	Philly   string   `json:"philly,omitempty"`
	// Node says that the reason alone flags the node it happened on.
	Node       bool        `json:"node,omitempty"`
	Events     []string    `json:"events,omitempty"`
	Signals    []string    `json:"signals,omitempty"`
	Exits      []int       `json:"exits,omitempty"`
	Retry      *Rule       `json:"retry"`
	Signatures []Signature `json:"signatures"`
}

// Signature is a kind of line. Either Has or Exceptions is set.
type Signature struct {
	// Has are texts of which one is in the line, in upper or lower case.
	Has []string `json:"has,omitempty"`
	// Exceptions are names of Python exceptions, without their module; "*":
	// every one that no other signature names.
	Exceptions []string `json:"exceptions,omitempty"`
	// Match is a regular expression (RE2) that the line matches, too.
	Match string `json:"match,omitempty"`
	// Frame is a regular expression that the last frame of the traceback matches, too:
	// where an exception comes from. Only with Exceptions.
	Frame string `json:"frame,omitempty"`
	// Not are texts that the line must not have, in this case.
	Not        []string `json:"not,omitempty"`
	As         Weight   `json:"as,omitempty"`         // default: cause
	Confidence float64  `json:"confidence,omitempty"` // default: by weight
}

// Table is a table of signatures, ready for use. It does not change.
type Table struct {
	file       File
	reasons    []Reason
	signatures []signature // in the order of the file: the earlier wins on the same line
	literals   *literals
	owners     [][]int          // signatures of each literal
	exceptions map[string][]int // signatures of each exception
	benign     []string
}

// signature is a compiled Signature.
type signature struct {
	Signature
	reason  int
	pattern *regexp.Regexp
	frame   *regexp.Regexp
}

//go:embed signatures.json
var builtin []byte

// Builtin returns the table that is part of the program.
func Builtin() (*Table, error) {
	f, err := ParseFile(builtin)
	if err != nil {
		return nil, fmt.Errorf("signatures.json: %w", err)
	}
	return NewTable(f)
}

// ParseFile reads a table from JSON. Fields it does not know are errors.
func ParseFile(text []byte) (File, error) {
	var f File
	if len(text) > MaxTableBytes {
		return f, fmt.Errorf("signature file has %d bytes; want at most %d", len(text), MaxTableBytes)
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		offset := int(d.InputOffset())
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			offset = int(syntax.Offset)
		}
		return f, fmt.Errorf("line %d: %w", 1+strings.Count(string(text[:min(offset, len(text))]), "\n"), err)
	}
	if _, err := d.Token(); err != io.EOF {
		return f, fmt.Errorf("signature file goes on after its end, at byte %d", d.InputOffset())
	}
	return f, nil
}

// With returns a table in which the signatures of f come first. A reason with
// an id that is already there gets f's signatures before its own; the text,
// category and retry rule of f, where given, replace the old ones.
func (t *Table) With(f File) (*Table, error) {
	merged := File{Benign: slices.Concat(f.Benign, t.file.Benign)}
	old := map[string]Reason{}
	for _, r := range t.file.Reasons {
		old[r.ID] = r
	}
	replaced := map[string]bool{}
	for _, r := range f.Reasons {
		if replaced[r.ID] {
			return nil, fmt.Errorf("reason %q: is there twice; put all its signatures into one", r.ID)
		}
		replaced[r.ID] = true
		merged.Reasons = append(merged.Reasons, overlay(r, old[r.ID]))
	}
	for _, r := range t.file.Reasons {
		if !replaced[r.ID] {
			merged.Reasons = append(merged.Reasons, r)
		}
	}
	return NewTable(merged)
}

// overlay lays a user's reason over the one that was there.
func overlay(r, old Reason) Reason {
	if old.ID == "" {
		return r
	}
	if r.Text == "" {
		r.Text = old.Text
	}
	if r.Category == "" {
		r.Category = old.Category
	}
	if r.Philly == "" {
		r.Philly = old.Philly
	}
	if r.Retry == nil {
		r.Retry = old.Retry
	}
	r.Node = r.Node || old.Node
	r.Events = slices.Concat(r.Events, old.Events)
	r.Signals = slices.Concat(r.Signals, old.Signals)
	r.Exits = slices.Concat(r.Exits, old.Exits)
	r.Signatures = slices.Concat(r.Signatures, old.Signatures)
	return r
}

// NewTable checks and compiles a table.
func NewTable(f File) (*Table, error) {
	t := &Table{file: f, reasons: f.Reasons, exceptions: map[string][]int{}}
	if len(f.Reasons) > maxReasons {
		return nil, fmt.Errorf("%d reasons; want at most %d", len(f.Reasons), maxReasons)
	}
	for _, b := range f.Benign {
		t.benign = append(t.benign, strings.ToLower(b))
	}
	seen := map[string]bool{}
	var texts []string
	index := map[string]int{}
	size := 0
	for i, r := range f.Reasons {
		if err := r.check(); err != nil {
			return nil, err
		}
		if seen[r.ID] {
			return nil, fmt.Errorf("reason %q: is there twice; want each id once", r.ID)
		}
		seen[r.ID] = true
		for n, s := range r.Signatures {
			compiled, err := s.compile(i)
			if err != nil {
				return nil, fmt.Errorf("reason %q, signature %d: %w", r.ID, n+1, err)
			}
			id := len(t.signatures)
			t.signatures = append(t.signatures, compiled)
			for _, e := range s.Exceptions {
				t.exceptions[e] = append(t.exceptions[e], id)
			}
			for _, h := range s.Has {
				h = strings.ToLower(h)
				at, ok := index[h]
				if !ok {
					at = len(texts)
					index[h] = at
					texts = append(texts, h)
					t.owners = append(t.owners, nil)
					size += len(h)
				}
				t.owners[at] = append(t.owners[at], id)
			}
		}
	}
	for _, id := range []string{ReasonUnknown, ReasonNone, ReasonException} {
		if !seen[id] {
			return nil, fmt.Errorf("reason %q is missing: every table has it", id)
		}
	}
	if len(t.signatures) > maxSignatures || size > maxLiteralBytes {
		return nil, fmt.Errorf("%d signatures with %d bytes of text; want at most %d with %d", len(t.signatures), size, maxSignatures, maxLiteralBytes)
	}
	t.literals = newLiterals(texts)
	return t, nil
}

// check says what is wrong with a reason, its signatures aside.
func (r *Reason) check() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("reason %q: %s = %v; want %s", r.ID, field, value, want)
	}
	name := strings.Trim(r.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && r.ID != "" && len(r.ID) <= 60
	switch {
	case !name:
		return fmt.Errorf("reason %.80q: id; want lower-case letters, digits and dashes, at most 60", r.ID)
	case r.Text == "":
		return bad("text", `""`, "a sentence that says what happened")
	case !slices.Contains([]Category{User, Engine, Infrastructure, Unknown}, r.Category):
		return bad("category", fmt.Sprintf("%q", r.Category), "user, engine or infrastructure")
	case r.Retry == nil:
		return bad("retry", "nothing", "a rule, such as {budget: 0, say: ...}")
	case r.Retry.Budget < Unlimited || r.Retry.Budget > 100:
		return bad("retry.budget", r.Retry.Budget, "0 to 100, or -1 for no limit")
	case r.Retry.After < 0 || r.Retry.After > sched.Duration(longestWait):
		return bad("retry.after", r.Retry.After, "0s to "+sched.Duration(longestWait).String())
	case !slices.Contains([]More{NoMore, MoreMemory, MoreGPUMemory}, r.Retry.More):
		return bad("retry.more", fmt.Sprintf("%q", r.Retry.More), "memory or gpu-memory")
	}
	return nil
}

// compile checks a signature and compiles its pattern.
func (s Signature) compile(reason int) (signature, error) {
	c := signature{Signature: s, reason: reason}
	if (len(s.Has) == 0) == (len(s.Exceptions) == 0) {
		return c, fmt.Errorf("has = %q, exceptions = %q; want one of the two", s.Has, s.Exceptions)
	}
	for _, h := range s.Has {
		if len(h) < minLiteral || strings.ContainsAny(h, "\n\r") {
			return c, fmt.Errorf("has = %q; want %d bytes or more, on one line", h, minLiteral)
		}
	}
	switch {
	case s.As == "":
		c.As = Cause
	case s.As != Cause && s.As != Symptom && s.As != Peer && s.As != Echo:
		return c, fmt.Errorf("as = %q; want cause, symptom, peer or echo", s.As)
	}
	if s.Confidence < 0 || s.Confidence > 1 || s.Confidence != s.Confidence {
		return c, fmt.Errorf("confidence = %v; want 0 to 1", s.Confidence)
	}
	if s.Confidence == 0 {
		c.Confidence = map[Weight]float64{Cause: 0.9, Symptom: 0.7, Peer: 0.6, Echo: 0.4}[c.As]
	}
	if s.Frame != "" && len(s.Exceptions) == 0 {
		return c, fmt.Errorf("frame = %q without exceptions; want both", s.Frame)
	}
	var err error
	if c.pattern, err = compilePattern("match", s.Match); err == nil {
		c.frame, err = compilePattern("frame", s.Frame)
	}
	return c, err
}

// compilePattern compiles a pattern of a signature; nil: there is none.
func compilePattern(field, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxPattern {
		return nil, fmt.Errorf("%s has %d bytes; want at most %d", field, len(text), maxPattern)
	}
	p, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s = %q: %w", field, text, err)
	}
	return p, nil
}

// Reasons returns the reasons of the table in its order. The caller must not
// change what they point to.
func (t *Table) Reasons() []Reason { return slices.Clone(t.reasons) }

// Reason returns the reason with an id.
func (t *Table) Reason(id string) (Reason, bool) {
	i := slices.IndexFunc(t.reasons, func(r Reason) bool { return r.ID == id })
	if i < 0 {
		return Reason{}, false
	}
	return t.reasons[i], true
}
