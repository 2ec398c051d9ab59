// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/local"
	"github.com/fairway-gpu/fairway/sched"
)

func newUp() *cobra.Command {
	var path, listen, data, spec, level string
	var slots int
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run the scheduler on this machine",
		Long: `Run the scheduler on this machine: control loop, journal, API, dashboard and metrics
in one process.

It detects the GPUs; a machine without GPUs offers CPU slots instead. Ctrl-C or
SIGTERM stops the daemon but not the jobs: the next "fairway up" takes them over, also
after a crash.`,
		Example: `  fairway up
  fairway up --slots 4 --policy tiresias
  fairway up --config /etc/fairway/fairway.yaml
  fairway up --listen 0.0.0.0:8460      # tokens: fairway token create`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := defaultConfig()
			if path != "" {
				var err error
				if c, err = readConfig(path); err != nil {
					return err
				}
			}
			set := cmd.Flags().Changed
			if set("data") {
				c.Data = data
			}
			if set("listen") {
				c.Listen.Address = listen
			}
			if set("policy") {
				c.Policy = spec
			}
			if set("slots") {
				c.Slots = slots
			}
			if set("log-level") {
				c.Log.Level = level
			}
			abs, err := filepath.Abs(c.Data)
			if err != nil {
				return err
			}
			c.Data = abs
			if err := c.validate(); err != nil {
				return usageError{err}
			}
			return up(cmd, c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&path, "config", "", "configuration `file` (see fairway config)")
	f.StringVar(&data, "data", defaultDataDir(), "data `folder` of the daemon")
	f.StringVar(&listen, "listen", defaultConfig().Listen.Address, "TCP `address` of the dashboard and the API; empty: Unix socket only")
	f.StringVar(&spec, "policy", defaultConfig().Policy, "initial `policy` for a new data folder (later: fairway policy set)")
	f.IntVar(&slots, "slots", 0, "offer this many CPU slots instead of GPUs")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// up runs the daemon until the command is told to stop.
func up(cmd *cobra.Command, c daemonConfig) error {
	log := c.Log.New(cmd.ErrOrStderr())
	d, err := openDaemon(cmd.Context(), c, log)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s\n", describeNode(d.node))
	fmt.Fprintf(out, "data: %s\npolicy: %s\n", c.Data, d.policySpec())
	fmt.Fprintf(out, "commands: fairway --address unix://%s ps\n", c.socketPath())
	d.printDashboard(out)
	for _, w := range c.warnings() {
		log.Warn(w)
	}
	err = d.run(cmd.Context())
	return errors.Join(err, d.close())
}

func (d *localDaemon) policySpec() string { _, spec := d.state.InForce(); return spec }

// url returns the address of the dashboard; empty: it has none.
func (d *localDaemon) url() string {
	for _, l := range d.listeners {
		if url := l.URL(); strings.HasPrefix(url, "http") {
			host, err := os.Hostname()
			if err != nil {
				return url
			}
			return strings.NewReplacer("//[::]:", "//"+host+":", "//0.0.0.0:", "//"+host+":").Replace(url) // on all addresses
		}
	}
	return ""
}

// printDashboard shows where the dashboard is. On a terminal it adds a link that logs in
// the one who starts the daemon; others may read what a service prints.
func (d *localDaemon) printDashboard(out io.Writer) {
	url := d.url()
	switch _, person := terminal(out); {
	case url == "":
	case person:
		who := api.Identity{User: "root", Tenant: d.config.Socket.Tenant, Role: api.Admin, Owner: api.Owner{UID: -1, GID: -1}}
		fmt.Fprintf(out, "dashboard: %s\n", url+d.server.LoginLink(who))
	default:
		fmt.Fprintf(out, "dashboard: %s\nlog in: fairway dashboard --address unix://%s\n", url, d.config.socketPath())
	}
}

func describeNode(n sched.Node) string {
	if n.Type == "cpu" {
		return fmt.Sprintf("%s: no GPU found, offering %s", n.Name, several(n.GPUs, "CPU slot"))
	}
	return fmt.Sprintf("%s: %s (%s)", n.Name, several(n.GPUs, "GPU"), n.Type)
}

// newShim is what the daemon starts for each attempt of a job.
func newShim() *cobra.Command {
	return &cobra.Command{
		Use: "shim FOLDER", Hidden: true, DisableFlagParsing: true,
		Short: "Supervise the processes of one attempt",
		RunE: func(_ *cobra.Command, args []string) error {
			os.Exit(local.ShimMain(args))
			return nil
		},
	}
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print or check the daemon's configuration",
		Example: `  fairway config default > fairway.yaml
  fairway config check fairway.yaml`,
	}
	cmd.AddCommand(&cobra.Command{
		Use: "default", Short: "Print the default configuration with comments", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), defaultConfigText())
			return err
		},
	}, &cobra.Command{
		Use: "check FILE", Short: "Check a configuration file", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := readConfig(args[0])
			if err != nil {
				return err
			}
			for _, w := range config.Listen.warnings() {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", args[0], w)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", args[0])
			return nil
		},
	})
	return cmd
}
