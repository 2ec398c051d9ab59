// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func newAppAgent(r *remote) *cobra.Command {
	var remove bool
	var secretEnv string
	c := &cobra.Command{
		Use:   "agent APP [URL | --remove]",
		Short: "Register a program that bids for the GPUs of an app",
		Long: `Register a program that bids for the GPUs of an app under policies that hold
auctions (themis). The daemon calls it at URL/v1/rho, /v1/bid and /v1/win; see
docs/bidding.md. It must run on this machine or on a host that the daemon's
configuration allows (bidders.hosts).

The daemon authenticates to the program with a secret. Without --secret-env the
daemon generates one and prints it once, alone, on standard output. Without a URL
the command shows the registered program and its last bid.`,
		Example: `  fairway app agent sweep http://127.0.0.1:9000 > bidder.secret
  fairway app agent sweep http://127.0.0.1:9000 --secret-env BIDDER_SECRET
  fairway app agent sweep
  fairway app agent sweep --remove`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 || remove && len(args) == 2 {
				return usagef("%s: want an app and a URL, or an app and --remove; for example: fairway app agent sweep http://127.0.0.1:9000", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			change := api.BidderChange{}
			if len(args) == 2 {
				change.URL = args[1]
			}
			if secretEnv != "" {
				if change.Secret = os.Getenv(secretEnv); change.Secret == "" {
					return usagef("app agent: environment variable %s is empty; set it to the secret, or omit --secret-env", clean(secretEnv))
				}
			}
			return runAppAgent(c, r, sched.AppID(args[0]), change, remove)
		},
	}
	c.Flags().BoolVar(&remove, "remove", false, "remove the registration")
	c.Flags().StringVar(&secretEnv, "secret-env", "", "environment `variable` that holds the secret (default: the daemon generates one)")
	return c
}

func runAppAgent(c *cobra.Command, r *remote, app sched.AppID, change api.BidderChange, remove bool) error {
	daemon, err := r.dial()
	if err != nil {
		return err
	}
	defer daemon.Close()
	var v api.BidderView
	switch {
	case remove:
		if err := daemon.RemoveBidder(c.Context(), app); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.ErrOrStderr(), "removed the bidder of %s\n", clean(string(app)))
		return err
	case change.URL == "":
		v, err = daemon.Bidder(c.Context(), app)
	default:
		v, err = daemon.SetBidder(c.Context(), app, change)
	}
	if err != nil {
		return err
	}
	if r.asJSON {
		return printAnswer(c.OutOrStdout(), v)
	}
	if change.URL == "" {
		printBidder(c.OutOrStdout(), v, time.Now())
		return nil
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s bids for %s\n", clean(v.URL), clean(string(v.App)))
	if v.Secret != "" {
		fmt.Fprintln(c.OutOrStdout(), clean(v.Secret))
	}
	return nil
}

func printBidder(w io.Writer, v api.BidderView, now time.Time) {
	fmt.Fprintf(w, "%s has been bidding for %s for %s\n", clean(v.URL), clean(string(v.App)), sched.Brief(now.Sub(v.Since)))
	if v.Bid == nil {
		fmt.Fprintln(w, "no bid yet, or the last one failed (see \"fairway events --kind app-bid\")")
		return
	}
	fmt.Fprintf(w, "last bid %s ago: rho %.3g, %d rows\n", sched.Brief(now.Sub(v.Bid.At)), v.Bid.Rho, len(v.Bid.Rows))
}
