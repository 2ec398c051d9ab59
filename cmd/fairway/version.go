// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/daemon"
)

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program and what it was built from",
		Long: `Print the version of this program and what it was built from. "fairway status" prints
the version of the daemon.`,
		Example: `  fairway version
  fairway version --json`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			b, w := daemon.Build(), c.OutOrStdout()
			if asJSON {
				return json.NewEncoder(w).Encode(b)
			}
			revision := b.Revision
			if b.Modified {
				revision += ", modified"
			}
			var g grid
			g.add("fairway", b.Version)
			if revision != "" {
				g.add("revision", revision)
			}
			g.add("built with", fmt.Sprintf("%s for %s", b.Go, b.Platform))
			g.print(w, "", 0)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
