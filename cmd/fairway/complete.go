// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/policy"
)

// completer offers words to a shell.
type completer = func(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// ask offers what a daemon knows. A shell must not wait for one that does not answer.
func (r *remote) ask(list func(context.Context, *client.Client) ([]string, error)) completer {
	return func(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		const patience = 2 * time.Second
		daemon, err := r.dial()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer daemon.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		words, err := list(ctx, daemon)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		words = slices.DeleteFunc(words, func(w string) bool {
			word, _, _ := strings.Cut(w, "\t")
			return !strings.HasPrefix(word, toComplete) || slices.Contains(args, word)
		})
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeJobs offers jobs and arrays in some states; none: in all.
func (r *remote) completeJobs(states ...string) completer {
	return r.ask(func(ctx context.Context, daemon *client.Client) ([]string, error) {
		page, err := daemon.Page(ctx, api.JobFilter{States: states, Fold: true, Limit: 200})
		var words []string
		for _, j := range page.Jobs {
			words = append(words, string(j.ID)+"\t"+stateText(j.State))
		}
		return words, err
	})
}

func (r *remote) completeTenants() completer {
	return r.ask(func(ctx context.Context, daemon *client.Client) ([]string, error) {
		tenants, err := daemon.Tenants(ctx)
		var words []string
		for _, t := range tenants {
			words = append(words, string(t.ID))
		}
		return words, err
	})
}

// completePolicy offers policies, and behind a colon their variants and knobs, and behind
// an @ the layers.
func completePolicy(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	table := policy.Builtin()
	at := strings.LastIndexAny(toComplete, ":@")
	var words []string
	switch {
	case at < 0:
		words = table.Names()
	case toComplete[at] == '@':
		for _, e := range table.Layers() {
			words = append(words, toComplete[:at]+"@"+e.Name)
		}
	default:
		part := toComplete[strings.LastIndexByte(toComplete, '@')+1:]
		name, _, _ := strings.Cut(part, ":")
		if strings.Contains(toComplete, "@") {
			name = "@" + name
		}
		e := table[name]
		for _, v := range e.Variants {
			words = append(words, toComplete[:at+1]+v.Name+"\t"+v.Summary)
		}
		for _, k := range e.Knobs {
			words = append(words, toComplete[:at+1]+k.Name+"=\t"+k.Help)
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, toComplete) })
	return words, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completePolicies offers the same for the last of several policies.
func completePolicies(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	before := toComplete[:strings.LastIndexByte(toComplete, ',')+1]
	words, directive := completePolicy(c, args, toComplete[len(before):])
	for i := range words {
		words[i] = before + words[i]
	}
	return words, directive
}

func completeTemplates(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, _ := templates()
	var words []string
	for _, t := range all {
		words = append(words, t.Name+"\t"+t.Text)
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
