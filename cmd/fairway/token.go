// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

func newToken() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke tokens for access over the network",
		Long: `Create, list and revoke tokens for access to the daemon over TCP; requires the role
admin. The daemon stores only a hash; the token is printed once, when it is created.` + exitHelp,
		Example: `  fairway token create --user ann --tenant vision --role user --expires 30d
  fairway token list
  fairway token revoke tk-3`,
	}
	r.registerJSON(c)
	return group(c, newTokenCreate(&r), newTokenList(&r), newTokenRevoke(&r))
}

func newTokenCreate(r *remote) *cobra.Command {
	var t api.Token
	var tenant string
	var lasts sched.Duration
	t.Role = api.User
	c := &cobra.Command{
		Use:   "create --user NAME",
		Short: "Create a token and print it",
		Long: `Create a token and print it, alone, on standard output. It is shown only once: store
it in a file with mode 0600.

  viewer  sees the jobs of its tenant
  user    submits and controls jobs of its tenant
  admin   everything, in all tenants`,
		Example: `  (umask 077; fairway token create --user ann --tenant vision --expires 30d > ann.token)
  fairway token create --user ci --tenant vision --role viewer --name "status page"`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if t.User == "" {
				return usagef("token create: --user is missing")
			}
			if lasts < 0 {
				return usagef("token create: --expires is %s; want 0s (never) or more", lasts)
			}
			t.Tenant = sched.TenantID(tenant)
			if lasts > 0 {
				t.Expires = time.Now().Add(lasts.D()).UTC().Truncate(time.Second)
			}
			return query[api.NewToken]{r,
				func(ctx context.Context, daemon *client.Client) (api.NewToken, error) {
					made, secret, err := daemon.CreateToken(ctx, t)
					return api.NewToken{Token: made, Secret: secret}, err
				},
				func(w io.Writer, n api.NewToken) {
					fmt.Fprintf(c.ErrOrStderr(), "token %s: %s\n", clean(n.Token.ID), tokenText(n.Token))
					fmt.Fprintln(w, clean(n.Secret))
				},
			}.run(c)
		},
	}
	fl := c.Flags()
	fl.StringVar(&t.User, "user", "", "user name")
	fl.StringVar(&tenant, "tenant", "default", "tenant of the user")
	fl.TextVar(&t.Role, "role", api.User, "viewer, user or admin")
	fl.StringVar(&t.Name, "name", "", "description")
	fl.StringVar(&t.RunAs, "run-as", "", "operating-system user that its jobs run as (default: the daemon's user)")
	fl.TextVar(&lasts, "expires", sched.Duration(0), "lifetime, such as 30d; 0s: until revoked")
	return c
}

func tokenText(t api.Token) string {
	text := fmt.Sprintf("%s as %s of tenant %s", clean(t.User), t.Role, orDash(string(t.Tenant)))
	if !t.Expires.IsZero() {
		text += ", until " + t.Expires.Local().Format(time.DateTime)
	}
	return text
}

func newTokenList(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List tokens", Example: "  fairway token list", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			width := widthOf(c.OutOrStdout())
			return query[api.TokenList]{r,
				func(ctx context.Context, daemon *client.Client) (api.TokenList, error) {
					tokens, err := daemon.Tokens(ctx)
					return api.TokenList{Tokens: tokens}, err
				},
				func(w io.Writer, l api.TokenList) { printTokens(w, l.Tokens, view{time.Now(), width}) },
			}.run(c)
		},
	}
}

func printTokens(w io.Writer, tokens []api.Token, v view) {
	if len(tokens) == 0 {
		fmt.Fprintln(w, "no tokens")
		return
	}
	var g grid
	g.add("TOKEN", "USER", "TENANT", "ROLE", "VALID", "CREATED", "RUNS AS", "NAME")
	for _, t := range tokens {
		valid := "until revoked"
		switch {
		case t.Revoked:
			valid = "revoked"
		case !t.Valid(v.now):
			valid = "expired"
		case !t.Expires.IsZero():
			valid = "for " + sched.Brief(t.Expires.Sub(v.now))
		}
		g.add(clean(t.ID), clean(t.User), orDash(string(t.Tenant)), t.Role.String(), valid, clock(v.now, t.Created), orDash(t.RunAs), clean(t.Name))
	}
	g.print(w, "", v.width)
}

func newTokenRevoke(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Revoke a token immediately", Example: "  fairway token revoke tk-3",
		Args: exactly(1, "fairway token revoke tk-3"),
		RunE: func(c *cobra.Command, args []string) error {
			daemon, err := r.dial()
			if err != nil {
				return err
			}
			defer daemon.Close()
			if err := daemon.RevokeToken(c.Context(), args[0]); err != nil {
				return fmt.Errorf("revoke token %s: %w", clean(args[0]), err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s revoked\n", clean(args[0]))
			return nil
		},
	}
}
