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
		Short: "Manage named connections to daemons and clusters",
		Long: `A context is a named connection to a daemon or cluster.

--context NAME selects one for a single command, "fairway context use" for all later
commands. --address and $FAIRWAY_ADDRESS override it. The context "local" always
exists: the daemon of this machine. Contexts are stored in fairway/contexts.yaml in
your configuration folder.`,
		Example: `  fairway context add kube --kube --account vision/trainer
  fairway --context kube ps
  fairway context use kube`,
	}, newContextList(), newContextUse(), newContextAdd(), newContextRemove())
}

func newContextList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List contexts; * marks the current one",
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
	fmt.Fprintln(t, " \tNAME\tADDRESS\tTHROUGH\tPRICE")
	mark := map[bool]string{true: "*", false: " "}
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", mark[all.Current == ""], thisMachine, defaultAddress(), "-", "-")
	for _, name := range all.names() {
		p := all.Contexts[name]
		through := strings.Join(p.Tunnel, " ")
		if through == "" {
			through = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", mark[all.Current == name], name, p.Address, through, priceText(p.Price))
	}
	return t.Flush()
}

func newContextUse() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Select the context for later commands",
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
					return usagef("unknown context %.80q; want one of %s", args[0], strings.Join(append(all.names(), thisMachine), ", "))
				}
				return nil
			})
		},
	}
}

func newContextRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a context",
		Example: `  fairway context remove kube`,
		Args:    exactly(1, "fairway context remove kube"),
		RunE: func(c *cobra.Command, args []string) error {
			return changeContexts(func(all *contexts) error {
				if _, there := all.Contexts[args[0]]; !there {
					return usagef("unknown context %.80q; want one of %s", args[0], strings.Join(all.names(), ", "))
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
	price                           float64
	namespace, account, kubeContext string
}

func newContextAdd() *cobra.Command {
	var f contextFlags
	c := &cobra.Command{
		Use:   "add NAME --kube | add NAME --address URL",
		Short: "Add or replace a context",
		Long: `Add or replace a context.

With --kube the context is Fairway in a Kubernetes cluster: each command gets a token
for a service account (kubectl create token) and connects through kubectl
port-forward. The account's RBAC permissions in its namespace determine yours.

A tunnel command listens on local port {port} while it runs; the address contains
{port} too. A token command prints a token. Both run in sh.`,
		Example: `  fairway context add kube --kube --account vision/trainer
  fairway context add lab --address https://lab.example:8460 --token-file ~/.lab-token
  fairway context add box --address 'http://127.0.0.1:{port}' --tunnel-command 'ssh -NL {port}:127.0.0.1:8460 box' --token-command 'pass fairway/box'`,
		Args: exactly(1, "fairway context add kube --kube"),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := f.place()
			if err != nil {
				return err
			}
			if !contextName.MatchString(args[0]) || args[0] == thisMachine || args[0] == anyCluster {
				return usagef("context add: name = %.80q; want letters, digits, dots and dashes, and not %s or %s", args[0], thisMachine, anyCluster)
			}
			p.Price = f.price
			if err := p.validate(); err != nil {
				return usagef("context add: %w", err)
			}
			return changeContexts(func(all *contexts) error { all.Contexts[args[0]] = p; return nil })
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.address, "address", "", "`URL` of the daemon: unix:///path/of.sock, http://host:port or https://host:port")
	fl.StringVar(&f.tunnel, "tunnel-command", "", "`command` that forwards local port {port} to the daemon")
	fl.StringVar(&f.tokenCommand, "token-command", "", "`command` that prints a token")
	fl.StringVar(&f.tokenFile, "token-file", "", "`file` with mode 0600 that contains a token")
	fl.StringVar(&f.ca, "ca", "", "`file` with CA certificates to trust in addition to the system's")
	fl.Float64Var(&f.price, "price", 0, "price of a GPU hour there, for submit --cluster; 0: none")
	fl.BoolVar(&f.kube, "kube", false, "connect to Fairway in a Kubernetes cluster through kubectl")
	fl.BoolVar(&f.tls, "tls", false, "with --kube: use HTTPS (implied by --ca)")
	fl.StringVar(&f.namespace, "namespace", "fairway-system", "with --kube: `namespace` of the operator")
	fl.StringVar(&f.account, "account", "default", "with --kube: service account to use, as `[NAMESPACE/]NAME`")
	fl.StringVar(&f.kubeContext, "kube-context", "", "with --kube: kubectl `context` (default: the current one)")
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
		return place{}, usagef("context add: --kube cannot be combined with --address, --tunnel-command, --token-command or --token-file")
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
