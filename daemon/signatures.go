// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairway-gpu/fairway/diagnose"
)

// Signatures returns the built-in signatures of failures with those of a file, if
// one is named, before them.
func Signatures(path string) (*diagnose.Table, error) {
	table, err := diagnose.Builtin()
	if err != nil || path == "" {
		return table, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read signatures: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, diagnose.MaxTableBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read signatures: %w", err)
	}
	mine, err := parseSignatures(text)
	if err == nil {
		table, err = table.With(mine)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return table, nil
}

// parseSignatures reads a table from YAML, of which JSON is a part. Fields it
// does not know are errors.
func parseSignatures(text []byte) (diagnose.File, error) {
	var file diagnose.File
	if len(text) > diagnose.MaxTableBytes {
		return file, fmt.Errorf("more than %d bytes", diagnose.MaxTableBytes)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err := d.Decode(&file)
	var wrong *yaml.TypeError
	switch {
	case errors.As(err, &wrong):
		return file, errors.New(fieldType.ReplaceAllString(strings.Join(wrong.Errors, "; "), ""))
	case err != nil && !errors.Is(err, io.EOF):
		return file, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return file, nil
}

// fieldType is what yaml says about our types, which tells a user nothing.
var fieldType = regexp.MustCompile(` in type diagnose[.][A-Za-z]+`)
