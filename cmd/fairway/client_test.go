// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/server"
)

// TestClientScripts runs the commands that speak to a daemon, against the real
// server in front of a fake; see testdata/client.
func TestClientScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/client", Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits}, Setup: func(e *testscript.Env) error {
		f := newFake()
		s, err := server.New(server.Config{Jobs: f, Feed: f, Cluster: f, Access: f, Agents: f, Logs: f, Searches: f})
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "fw") // a socket's path must be short
		if err != nil {
			return err
		}
		address := "unix://" + filepath.Join(dir, "fairway.sock")
		l, err := server.Listen(server.ListenConfig{Address: address})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, l) }()
		e.Defer(func() {
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
			os.RemoveAll(dir)
		})
		e.Setenv(envAddress, address)
		endAtOnce(e)
		return nil
	}})
}

// TestClientHelp: every command says what it does, with an example.
func TestClientHelp(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" || !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s: short help %q, example %q; want both, with the command in the example", c.CommandPath(), c.Short, c.Example)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	root := &cobra.Command{Use: "fairway"}
	root.AddCommand(clientCommands()...)
	for _, c := range root.Commands() {
		visit(c)
	}
}

// exits runs a program that must end with the given code: exits CODE PROGRAM...
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT...]")
	}
	var ended *exec.ExitError
	err := ts.Exec(args[1], args[2:]...)
	if !errors.As(err, &ended) {
		ts.Fatalf("%v ended with %v; want exit code %s", args[1:], err, args[0])
	}
	if got := strconv.Itoa(ended.ExitCode()); got != args[0] {
		ts.Fatalf("%v ended with exit code %s; want %s", args[1:], got, args[0])
	}
}
