// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

type fakeCUDA struct{}

func (fakeCUDA) version() (int, error) { return 12080, nil }

func (fakeCUDA) call(verb string, pid int) (int, error) {
	if verb == "lock" {
		return 0, fmt.Errorf("no %d\nof ours", pid)
	}
	return pid % 4, nil
}

func TestServe(t *testing.T) {
	var out strings.Builder
	in := "version\nstate 42\nlock 7\nlock\nstate -1\n"
	if err := serve(strings.NewReader(in), &out, func() (driver, error) { return fakeCUDA{}, nil }); err != nil {
		t.Fatal(err)
	}
	want := "ok 12080\nok 2\nerror no 7 of ours\n" +
		"error request \"lock\": want a verb and the number of a process\nerror request \"state -1\": want a verb and the number of a process\n"
	if out.String() != want {
		t.Errorf("answers\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	if err := serve(strings.NewReader("version\n"), &out, func() (driver, error) { return nil, errors.New("no driver") }); err != nil || out.String() != "error no driver\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}
