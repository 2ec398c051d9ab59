// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

func newApp() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:   "app",
		Short: "Manage apps: groups of jobs that share one fair share",
		Long: `An app is one or more jobs with a common goal, such as the trials of a
hyper-parameter search. Fairness is measured between apps, not between jobs.` + exitHelp,
		Example: `  fairway app submit sweep.yaml
  fairway app list
  fairway app show sweep
  fairway app cancel sweep`,
	}
	r.registerJSON(c)
	return group(c, newAppSubmit(&r), newAppList(&r), newAppShow(&r),
		newAppControl(&r, api.Cancel, "Cancel all jobs of an app"),
		newAppControl(&r, api.Pause, "Pause all jobs of an app and free their GPUs"),
		newAppControl(&r, api.Resume, "Resume the paused jobs of an app"), newAppAgent(&r))
}

func newAppSubmit(r *remote) *cobra.Command {
	var id string
	var wait, dryRun bool
	var shell shellFlags
	c := &cobra.Command{
		Use:   "submit FILE",
		Short: "Submit the jobs of a file as one app, all or none",
		Long: `Submit the jobs of a file as one app: all of them or none. The file has an id and a
list of jobs, or one YAML document per job with the id given by --id. See
docs/job-file.md.

A file with a "search" field is a hyper-parameter search: the daemon creates the
jobs (trials) as it goes and stops weak ones early. See docs/search.md.`,
		Example: `  fairway app submit sweep.yaml
  fairway app submit trials.yaml --id sweep --wait
  fairway app submit examples/search.yaml --wait`,
		Args: exactly(1, "fairway app submit sweep.yaml"),
		RunE: func(c *cobra.Command, args []string) error {
			env, err := shell.read(r)
			if err != nil {
				return err
			}
			app, err := readApp(args[0], sched.AppID(id), c.InOrStdin(), env)
			if err != nil {
				return err
			}
			switch {
			case app.Search != nil && dryRun:
				return printDrySearch(c.OutOrStdout(), c.ErrOrStderr(), app.Search)
			case app.Search != nil:
				return submitSearch(c, app.Search, r, wait)
			case dryRun:
				return printDry(c, app.Jobs)
			}
			daemon, err := r.dial()
			if err != nil {
				return err
			}
			defer daemon.Close()
			if err := foresee(c, app.Jobs, daemon); err != nil {
				return err
			}
			jobs, err := daemon.SubmitApp(c.Context(), app.ID, app.Jobs)
			if err != nil {
				return fmt.Errorf("submit app %s: %w", clean(string(app.ID)), err)
			}
			return afterSubmit(c, submitted{daemon: daemon, jobs: jobs, wait: wait, asJSON: r.asJSON})
		},
	}
	shell.register(c.Flags())
	c.Flags().StringVar(&id, "id", "", "app `name` (default: the id in the file)")
	c.Flags().BoolVarP(&wait, "wait", "w", false, "wait until all jobs end, and exit with their outcome")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check and print the jobs without submitting them")
	return c
}

// readApp reads an app file, gives its jobs what they get of the shell, and checks them.
func readApp(path string, id sched.AppID, stdin io.Reader, env shellEnv) (appFile, error) {
	text, err := readJobFile(path, stdin)
	if err != nil {
		return appFile{}, err
	}
	app, err := parseApp(path, text)
	if err != nil {
		return appFile{}, usageError{err}
	}
	if app.Search != nil {
		env.put(&app.Search.Trial)
		return app, readSearch(path, id, app.Search)
	}
	if app.ID = cmp.Or(id, app.ID); app.ID == "" {
		return appFile{}, usagef("%s: the app has no id; add a line such as \"id: sweep\", or use --id", path)
	}
	for i := range app.Jobs {
		j := &app.Jobs[i]
		if j.GPUs == 0 && j.MinGPUs == 0 {
			j.GPUs = 1
		}
		if err := settle(j, false); err != nil {
			return appFile{}, err
		}
		env.put(j)
		if err := j.ExpandRun(); err != nil {
			return appFile{}, usageError{fmt.Errorf("%s: %s: %w", path, nameOf(*j, i, len(app.Jobs)), err)}
		}
		if err := check(j); err != nil {
			return appFile{}, usageError{fmt.Errorf("%s: %s: %w", path, nameOf(*j, i, len(app.Jobs)), err)}
		}
	}
	return app, nil
}

func newAppList(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List apps", Example: "  fairway app list", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			width := widthOf(c.OutOrStdout())
			return query[api.AppList]{r,
				func(ctx context.Context, daemon *client.Client) (api.AppList, error) {
					apps, err := daemon.Apps(ctx)
					return api.AppList{Apps: apps}, err
				},
				func(w io.Writer, l api.AppList) { printApps(w, l.Apps, view{time.Now(), width}) },
			}.run(c)
		},
	}
}

func printApps(w io.Writer, apps []api.AppView, v view) {
	if len(apps) == 0 {
		fmt.Fprintln(w, "no apps")
		return
	}
	g := grid{right: []bool{false, true, true, true, true, true, true, true, true, true}}
	g.add("APP", "JOBS", "RUNNING", "WAITING", "FINISHED", "FAILED", "CANCELLED", "GPUS", "RHO", "AGE", "TENANT")
	for _, a := range apps {
		g.add(clean(string(a.ID)), fmt.Sprint(a.Jobs), fmt.Sprint(a.Running), fmt.Sprint(a.Waiting), fmt.Sprint(a.Finished),
			fmt.Sprint(a.Failed), fmt.Sprint(a.Killed), fmt.Sprint(a.GPUs), rhoText(a.Rho), sched.Brief(v.now.Sub(a.Submitted)), orDash(string(a.Tenant)))
	}
	g.print(w, "", v.width)
}

func newAppShow(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "show APP", Short: "List the jobs of an app, or the trials of a search", Example: "  fairway app show sweep",
		Args: exactly(1, "fairway app show sweep"),
		RunE: func(c *cobra.Command, args []string) error {
			if ok, err := showSearch(c, r, args[0]); ok || err != nil {
				return err
			}
			l := listing{JobFilter: api.JobFilter{App: sched.AppID(args[0])}, all: true}
			ask := func(ctx context.Context, daemon *client.Client) (api.JobPage, error) {
				page, err := l.ask(ctx, daemon)
				if err == nil && len(page.Jobs) == 0 {
					err = api.Errorf(api.Unknown, "no app %q has jobs", args[0]).Try("see \"fairway app list\"")
				}
				return page, err
			}
			return query[api.JobPage]{r, ask, listing{}.printer(widthOf(c.OutOrStdout()))}.run(c)
		},
	}
}

func newAppControl(r *remote, cmd api.Command, short string) *cobra.Command {
	name := string(cmd)
	return &cobra.Command{
		Use: name + " APP", Short: short, Example: "  fairway app " + name + " sweep",
		Args: exactly(1, "fairway app "+name+" sweep"),
		RunE: func(c *cobra.Command, args []string) error {
			daemon, err := r.dial()
			if err != nil {
				return err
			}
			defer daemon.Close()
			jobs, err := daemon.CommandApp(c.Context(), sched.AppID(args[0]), cmd)
			if err != nil {
				return err
			}
			return printControlled(c, jobs, r.asJSON)
		},
	}
}
