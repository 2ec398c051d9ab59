// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

// submitFlags are the flags of submit. Those that were given override the file.
type submitFlags struct {
	remote
	file, gpus, dir string
	template        string
	shell           shellFlags
	after, notify   []string
	job             api.Submission
	app, tenant     string
	wait, dryRun    bool
	preemptible     bool
	cluster         choiceFlags
}

func newSubmit() *cobra.Command {
	f := &submitFlags{}
	c := &cobra.Command{
		Use:   "submit [-f FILE] [flags] [-- COMMAND [ARGUMENT...]]",
		Short: "Submit a job",
		Long: `Submit a job: a command that runs once per GPU, with the environment that torchrun
would set.

The job comes from the command line, from a job file (see docs/job-file.md), or both:
flags override the file, and the command after "--" overrides the file's command. A
file may contain several jobs, one per YAML document. The working folder is the
current one unless --dir or the file names another; it must exist on the daemon's
machine.

A job on this machine runs in the environment of the shell that submits it: the
activated venv or conda environment, PATH and the like (docs/job-file.md lists them).
"fairway explain" shows which; --clean-env opts out. Other variables travel by --env.
The value of a variable that is declared secret, or whose name ends in KEY, TOKEN,
SECRET, PASSWORD or the like, is kept apart and shown to nobody.

One argument with spaces, such as "cd x && ./run.sh", is a line for bash.

With --cluster, the job goes to the cluster that is expected to start it first, and to
the cheapest of those that start it at once (docs/clusters.md).

The job id is printed, alone, on standard output.

Exit codes: 0 submitted (with --wait: all jobs finished), 1 failure, 2 wrong usage,
4 with --wait: a job failed or was cancelled.`,
		Example: `  fairway submit --gpus 1 -- python3 train.py
  fairway submit --gpus 1-8 --name resnet --batch 128 --batch-max 4096 --adapt -- python3 train.py --epochs 90
  fairway submit -f job.yaml --priority 5
  fairway submit -f sweep.yaml --dry-run
  fairway submit -e SEED=1 -e DATA_DIR --env-file .env -- python3 train.py
  fairway submit --secret WANDB_API_KEY --secret-file HF_TOKEN=$HOME/.hf -- python3 train.py
  fairway submit --wait --gpus 2 --env SEED=1 -- ./run.sh && echo trained
  fairway submit --array 0-99%8 --name sweep -- python3 train.py
  fairway submit --after sweep --name report -- python3 report.py
  fairway submit --cluster any --gpus 8 --dir /shared/bert -- python3 train.py`,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	f.flags(c)
	f.cluster.register(c.Flags())
	f.registerJSON(c)
	return c
}

func (f *submitFlags) flags(c *cobra.Command) {
	fl := c.Flags()
	j := &f.job
	fl.StringVarP(&f.file, "file", "f", "", "job file (\"-\": standard input)")
	fl.StringVar(&f.template, "template", "", "job file by its `name`; see fairway templates")
	fl.StringVarP(&f.gpus, "gpus", "g", "1", "number of GPUs, or a range such as 1-8 for an elastic job")
	fl.StringVarP(&j.Name, "name", "n", "", "job name; the id starts with it (default: the name of the script)")
	fl.StringArrayVar(&f.after, "after", nil, "job or array, by id or name, that has to finish first; with :any, to end in any way; repeatable")
	fl.StringArrayVar(&f.notify, "notify", nil, "target of the daemon's configuration to tell how the job ends, or TARGET:EVENT,EVENT; repeatable")
	fl.StringVar(&j.Array, "array", "", "make several jobs of it, each with its FAIRWAY_ARRAY_INDEX: 0-99, 1,3,5; 0-99%8: 8 at once")
	fl.StringVar(&f.app, "app", "", "app that the job belongs to; fairness is measured between apps")
	fl.StringVar(&f.tenant, "tenant", "", "tenant to submit for (default: your own)")
	fl.IntVar(&j.Priority, "priority", 0, "higher goes first, under policies that use it")
	fl.Float64Var(&j.Work, "work", 0, "total work, in the unit the job reports (steps, epochs)")
	fl.TextVar(&j.Estimate, "estimate", sched.Duration(0), "expected run time on --gpus, such as 2h; 0s: unknown")
	fl.StringVar(&j.Model, "model", "", "model name; jobs of the same model share measurements")
	fl.IntVar(&j.Batch.Initial, "batch", 0, "batch size that the learning rate is tuned for")
	fl.IntVar(&j.Batch.Max, "batch-max", 0, "maximum global batch size")
	fl.BoolVar(&j.Batch.Adapt, "adapt", false, "let the agent adapt batch size and learning rate within these bounds")
	fl.TextVar(&j.GracePeriod, "notice", sched.Duration(0), "grace period between SIGTERM and SIGKILL, to save a checkpoint; 0s: the daemon's default")
	fl.IntVar(&j.Retries, "retries", 0, "maximum number of retries after failures of the job")
	fl.StringVar(&j.Retry, "retry", "", "which failures to retry: adaptive (those a retry can fix; the default), always, never")
	fl.BoolVar(&f.preemptible, "preemptible", false, "the job saves its work on SIGTERM, or can do without: it may be stopped from the start (=false: never)")
	fl.TextVar(&j.TimeLimit, "time-limit", sched.Duration(0), "how long the job may run in all, such as 12h; 0s: the tenant's default")
	fl.BoolVar(&j.WaitForCapacity, "wait-for-capacity", false, "submit the job even if it can never run on the nodes there are now")
	fl.StringVar(&j.Screen, "screen", "", "screening time on one GPU before the full gang starts, such as 2m, or off (default: the daemon decides)")
	fl.BoolVar(&j.Shareable, "share", false, "allow other jobs on its GPUs")
	fl.Float64Var(&j.GPUUtil, "gpu-util", 0, "expected GPU utilisation, 0 to 1; 0: unknown")
	fl.Var(newSizeFlag(&j.GPUMemory), "gpu-memory", "memory needed on each GPU, such as 4GiB")
	fl.StringVar(&j.Graph, "graph", "", "ONNX file of the model, to predict --gpu-util and --gpu-memory if they are not set")
	f.shell.register(fl)
	fl.StringVar(&f.dir, "dir", "", "working folder (default: the current one; --dir '': a private folder)")
	fl.BoolVar(&j.Single, "single", false, "one process for the whole gang instead of one per GPU")
	fl.StringVar(&j.Image, "image", "", "container image to run in; on one machine with podman, apptainer or docker")
	fl.StringVar(&j.Key, "key", "", "idempotency key: submitting the same key again returns the first job, until 7 days after its end")
	fl.BoolVarP(&f.wait, "wait", "w", false, "wait until the job ends, and exit with its outcome")
	fl.BoolVar(&f.dryRun, "dry-run", false, "check and print the job without submitting it; with a daemon, also when it would start, which jobs would make room, and which size would start sooner")
	for flag, complete := range map[string]completer{"after": f.completeJobs(), "tenant": f.completeTenants(), "template": completeTemplates} {
		_ = c.RegisterFlagCompletionFunc(flag, complete)
	}
}

func (f *submitFlags) run(c *cobra.Command, command []string) error {
	jobs, err := f.jobs(c, command)
	if err != nil {
		return err
	}
	return f.send(c, jobs)
}

// send submits jobs, or says what would happen if it did.
func (f *submitFlags) send(c *cobra.Command, jobs []api.Submission) error {
	if len(f.cluster.names) > 0 {
		return f.sendToBest(c, jobs)
	}
	if f.dryRun {
		if err := foresee(c, jobs, nil); err != nil {
			return err
		}
		return f.dry(c, jobs)
	}
	daemon, err := f.dial()
	if err != nil {
		return err
	}
	defer daemon.Close()
	if err := foresee(c, jobs, daemon); err != nil {
		return err
	}
	taken, err := submitAll(c.Context(), daemon, jobs)
	if err != nil {
		for _, j := range taken {
			fmt.Fprintln(c.OutOrStdout(), clean(string(j.ID)))
		}
		return fmt.Errorf("submit %s: %w", nameOf(jobs[len(taken)], len(taken), len(jobs)), err)
	}
	return afterSubmit(c, submitted{daemon: daemon, jobs: taken, wait: f.wait, asJSON: f.asJSON})
}

// submitted is what was submitted, and what to do then.
type submitted struct {
	daemon       *client.Client
	jobs         []api.Job
	wait, asJSON bool
}

// afterSubmit prints the jobs and, if asked to, waits for their end.
func afterSubmit(c *cobra.Command, s submitted) error {
	out := c.OutOrStdout()
	if !s.asJSON {
		for _, j := range s.jobs {
			fmt.Fprintln(out, clean(string(j.ID)))
			if j.MaxGPUs > j.MinGPUs && j.Protected && j.Status.Can == sched.Unproven {
				fmt.Fprintf(c.ErrOrStderr(), "%s %s\n", clean(string(j.ID)), j.Kept())
			}
		}
		if _, ok := terminal(out); ok && !s.wait && len(s.jobs) > 0 {
			fmt.Fprintf(c.ErrOrStderr(), "see \"fairway explain %s\" and \"fairway logs -f %s\"\n", s.jobs[0].ID, s.jobs[0].ID)
		}
	}
	jobs := s.jobs
	if s.wait {
		var err error
		if jobs, err = waitAll(c.Context(), waiting{daemon: s.daemon, jobs: jobs, log: c.ErrOrStderr()}); err != nil {
			return err
		}
	}
	if s.asJSON {
		if err := printAnswer(out, api.JobList{Jobs: jobs}); err != nil {
			return err
		}
	}
	if s.wait {
		return outcome(jobs)
	}
	return nil
}

// jobs reads the file and puts the flags over it.
func (f *submitFlags) jobs(c *cobra.Command, command []string) ([]api.Submission, error) {
	jobs := make([]api.Submission, 1)
	if f.template != "" {
		if f.file != "" {
			return nil, usagef("submit: -f and --template; want one of them")
		}
		var err error
		if f.file, err = templateFile(f.template); err != nil {
			return nil, err
		}
	}
	if f.file != "" {
		text, err := readJobFile(f.file, c.InOrStdin())
		if err != nil {
			return nil, err
		}
		if jobs, err = parseJobs(f.file, text); err != nil {
			return nil, usageError{err}
		}
	} else if len(command) == 0 {
		return nil, usagef("%s: no command; put one after --, such as \"-- python3 train.py\", or name a job file with -f", c.Name())
	}
	return f.finish(c, jobs, command)
}

// finish puts the flags and the shell's variables over jobs, and checks them.
func (f *submitFlags) finish(c *cobra.Command, jobs []api.Submission, command []string) ([]api.Submission, error) {
	if len(jobs) > 1 && f.job.Key != "" {
		return nil, usagef("submit: --key cannot be used with %d jobs; give each job its own key in the file", len(jobs))
	}
	if len(f.cluster.names) > 0 {
		f.shell.clean = true // which machine it will run on is not known yet
	}
	shell, err := f.shell.read(&f.remote)
	if err != nil {
		return nil, err
	}
	if command, err = commandLine(command); err != nil {
		return nil, err
	}
	for i := range jobs {
		if err := f.override(&jobs[i], c.Flags(), command); err != nil {
			return nil, err
		}
		shell.put(&jobs[i])
		if err := jobs[i].ExpandRun(); err != nil {
			return nil, usageError{fmt.Errorf("submit %s: %w", nameOf(jobs[i], i, len(jobs)), err)}
		}
		if err := check(&jobs[i]); err != nil {
			return nil, usageError{fmt.Errorf("submit %s: %w", nameOf(jobs[i], i, len(jobs)), err)}
		}
	}
	return jobs, nil
}

// override puts the flags that were given, and the defaults, over a job.
func (f *submitFlags) override(j *api.Submission, fl *pflag.FlagSet, command []string) error {
	if fl.Changed("gpus") || j.Plans == nil && len(j.Roles) == 0 && j.GPUs == 0 && j.MinGPUs == 0 {
		if err := setGPUs(j, f.gpus); err != nil {
			return usagef("--gpus: %w", err)
		}
	}
	if len(command) > 0 {
		j.Command, j.Run = command, ""
	}
	for flag, set := range map[string]func(){
		"name": func() { j.Name = f.job.Name }, "app": func() { j.App = sched.AppID(f.app) },
		"tenant": func() { j.Tenant = sched.TenantID(f.tenant) }, "priority": func() { j.Priority = f.job.Priority },
		"work": func() { j.Work = f.job.Work }, "estimate": func() { j.Estimate = f.job.Estimate },
		"model": func() { j.Model = f.job.Model }, "batch": func() { j.Batch.Initial = f.job.Batch.Initial },
		"batch-max": func() { j.Batch.Max = f.job.Batch.Max }, "adapt": func() { j.Batch.Adapt = f.job.Batch.Adapt },
		"notice": func() { j.GracePeriod = f.job.GracePeriod }, "retries": func() { j.Retries = f.job.Retries },
		"single": func() { j.Single = f.job.Single }, "key": func() { j.Key = f.job.Key },
		"retry": func() { j.Retry = f.job.Retry }, "screen": func() { j.Screen = f.job.Screen },
		"share": func() { j.Shareable = f.job.Shareable }, "gpu-util": func() { j.GPUUtil = f.job.GPUUtil },
		"gpu-memory": func() { j.GPUMemory = f.job.GPUMemory }, "graph": func() { j.Graph = f.job.Graph },
		"time-limit": func() { j.TimeLimit = f.job.TimeLimit }, "wait-for-capacity": func() { j.WaitForCapacity = f.job.WaitForCapacity },
		"array": func() { j.Array = f.job.Array }, "after": func() { j.DependsOn = f.after }, "notify": func() { j.Notify = f.notify },
		"image": func() { j.Image = f.job.Image }, "preemptible": func() { j.Preemptible = &f.preemptible },
	} {
		if fl.Changed(flag) {
			set()
		}
	}
	if fl.Changed("dir") {
		j.Dir = f.dir
	}
	return settle(j, fl.Changed("dir"))
}

// settle makes the working folder absolute; a job that names none runs in the
// current folder, unless it was asked for one of its own.
func settle(j *api.Submission, own bool) error {
	if j.Dir == "" && own {
		return nil
	}
	dir, err := filepath.Abs(j.Dir)
	if err != nil {
		return fmt.Errorf("find the current folder: %w", err)
	}
	j.Dir = dir
	return nil
}

// check says what the daemon would refuse, and gives the job the name that the daemon would.
// The daemon has the last word.
func check(s *api.Submission) error {
	complete := *s
	err := complete.Complete()
	s.Name = complete.Name
	return err
}

func nameOf(s api.Submission, i, n int) string {
	switch {
	case n == 1:
		return "job"
	case s.Name != "":
		return fmt.Sprintf("job %d (%s)", i+1, s.Name)
	}
	return fmt.Sprintf("job %d", i+1)
}

// submitAll submits one job after the other and returns those that were taken. A job
// that depends on one before it, by name, gets the id of that one.
func submitAll(ctx context.Context, daemon *client.Client, jobs []api.Submission) ([]api.Job, error) {
	var out []api.Job
	ids := map[string]string{}
	for _, s := range jobs {
		s.DependsOn = slices.Clone(s.DependsOn)
		for i, text := range s.DependsOn {
			if d, err := api.ParseDependency(text); err == nil && ids[d.Job] != "" {
				d.Job = ids[d.Job]
				s.DependsOn[i] = d.String()
			}
		}
		j, err := daemon.Submit(ctx, s)
		if err != nil {
			return out, err
		}
		out = append(out, j)
		if s.Name != "" {
			ids[s.Name] = string(j.ID)
		}
	}
	return out, nil
}

func printDry(c *cobra.Command, jobs []api.Submission) error {
	fmt.Fprintf(c.ErrOrStderr(), "dry run: %s would be submitted:\n", several(len(jobs), "job"))
	list := make([]dryJob, len(jobs))
	for i := range jobs {
		list[i] = dryly(jobs[i])
	}
	return printAnswer(c.OutOrStdout(), list)
}
