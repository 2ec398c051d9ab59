// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

// TestWrongType: a value of a wrong type is named as it was sent.
func TestWrongType(t *testing.T) {
	for body, want := range map[string]string{
		`{"command": ["gpus"], "gpus": "four"}`:      `gpus: is the text "four"; send a value of type integer`,
		`{"name": "a", "gpus": true, "command": []}`: `gpus: is true; send a value of type integer`,
		`{"gpus": 1.5}`:         `gpus: is number 1.5; send a value of type integer`,
		`{"gpus": {"a": "b"}}`:  `gpus: is object; send a value of type integer`,
		`{"gpus": [1, "b"]}`:    `gpus: is array; send a value of type integer`,
		`{"command": "python"}`: `command: is the text "python"; send a value of type array`,
	} {
		var s api.Submission
		if err := decode([]byte(body), &s); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", body, err, want)
		}
	}
}
