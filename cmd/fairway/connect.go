// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
)

// Further exit codes of the commands that speak to a daemon.
const (
	exitUnknown = 3 // there is no such job, node, app or token
	exitJob     = 4 // the job that was waited for failed or was cancelled
)

// exitCode returns the code that the program ends with after an error.
func exitCode(err error) int {
	var usage usageError
	var job jobError
	var code codeError
	switch {
	case errors.As(err, &code):
		return code.code
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &job):
		return exitJob
	case api.CodeOf(err) == api.Unknown:
		return exitUnknown
	case strings.HasPrefix(err.Error(), "unknown command "): // cobra has no type for it
		return exitUsage
	}
	return exitFailed
}

// clientCommands returns the commands that speak to a daemon.
func clientCommands() []*cobra.Command {
	return []*cobra.Command{
		newSubmit(), newRun(), newShell(), newNotebook(), newResubmit(), newTemplates(), newPs(), newWait(), newLogs(), newMetrics(),
		newCancel(), newPause(), newResume(), newExplain(), newTop(), newUsage(), newReport(),
		newNodes(), newTenants(), newEvents(), newPolicy(), newApp(), newToken(), newWhoami(), newStatus(), newDashboard(), newContext(), newRebalance(),
	}
}

// exitHelp ends the help of commands that speak to a daemon.
const exitHelp = `

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 not found.`

// remote says which daemon to speak to, and how to print its answers.
type remote struct {
	address, token, tokenFile, ca string
	context                       string // name of where to go; see contextfile.go
	asJSON                        bool
}

// register adds the flags that all commands of a daemon have.
func (r *remote) register(c *cobra.Command) {
	fl := c.PersistentFlags()
	fl.StringVar(&r.context, "context", "", "context to use, by `name` (see fairway context)")
	fl.StringVar(&r.address, "address", "", "daemon address: unix:///path/of.sock, http://host:port or https://host:port\n(default: $"+envAddress+", else the socket of your own daemon)")
	fl.StringVar(&r.token, "token", "", "token for a daemon reached over TCP (default: $"+envToken+", else --token-file);\nvisible to other users of this machine: prefer a file")
	fl.StringVar(&r.tokenFile, "token-file", "", "file with mode 0600 that contains the token (default: fairway/token in your configuration folder)")
	fl.StringVar(&r.ca, "ca", "", "file with CA certificates to trust in addition to the system's")
}

func (r *remote) registerJSON(c *cobra.Command) {
	r.register(c)
	c.PersistentFlags().BoolVar(&r.asJSON, "json", false, "print JSON")
}

// dial makes the client.
func (r *remote) dial() (*client.Client, error) {
	if place, err := r.place(); err != nil {
		return nil, err
	} else if place != nil {
		return place.dial(r)
	}
	address := cmp.Or(r.address, defaultAddress())
	if strings.HasPrefix(address, "/") {
		address = "unix://" + address
	}
	token := cmp.Or(r.token, os.Getenv(envToken))
	local := strings.HasPrefix(address, "unix:")
	if token == "" && (r.tokenFile != "" || !local) {
		var err error
		if token, err = readTokenFile(cmp.Or(r.tokenFile, defaultTokenFile()), r.tokenFile != ""); err != nil {
			return nil, err
		}
	}
	c, err := client.New(client.Options{Address: address, Token: token, CA: r.ca})
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// printAnswer prints a value the way programs and people can both read.
func printAnswer(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// query is a command that asks for one thing and prints it.
type query[T any] struct {
	remote *remote
	ask    func(context.Context, *client.Client) (T, error)
	print  func(io.Writer, T)
}

// run asks and prints, as JSON if that was wanted.
func (q query[T]) run(c *cobra.Command) error {
	daemon, err := q.remote.dial()
	if err != nil {
		return err
	}
	defer daemon.Close()
	answer, err := q.ask(c.Context(), daemon)
	if err != nil {
		return err
	}
	if q.remote.asJSON {
		return printAnswer(c.OutOrStdout(), answer)
	}
	q.print(c.OutOrStdout(), answer)
	return nil
}

// terminal returns the file behind a stream if it is a terminal.
func terminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// widthOf returns the columns of a terminal; 0: it is none, and lines may be
// as long as they like.
func widthOf(stream any) int {
	if f, ok := terminal(stream); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// exactly refuses a wrong number of arguments with an example.
func exactly(n int, example string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s: got %d arguments; want %d, for example: %s", c.CommandPath(), len(args), n, example)
		}
		return nil
	}
}

func atLeastOne(example string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s: missing argument, for example: %s", c.CommandPath(), example)
		}
		return nil
	}
}

// noArguments is cobra.NoArgs with the exit code of a wrong call.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s: unexpected argument %.40q", c.CommandPath(), args[0])
	}
	return nil
}

// group makes a command that only holds others; a word that is none of them is
// an error and not a reason to print help.
func group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.AddCommand(subs...)
	if c.RunE == nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			var names []string
			for _, s := range c.Commands() {
				names = append(names, s.Name())
			}
			if len(args) == 0 {
				return usagef("%s: missing subcommand: %s (see %s --help)", c.CommandPath(), strings.Join(names, ", "), c.CommandPath())
			}
			return usagef("%s: unknown subcommand %.40q; want %s", c.CommandPath(), args[0], strings.Join(names, ", "))
		}
	}
	return c
}
