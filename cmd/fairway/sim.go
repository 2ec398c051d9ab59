// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/progress"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/profile"
	"github.com/fairway-gpu/fairway/sim/trace"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// defaultWorkload is the workload of the Pollux paper's evaluation in small
// print: same mix of models, same load.
const defaultWorkload = "gen:pollux:160"

type simFlags struct {
	workload workloadFlags
	cluster  clusterFlags
	goodput  goodputFlags
	faults   faultFlags

	journal      string
	policies     []string
	interval     sched.Duration
	until        sched.Duration
	retry        sched.Duration
	agent        sched.Duration
	noise        float64
	profiles     string
	plans        string
	throughputs  string
	zoo          string
	interference string
	share        string
	estimates    string
	plain        float64
	unprotected  bool
	suspend      bool
	lengthError  float64
	noLengths    bool
	restart      sched.Duration
	checkpoint   sched.Duration
	optimistic   bool
	ledger       bool
	seed         uint64
	json         bool
	timing       bool
	out          string
}

func newSim() *cobra.Command {
	f := &simFlags{interval: sched.Duration(time.Minute), retry: sched.Duration(time.Minute), agent: sched.Duration(30 * time.Second)}
	c := &cobra.Command{
		Use:   "sim [--workload FILE] [--policy NAME,...]",
		Short: "Replay a workload under one or more policies and compare them",
		Long: `Replay a workload on a simulated cluster under one or more policies.

A policy is a name from "fairway policies", with variants and knobs after
colons: tiresias, tiresias:gittins, las:lease=20m; layers follow after at signs:
tiresias@share, fifo@defrag@reserve. The same seed and inputs give the same
result, byte for byte.

Policies see what a live system would know. Estimates of run times (--estimates)
are by default "history": what a job's user estimated where the workload says so,
else how long the last jobs like it ran. "user" draws the missing ones with the
errors that users make, "none" hides them all. "exact" tells policies the true run
time, and the true speed on GPUs where a job has not run; a policy that uses them
is then marked as an oracle, as one that always plans with the truth is.

A restart costs what it costs the model (5 s to 4 min), more on several nodes; a stop
loses the step in progress; agents know the noise scale as an average over past
batches. --optimistic simplifies this as the Pollux paper's simulator does, for
comparisons with it: 30 s, nothing lost, no lag.

With --failures, ranks die, hang and become slow at stated rates, nodes are repaired,
and the result has the effective training time: the part of the time since their first
start in which jobs made progress that was kept.`,
		Example: `  fairway sim --policy fifo,srtf,las,tiresias --out out
  fairway trace gen --kind pollux --jobs 160 --gpus 64 --seed 1 --out jobs.jsonl
  fairway sim --workload jobs.jsonl --policy fifo,las,tiresias --cluster 16x4
  fairway sim --workload jobs.jsonl --policy tiresias:gittins --cluster 8x8/4 --out out/
  fairway sim --workload jobs.jsonl --policy srtf --json
  fairway sim --workload jobs.jsonl --policy srtf,themis --estimates exact
  fairway sim --workload workload-1.csv --policy pollux --profiles traces --optimistic
  fairway sim --workload workload-1.csv --policy sia --profiles sia/traces --cluster 6x4:aws+2x8:dgx-ext+3x8:rtx
  fairway sim --workload workload-base.csv --policy fairway,pollux,sia --plans rubick/traces --cluster 8x8 --restart 260s
  fairway sim --journal ~/.local/state/fairway --policy fifo,las,pollux
  echo '{"lost_per_gpu_hour": 5e-5, "checkpoint": "10m", "spares": 1}' >failures.json
  fairway sim --workload gen:philly:500 --cluster 32x8 --policy fifo:backfill --failures failures.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.workload.register(c, defaultWorkload, ", or gen:KIND:JOBS to generate one from --seed")
	f.cluster.register(c)
	f.goodput.register(c)
	f.faults.register(c)
	fl := c.Flags()
	fl.StringVar(&f.journal, "journal", "", "replay a daemon's journal instead of a workload: its data `folder`, or a file written by \"fairway journal export\"; default cluster: the daemon's")
	fl.StringSliceVarP(&f.policies, "policy", "p", []string{"tiresias"}, "policies to compare, separated by commas")
	fl.TextVar(&f.interval, "interval", f.interval, "time between decisions; 0s: decide at every event, which is the default for fairway")
	fl.TextVar(&f.until, "until", f.until, "end of the simulation, such as 7d; 0s: when every job has ended")
	fl.TextVar(&f.retry, "retry", f.retry, "back-off of a failed job before its next attempt")
	fl.TextVar(&f.agent, "agent", f.agent, "for policies with agents: interval at which agents evaluate their measurements")
	fl.Float64Var(&f.noise, "noise", 0, "for policies with agents: measurement noise, as the standard deviation of the logarithm, such as 0.1")
	fl.StringVar(&f.profiles, "profiles", "", "folder with measured profiles in the layout of the Pollux or the Sia artifact, instead of the fitted models; of Sia's, the types of the cluster are aws, rtx, dgx-ext, ...")
	fl.StringVar(&f.throughputs, "throughputs", "", "`file` with measured throughputs of jobs alone and in pairs, in the format of Gavel's simulation_throughputs.json, for workloads that count steps (format gavel)")
	fl.StringVar(&f.plans, "plans", "", "`folder` with measured steps of large models by execution plan, in the layout of the Rubick artifact's traces, for its workloads (format rubick)")
	fl.StringVar(&f.zoo, "zoo", "", "folder with additional model files for the zoo")
	fl.StringVar(&f.interference, "interference", "auto", "fraction of speed that distributed jobs on one node lose, 0 to 1; auto: per model, and 0 with --profiles or --plans")
	fl.StringVar(&f.share, "share", "off", "auto: let jobs that allow it share GPUs where the predicted slowdown is small (adds layer @share to each policy); off")
	fl.StringVar(&f.estimates, "estimates", string(sim.History), "what policies are told about run times: history, user, none or exact")
	fl.Float64Var(&f.plain, "plain", 0, "share of jobs, 0 to 1, that are plain scripts: no agent, nothing saved; no policy preempts, moves or resizes them")
	fl.BoolVar(&f.unprotected, "unprotected", false, "with --plain: let policies stop plain scripts, which then start from the beginning")
	fl.BoolVar(&f.suspend, "suspend", false, "with --plain: nodes can suspend plain scripts in place, so policies may preempt them; they go on where they were")
	fl.Float64Var(&f.lengthError, "length-error", 0, "error of the work that jobs declare, as the standard deviation of the logarithm, such as 1")
	fl.BoolVar(&f.noLengths, "no-lengths", false, "jobs do not declare how much work they have")
	fl.TextVar(&f.restart, "restart", f.restart, "cost of every restart, such as 3s; 0s: as the model says")
	fl.TextVar(&f.checkpoint, "checkpoint", f.checkpoint, "jobs save their work only this often, such as 5m, and lose what they did since when they are stopped; 0s: they save when told to stop")
	fl.BoolVar(&f.optimistic, "optimistic", false, "as in the Pollux paper's simulator: every restart costs 30 s, no stop loses work, agents know the noise scale without lag")
	fl.BoolVar(&f.ledger, "ledger", false, "print the costs and gains considered for each move")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of a generated workload; stored in the result")
	fl.BoolVar(&f.json, "json", false, "print one JSON object instead of a table")
	fl.BoolVar(&f.timing, "timing", true, "measure decision times; with --timing=false the JSON is the same, byte for byte, on every run")
	fl.StringVarP(&f.out, "out", "o", "", "folder for result.json, jobs.csv, decision logs and report.html")
	_ = c.RegisterFlagCompletionFunc("policy", completePolicies)
	return c
}

func (f *simFlags) run(c *cobra.Command) error {
	base, err := f.config(c)
	if err != nil {
		return err
	}
	policies, err := f.build()
	if err != nil {
		return err
	}
	w, runs, err := f.input(c, &base)
	if err != nil {
		return err
	}
	var out *output
	if f.out != "" {
		if out, err = newOutput(f.out); err != nil {
			return err
		}
	}
	for i, p := range policies {
		cfg := base
		cfg.Policy, cfg.Name = p, f.policies[i]
		about := policy.Builtin().About(cfg.Name)
		cfg.CoAdapt, cfg.Losses, cfg.Oracle, cfg.UsesEstimates = about.Agents, about.Losses, about.Oracle, about.Estimates
		cfg.Coordinator = about.Coordinator
		if f.journal != "" && !about.Oracle {
			cfg.CoAdapt = true // the agents were in the jobs, whatever the policy
		}
		if cfg.Profiles != nil && cfg.Interval > 0 {
			cfg.Agent = cfg.Interval // the reference's agents look at their jobs once a round
		}
		if about.Events && !c.Flags().Changed("interval") {
			cfg.Interval = 0
		}
		f.faults.apply(&cfg)
		save, err := f.goodput.apply(&cfg, about)
		if err != nil {
			return err
		}
		done, err := f.one(c, cfg, w, out)
		if err != nil {
			return err
		}
		runs = append(runs, done)
		if save != nil {
			if err := save(); err != nil {
				return err
			}
		}
	}
	if f.journal != "" {
		var results []*sim.Result
		for _, r := range runs {
			results = append(results, r.result)
		}
		sim.AverageAlike(results...)
	}
	if out != nil {
		if err := out.write(runs); err != nil {
			return err
		}
	}
	if f.json {
		return printJSON(c.OutOrStdout(), runs)
	}
	printTable(c.OutOrStdout(), runs)
	printFaults(c.OutOrStdout(), runs)
	printHardware(c.OutOrStdout(), runs)
	printPlans(c.OutOrStdout(), runs)
	if f.ledger {
		printLedgers(c.OutOrStdout(), runs)
	}
	if out != nil {
		fmt.Fprintf(c.OutOrStdout(), "\nwrote %s; open %s in a browser\n", f.out, out.path("report.html"))
	}
	return nil
}

// input returns the workload and, of a journal, what really happened.
func (f *simFlags) input(c *cobra.Command, base *sim.Config) (*sim.Workload, []finishedRun, error) {
	if f.journal == "" {
		w, err := f.readWorkload(c, base.Cluster)
		return w, nil, err
	}
	past, err := f.replay(c, base)
	if err != nil {
		return nil, nil, err
	}
	return &past.Workload, []finishedRun{{result: past.Was}}, nil
}

func (f *simFlags) readWorkload(c *cobra.Command, cluster *sched.Cluster) (*sim.Workload, error) {
	if strings.HasPrefix(f.workload.path, genPrefix) {
		return generate(f.workload.path, f.seed, cluster)
	}
	return f.workload.read(c)
}

// config is what all runs have in common.
func (f *simFlags) config(c *cobra.Command) (sim.Config, error) {
	cfg := sim.Config{
		Seed: f.seed, Interval: f.interval.D(), Until: f.until.D(), Retry: f.retry.D(),
		Agent: f.agent.D(), Noise: f.noise, Estimates: sim.Estimates(f.estimates),
		LengthError: f.lengthError, NoLengths: f.noLengths, Restart: f.restart.D(),
		Plain: f.plain, Unprotected: f.unprotected, Suspends: f.suspend, Checkpoint: f.checkpoint.D(), Optimistic: f.optimistic,
		Sharing: &sim.Sharing{Scatter: true},
		Stop:    func() bool { return c.Context().Err() != nil },
	}
	err := cfg.Estimates.Check()
	if err != nil {
		return cfg, usageError{fmt.Errorf("--estimates: %w", err)}
	}
	if cfg.Cluster, err = f.cluster.read(); err != nil {
		return cfg, err
	}
	if cfg.Zoo, err = readZoo(f.zoo); err != nil {
		return cfg, err
	}
	if cfg.Hardware, err = f.faults.readHardware(f.seed); err != nil {
		return cfg, fmt.Errorf("--failures: %w", err)
	}
	if f.profiles != "" {
		if cfg.Profiles, err = profile.Read(os.DirFS(f.profiles)); err != nil {
			return cfg, fmt.Errorf("read profiles %s: %w", f.profiles, err)
		}
	}
	if f.plans != "" {
		if cfg.Plans, err = profile.ReadPlans(os.DirFS(f.plans)); err != nil {
			return cfg, fmt.Errorf("read plans %s: %w", f.plans, err)
		}
	}
	if f.throughputs != "" {
		if cfg.Throughputs, err = readThroughputs(f.throughputs); err != nil {
			return cfg, fmt.Errorf("read throughputs %s: %w", f.throughputs, err)
		}
	}
	switch f.interference {
	case "auto":
		cfg.Interference = sim.PerModel
		if f.profiles != "" || f.plans != "" {
			cfg.Interference = 0
		}
	default:
		if _, err := fmt.Sscanf(f.interference, "%g", &cfg.Interference); err != nil || !(cfg.Interference >= 0 && cfg.Interference < 1) {
			return cfg, usagef("--interference %q: want auto, or a number from 0 to below 1", f.interference)
		}
	}
	return cfg, nil
}

func readThroughputs(file string) (*sim.Throughputs, error) {
	r, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return trace.ReadThroughputs(r)
}

func readZoo(folder string) (*zoo.Zoo, error) {
	z, err := zoo.Builtin()
	if err != nil {
		return nil, err
	}
	if folder != "" {
		if err := z.Extend(os.DirFS(folder)); err != nil {
			return nil, fmt.Errorf("read zoo %s: %w", folder, err)
		}
	}
	return z, nil
}

func (f *simFlags) build() ([]sched.Policy, error) {
	table := policy.Builtin()
	var out []sched.Policy
	for i, spec := range f.policies {
		spec, err := f.over(strings.TrimSpace(spec))
		if err != nil {
			return nil, err
		}
		p, err := table.New(spec)
		if err != nil {
			return nil, usageError{err}
		}
		f.policies[i] = spec
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, usagef("--policy is empty; want one or more of %s", strings.Join(table.Names(), ", "))
	}
	return out, nil
}

// finishedRun is one line of a comparison.
type finishedRun struct {
	result *sim.Result
	timing *sim.Timing
}

// one simulates one policy.
func (f *simFlags) one(c *cobra.Command, cfg sim.Config, w *sim.Workload, out *output) (finishedRun, error) {
	b := progress.New(c.ErrOrStderr())
	defer b.Clear()
	cfg.Progress = showRun(b, cfg.Name)
	if f.timing {
		began := time.Now()
		cfg.Elapsed = func() time.Duration { return time.Since(began) }
	}
	var log *decisionLog
	if out != nil {
		var err error
		if log, err = out.decisionLog(cfg.Name); err != nil {
			return finishedRun{}, err
		}
		cfg.Log = log.write
	}
	res, timing, err := sim.Run(cfg, w)
	if log != nil {
		err = errors.Join(err, log.close())
	}
	if err != nil {
		return finishedRun{}, fmt.Errorf("policy %s: %w", cfg.Name, err)
	}
	run := finishedRun{result: res}
	if f.timing {
		run.timing = &timing
	}
	return run, nil
}

// jsonRun is one run in the --json output: the summary, and what it cost.
type jsonRun struct {
	sim.Summary
	*sim.Timing
}

func printJSON(w io.Writer, runs []finishedRun) error {
	out := struct {
		Version int       `json:"version"`
		Runs    []jsonRun `json:"runs"`
	}{Version: sim.ResultVersion}
	for _, r := range runs {
		out.Runs = append(out.Runs, jsonRun{r.result.Summary, r.timing})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(out)
}
