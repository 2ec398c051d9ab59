// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func newContext() *cobra.Command {
	return group(&cobra.Command{
		Use:   "context",
		Short: "Name the daemons and clusters you use, and choose one",
		Long: `Name the daemons and clusters you use, and choose the one that commands speak to.

--context NAME chooses for one command, "fairway context use" for all that follow.
--address and $FAIRWAY_ADDRESS count more than the choice; the context "local" is
always there: the daemon of this machine. They are kept in contexts.yaml in the
folder fairway of your configuration.`,
		Example: `  fairway context add kube --kube --account vision/trainer
  fairway --context kube ps
  fairway context use kube`,
	}, newContextList(), newContextUse(), newContextAdd(), newContextRemove())
}

func newContextList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the contexts; * marks the chosen one",
		Example: `  fairway context list`,
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := readContexts(contextsFile())
			if err != nil {
				return err
			}
			if asJSON {
				return printAnswer(c.OutOrStdout(), all)
			}
			return printContexts(c.OutOrStdout(), &all)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printContexts(w io.Writer, all *contexts) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, " \tNAME\tADDRESS\tTHROUGH")
	mark := map[bool]string{true: "*", false: " "}
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", mark[all.Current == ""], thisMachine, defaultAddress(), "-")
	for _, name := range all.names() {
		p := all.Contexts[name]
		through := strings.Join(p.Tunnel, " ")
		if through == "" {
			through = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", mark[all.Current == name], name, p.Address, through)
	}
	return t.Flush()
}

func newContextUse() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Choose the context of the commands that follow",
		Example: `  fairway context use kube
  fairway context use local`,
		Args: exactly(1, "fairway context use kube"),
		RunE: func(c *cobra.Command, args []string) error {
			return changeContexts(func(all *contexts) error {
				all.Current = args[0]
				if args[0] == thisMachine {
					all.Current = ""
				}
				if _, there := all.Contexts[all.Current]; all.Current != "" && !there {
					return usagef("there is no context %.80q; want one of %s", args[0], strings.Join(append(all.names(), thisMachine), ", "))
				}
				return nil
			})
		},
	}
}

func newContextRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Forget a context",
		Example: `  fairway context remove kube`,
		Args:    exactly(1, "fairway context remove kube"),
		RunE: func(c *cobra.Command, args []string) error {
			return changeContexts(func(all *contexts) error {
				if _, there := all.Contexts[args[0]]; !there {
					return usagef("there is no context %.80q; want one of %s", args[0], strings.Join(all.names(), ", "))
				}
				delete(all.Contexts, args[0])
				if all.Current == args[0] {
					all.Current = ""
				}
				return nil
			})
		},
	}
}

// changeContexts changes the file.
func changeContexts(change func(*contexts) error) error {
	all, err := readContexts(contextsFile())
	if err != nil {
		return err
	}
	if err := change(&all); err != nil {
		return err
	}
	return all.write(contextsFile())
}

// contextFlags are what a new context is made of.
type contextFlags struct {
	address, tunnel, tokenCommand, tokenFile, ca string

	kube, tls                       bool
	namespace, account, kubeContext string
}

func newContextAdd() *cobra.Command {
	var f contextFlags
	c := &cobra.Command{
		Use:   "add NAME --kube | add NAME --address URL",
		Short: "Add a context, or replace it",
		Long: `Add a context, or replace it.

With --kube it is the Fairway of a Kubernetes cluster: each command asks kubectl for
a token of a service account (kubectl create token) and goes through kubectl
port-forward. What the account may do in its namespace says what you may do.

A tunnel is a command that listens on the port {port} of this machine for as long
as it runs, and {port} stands in the address too. A token command prints a token.
Both are run by sh.`,
		Example: `  fairway context add kube --kube --account vision/trainer
  fairway context add lab --address https://lab.example:8460 --token-file ~/.lab-token
  fairway context add box --address 'http://127.0.0.1:{port}' --tunnel-command 'ssh -NL {port}:127.0.0.1:8460 box' --token-command 'pass fairway/box'`,
		Args: exactly(1, "fairway context add kube --kube"),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := f.place()
			if err != nil {
				return err
			}
			if !contextName.MatchString(args[0]) || args[0] == thisMachine {
				return usagef("context add: name = %.80q; want letters, digits, dots and dashes, and not %s", args[0], thisMachine)
			}
			if err := p.validate(); err != nil {
				return usagef("context add: %w", err)
			}
			return changeContexts(func(all *contexts) error { all.Contexts[args[0]] = p; return nil })
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.address, "address", "", "`URL` of the daemon: unix:///path/of.sock, http://host:port or https://host:port")
	fl.StringVar(&f.tunnel, "tunnel-command", "", "`command` that leads to it, from {port} of this machine")
	fl.StringVar(&f.tokenCommand, "token-command", "", "`command` that prints a token")
	fl.StringVar(&f.tokenFile, "token-file", "", "`file` of mode 0600 that holds a token")
	fl.StringVar(&f.ca, "ca", "", "`file` with certificates to trust besides the system's")
	fl.BoolVar(&f.kube, "kube", false, "the Fairway of a Kubernetes cluster, by kubectl")
	fl.BoolVar(&f.tls, "tls", false, "the API of the cluster is encrypted, with --kube; --ca says so too")
	fl.StringVar(&f.namespace, "namespace", "fairway-system", "`namespace` of the operator, with --kube")
	fl.StringVar(&f.account, "account", "default", "service account to be, as `[NAMESPACE/]NAME`, with --kube")
	fl.StringVar(&f.kubeContext, "kube-context", "", "`context` of kubectl, with --kube (default: its current one)")
	return c
}

func (f *contextFlags) place() (place, error) {
	if !f.kube {
		p := place{Address: f.address}
		if f.ca != "" {
			p.CA = absolute(f.ca)
		}
		if f.tunnel != "" {
			p.Tunnel = []string{"sh", "-c", "exec " + f.tunnel} // exec: what ends it must not end only the shell
		}
		if f.tokenCommand != "" {
			p.TokenCommand = []string{"sh", "-c", f.tokenCommand}
		}
		if f.tokenFile != "" {
			p.TokenFile = absolute(f.tokenFile)
		}
		return p, nil
	}
	if f.address != "" || f.tunnel != "" || f.tokenCommand != "" || f.tokenFile != "" {
		return place{}, usagef("context add: --kube goes with none of --address, --tunnel-command, --token-command and --token-file")
	}
	kubectl := []string{"kubectl"}
	if f.kubeContext != "" {
		kubectl = append(kubectl, "--context", f.kubeContext)
	}
	with := func(args ...string) []string { return append(kubectl[:len(kubectl):len(kubectl)], args...) }
	token := []string{"create", "token", f.account, "--audience", "fairway"}
	if namespace, name, ok := strings.Cut(f.account, "/"); ok {
		token = []string{"create", "token", name, "--namespace", namespace, "--audience", "fairway"}
	}
	p := place{
		Address: "http://127.0.0.1:" + portMark, TokenCommand: with(token...),
		Tunnel: with("port-forward", "--namespace", f.namespace, "service/fairway", portMark+":8460"),
	}
	if f.tls || f.ca != "" {
		p.Address, p.ServerName = "https://127.0.0.1:"+portMark, "fairway."+f.namespace+".svc"
	}
	if f.ca != "" {
		p.CA = absolute(f.ca)
	}
	return p, nil
}
