// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	repository "github.com/fairway-gpu/fairway"
	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

func newDemo() *cobra.Command {
	d := demo{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a small mix of real training jobs and report what happened",
		Long: `Run a small mix of real training jobs on a private scheduler with an empty data
folder, and report what happened and why: an elastic job, a rigid one, four trials of
a search as one app, and a job with a bug.

It needs Python, and nothing else: the jobs and the agent are part of this program. A GPU
and PyTorch are optional.`,
		Example: `  fairway demo
  fairway demo --stay      # keep the dashboard open afterwards`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&d.listen, "listen", "127.0.0.1:8460", "`address` of the dashboard; if the port is in use, another one is chosen")
	f.StringVar(&d.policy, "policy", "fairway:interval=5s:restart=5s", "`policy` to run under")
	f.IntVar(&d.slots, "slots", 4, "CPU slots to offer on a machine without GPUs")
	f.BoolVar(&d.stay, "stay", false, "keep running until Ctrl-C")
	return cmd
}

// demo is one run of the demonstration.
type demo struct {
	listen, policy string
	slots          int
	stay           bool
	out            io.Writer
	begin          time.Time
}

// demoTime bounds the demonstration: the mix takes about a minute.
const demoTime = 10 * time.Minute

func (d *demo) run(cmd *cobra.Command) (err error) {
	d.out, d.begin = cmd.OutOrStdout(), time.Now()
	data, err := os.MkdirTemp("", "fairway-demo-")
	if err == nil {
		err = os.Chmod(data, 0o711)
	}
	if err != nil {
		return err
	}
	jobs, python, err := demoMix(filepath.Join(data, "demo"))
	if err != nil {
		return errors.Join(err, os.RemoveAll(data))
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	daemon, err := d.open(ctx, data)
	if err != nil {
		return errors.Join(err, os.RemoveAll(data))
	}
	done := make(chan error, 1)
	go func() { done <- daemon.run(ctx) }()
	defer func() {
		daemon.machine.StopAll(context.Background())
		cancel()
		err = errors.Join(err, <-done, daemon.close(), os.RemoveAll(data))
	}()
	fmt.Fprintf(d.out, "%s\npython: %s\n", describeNode(daemon.node), python)
	daemon.printDashboard(d.out)
	fmt.Fprintln(d.out)
	c, err := client.New(client.Options{Address: "unix://" + daemon.config.socketPath()})
	if err != nil {
		return err
	}
	if err := d.train(ctx, c, jobs); err != nil {
		return err
	}
	if d.stay {
		fmt.Fprintln(d.out, "\nThe dashboard stays up until you press Ctrl-C.")
		<-ctx.Done()
	}
	return nil
}

// open starts the daemon on GPUs if there are any.
func (d *demo) open(ctx context.Context, data string) (*localDaemon, error) {
	c := defaultConfig()
	c.Data, c.Policy, c.Listen.Address = data, d.policy, d.listen
	c.Report, c.Notice = sched.Duration(2*time.Second), sched.Duration(10*time.Second)
	if _, err := exec.LookPath("nvidia-smi"); err != nil {
		c.Slots = d.slots
	}
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	daemon, err := openDaemon(ctx, c, quiet)
	if err != nil && strings.Contains(err.Error(), "address already in use") {
		c.Listen.Address = "127.0.0.1:0"
		daemon, err = openDaemon(ctx, c, quiet)
	}
	return daemon, err
}

// demoMix writes the mix to a folder and reads its job files. With PyTorch the elastic
// job trains with it; without, the standard library does for all.
func demoMix(root string) ([]api.Submission, string, error) {
	if err := os.CopyFS(root, repository.Demo); err != nil {
		return nil, "", fmt.Errorf("write the demo: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(root, "examples", "mix", "*.yaml"))
	if err != nil {
		return nil, "", err
	}
	python, torch, err := findPython()
	if err != nil {
		return nil, "", err
	}
	slices.Sort(files)
	if torch {
		files[0] = filepath.Join(root, "examples", "plain_pytorch.yaml")
	}
	var jobs []api.Submission
	for _, f := range files {
		text, err := readJobFile(f, nil)
		if err != nil {
			return nil, "", err
		}
		some, err := parseJobs(f, text)
		if err != nil {
			return nil, "", err
		}
		jobs = append(jobs, some...)
	}
	for i := range jobs {
		jobs[i].Dir = root
		jobs[i].Env = map[string]string{"PYTHONPATH": filepath.Join(root, "python", "src"), "PYTHONUNBUFFERED": "1"}
		if jobs[i].Command[0] == "python3" {
			jobs[i].Command[0] = python
		}
	}
	if torch {
		return jobs, python + ", with PyTorch", nil
	}
	return jobs, python + ", without PyTorch", nil
}

// findPython returns an interpreter, one with PyTorch if there is any.
func findPython() (path string, torch bool, err error) {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		p, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path == "" {
			path = p
		}
		if exec.Command(p, "-c", "import torch").Run() == nil {
			return p, true, nil
		}
	}
	if path == "" {
		return "", false, errors.New("no python3 in PATH; install Python 3.9 or later")
	}
	return path, false, nil
}

// train submits the jobs, tells what happens to them, and reports.
func (d *demo) train(ctx context.Context, c *client.Client, jobs []api.Submission) error {
	for _, s := range jobs {
		if _, err := c.Submit(ctx, s); err != nil {
			return err
		}
	}
	watching, stop := context.WithTimeout(ctx, demoTime)
	defer stop()
	open := len(jobs)
	err := c.Watch(watching, api.RecordFilter{}, func(r api.Record) error {
		if line := demoLine(r); line != "" {
			fmt.Fprintf(d.out, "%5.1f s  %s\n", r.At.Sub(d.begin).Seconds(), line)
		}
		if r.Event != nil && r.Event.Kind == sched.JobEnded {
			open--
		}
		if open == 0 {
			stop()
		}
		return nil
	})
	if open > 0 {
		return fmt.Errorf("the mix did not end within %s: %w", demoTime, err)
	}
	return d.report(ctx, c)
}

// demoLine is what the demonstration tells of a record; empty: nothing.
func demoLine(r api.Record) string {
	if r.Event == nil {
		return ""
	}
	id := r.Job()
	switch r.Event.Kind {
	case sched.JobSubmitted:
		s := r.Event.Spec
		size := several(s.GPUs, "slot")
		if s.MaxGPUs > s.MinGPUs {
			size = fmt.Sprintf("%d to %d slots", s.MinGPUs, s.MaxGPUs)
		}
		return fmt.Sprintf("%-18s submitted, for %s", id, size)
	case sched.JobStarted:
		if r.Event.InPlace {
			return fmt.Sprintf("%-18s goes on with %s", id, several(r.Event.Placement.GPUs(), "slot"))
		}
		return fmt.Sprintf("%-18s starts on %s", id, several(r.Event.Placement.GPUs(), "slot"))
	case sched.JobStopped:
		if r.Event.InPlace {
			return fmt.Sprintf("%-18s is resized: %s", id, r.Text)
		}
		return fmt.Sprintf("%-18s is asked to checkpoint and stop: %s", id, r.Text)
	case sched.JobEnded:
		return fmt.Sprintf("%-18s %s", id, strings.TrimSuffix(r.Event.Phase.String()+": "+r.Text, ": "+r.Event.Phase.String()))
	}
	return ""
}

// report says what happened to every job and why.
func (d *demo) report(ctx context.Context, c *client.Client) error {
	var all []api.Job
	for j, err := range c.List(ctx, api.JobFilter{}) {
		if err != nil {
			return err
		}
		all = append(all, j)
	}
	slices.Reverse(all) // oldest first
	o, err := c.Overview(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nWhat happened, under %s:\n\n", o.Policy)
	g := grid{}
	g.add("JOB", "OUTCOME", "WAITED", "RAN", "SLOTS OVER TIME", "LOSS", "LOST")
	held := 0.0
	for _, j := range all {
		e, err := c.Explain(ctx, j.ID)
		if err != nil {
			return err
		}
		held += j.Status.GPUSeconds
		points, err := c.Points(ctx, j.ID)
		if err != nil {
			return err
		}
		loss := "-"
		for _, p := range points {
			if p.Loss != nil {
				loss = fmt.Sprintf("%.3f", *p.Loss)
			}
		}
		g.add(string(j.ID), stateText(j.State), sched.Brief(j.Status.Waited.D()), sched.Brief(j.Status.Ran.D()), sizesOf(e.Ledger), loss, briefSeconds(e.Price.LostS))
	}
	g.print(d.out, "  ", 200)
	total := time.Since(d.begin)
	fmt.Fprintf(d.out, "\n  Total %.0f s; slots were allocated %.0f %% of the time. LOST is slot time of work that no checkpoint saved.\n", total.Seconds(), 100*held/(total.Seconds()*float64(max(1, o.GPUs))))
	for _, j := range all {
		if j.State == api.Failed {
			fmt.Fprintf(d.out, "  %s failed and was not retried: %s.\n", j.ID, j.Exit.Text())
		}
		if j.Status.Preemptions+j.Status.Moves > 0 {
			fmt.Fprintf(d.out, "  %s was preempted %s and resized or moved %s, and went on from where it was.\n", j.ID, several(j.Status.Preemptions, "time"), several(j.Status.Moves, "time"))
		}
	}
	return nil
}

// sizesOf lists the sizes a job had, in order.
func sizesOf(ledger []api.Entry) string {
	var sizes []string
	for _, e := range ledger {
		if e.To > 0 || (e.Verb == "preempt" || e.Verb == "pause") {
			sizes = append(sizes, fmt.Sprint(e.To))
		}
	}
	if len(sizes) == 0 {
		return "-"
	}
	return strings.Join(sizes, " → ")
}
