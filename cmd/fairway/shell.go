// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/local"
	"github.com/fairway-gpu/fairway/sched"
)

// interactive is a job that somebody works in.
type interactive struct {
	remote
	shell  shellFlags
	job    api.Submission
	gpus   string
	tenant string
	idle   sched.Duration
}

func (f *interactive) flags(c *cobra.Command, name string) {
	fl := c.Flags()
	fl.StringVarP(&f.gpus, "gpus", "g", "1", "number of GPUs")
	fl.StringVarP(&f.job.Name, "name", "n", name, "job name; the id starts with it")
	fl.StringVar(&f.tenant, "tenant", "", "tenant to submit for (default: your own)")
	fl.IntVar(&f.job.Priority, "priority", 0, "higher goes first, under policies that use it")
	fl.TextVar(&f.job.TimeLimit, "time-limit", sched.Duration(0), "how long it may run, such as 4h; 0s: the tenant's default")
	fl.TextVar(&f.idle, "idle", sched.Duration(30*time.Minute), "end it after it has been idle for this long; 0s: never")
	fl.StringVar(&f.job.Dir, "dir", "", "working folder (default: the current one)")
	f.shell.register(fl)
	f.register(c)
}

// submit submits the job with a command.
func (f *interactive) submit(ctx context.Context, daemon *client.Client, command ...string) (api.Job, error) {
	j := f.job
	j.Command, j.Single, j.Retry, j.Tenant = command, true, api.RetryNever, sched.TenantID(f.tenant)
	if err := setGPUs(&j, f.gpus); err != nil {
		return api.Job{}, usagef("--gpus: %w", err)
	}
	env, err := f.shell.read(&f.remote)
	if err != nil {
		return api.Job{}, err
	}
	env.put(&j)
	if err := settle(&j, false); err != nil {
		return api.Job{}, err
	}
	if err := check(&j); err != nil {
		return api.Job{}, usageError{err}
	}
	made, err := daemon.Submit(ctx, j)
	if err != nil {
		return made, fmt.Errorf("submit: %w", err)
	}
	return made, nil
}

// dialHere connects to the daemon if it is on this machine.
func (f *interactive) dialHere(command string) (*client.Client, error) {
	if !f.here() {
		return nil, usagef("%s: needs the daemon of this machine, without a token; on Kubernetes, use kubectl exec in a pod of the job", command)
	}
	return f.dial()
}

func newShell() *cobra.Command {
	f := &interactive{}
	c := &cobra.Command{
		Use:   "shell [flags] [-- COMMAND [ARGUMENT...]]",
		Short: "Open a shell on GPUs of this machine",
		Long: `Open a shell on GPUs of this machine: a job whose program is your shell ($SHELL), or a
command, on a terminal. It waits for its turn like any job, and runs in this folder and
environment. Several GPUs are all in the one shell.

It ends with the shell, when this command ends (a closed window, a lost connection),
and when nothing is typed or printed for as long as --idle: then its GPUs are free
again. A training without output counts as idle; use --idle 0s, or "fairway run".

Exit codes: that of the shell; otherwise as of "fairway run".`,
		Example: `  fairway shell
  fairway shell --gpus 2 --time-limit 2h
  fairway shell -- ipython`,
		RunE: func(c *cobra.Command, args []string) error { return f.open(c, args) },
	}
	f.flags(c, "shell")
	return c
}

// newTerminal is what a job with a terminal runs.
func newTerminal() *cobra.Command {
	return &cobra.Command{
		Use: "terminal NAME IDLE COMMAND...", Hidden: true, DisableFlagParsing: true,
		Short: "Run a command on a terminal for \"fairway shell\"",
		Args:  cobra.MinimumNArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			idle, err := time.ParseDuration(args[1])
			if err != nil {
				return usagef("terminal: %w; only \"fairway shell\" starts this command", err)
			}
			return local.TerminalMain(args[0], idle, args[2:])
		},
	}
}

func (f *interactive) open(c *cobra.Command, command []string) error {
	daemon, err := f.dialHere("shell")
	if err != nil {
		return err
	}
	defer daemon.Close()
	t, err := local.ListenTerminal()
	if err != nil {
		return err
	}
	defer t.Close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if len(command) == 0 {
		command = []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh")}
	}
	f.job.Env = map[string]string{"TERM": cmp.Or(os.Getenv("TERM"), "dumb")}
	for _, kv := range os.Environ() { // what a terminal shows depends on them
		if k, v, _ := strings.Cut(kv, "="); k == "LANG" || k == "COLORTERM" || strings.HasPrefix(k, "LC_") {
			f.job.Env[k] = v
		}
	}
	interrupts := make(chan os.Signal, 4)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupts)
	ctx, leave := context.WithCancel(context.WithoutCancel(c.Context()))
	defer leave()
	j, err := f.submit(ctx, daemon, append([]string{self, "terminal", t.Name, f.idle.D().String()}, command...)...)
	if err != nil {
		return err
	}
	told := lineEnds{c.ErrOrStderr()}
	type end struct {
		job api.Job
		err error
	}
	ended, up := make(chan end, 1), make(chan error, 1)
	go func() {
		j, err := waitFor(ctx, waiting{daemon: daemon, log: told}, j)
		ended <- end{j, err}
	}()
	go func() { up <- t.Accept() }()
	for {
		select {
		case <-interrupts:
			fmt.Fprintf(told, "%s: cancelling it\n", j.ID)
			if _, err := daemon.Command(ctx, j.ID, api.Cancel); err != nil && api.CodeOf(err) != api.Conflict {
				return err
			}
		case e := <-ended:
			if e.err == nil {
				e.err = ownExit(e.job)
			}
			return e.err
		case err := <-up:
			if err != nil {
				return err
			}
			code, err := f.sit(t, c)
			switch {
			case errors.Is(err, local.ErrNoExit):
				continue // the job tells why
			case err != nil:
				return err
			case code != 0:
				return codeError{nil, code}
			}
			return nil
		}
	}
}

// sit connects the terminal of this command with that of the job.
func (f *interactive) sit(t *local.Terminal, c *cobra.Command) (int, error) {
	if in, ok := terminal(c.InOrStdin()); ok {
		was, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return 0, fmt.Errorf("prepare the terminal: %w", err)
		}
		defer func() { _ = term.Restore(int(in.Fd()), was) }()
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, syscall.SIGWINCH)
		defer signal.Stop(resized)
		done := make(chan struct{})
		defer close(done)
		go func() {
			for {
				if columns, rows, err := term.GetSize(int(in.Fd())); err == nil {
					t.Resize(columns, rows)
				}
				select {
				case <-resized:
				case <-done:
					return
				}
			}
		}()
	}
	return t.Attach(c.InOrStdin(), c.OutOrStdout())
}

// lineEnds ends lines as a raw terminal needs it.
type lineEnds struct {
	w io.Writer
}

func (l lineEnds) Write(b []byte) (int, error) {
	_, err := l.w.Write([]byte(strings.ReplaceAll(string(b), "\n", "\r\n")))
	return len(b), err
}
