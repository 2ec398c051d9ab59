// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command cluster measures Fairway on Kubernetes: a real control plane, simulated
// GPU nodes, the real operator, and thousands of jobs. See README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/fairway-gpu/fairway/lab/progress"
)

// options is the command line.
type options struct {
	nodes []int
	gpus  int // of a node
	jobs  int
	input input
	gang  string   // PODSxGPUS
	rules []string // LEVEL or LEVEL/GPUS
	modes []string
	rate  float64 // jobs submitted per second; 0: as fast as the API server accepts them

	schedulers []string
	kinds      []string // of the objects for Fairway
	policies   []string // of Fairway
	operator   string   // path of the program; empty: built
	extra      []string
	bare       bool // without a controller manager
	quiet      time.Duration
	limit      time.Duration

	out    string
	bounds string
	asJSON bool

	profile      bool
	profileAfter time.Duration
}

const (
	modeFill  = "fill"
	modeChurn = "churn"

	schedulerFairway = "fairway"
)

// errBeyond says that a figure is out of bounds.
var errBeyond = errors.New("out of bounds")

func main() {
	log.SetLogger(logr.Discard()) // without a logger, clients log a warning
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:           "cluster [flags]",
		Short:         "Measure Fairway on a cluster of simulated GPU nodes",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.IntSliceVar(&o.nodes, "nodes", []int{1000}, "number of nodes; several, such as 100,300,1000, show growth")
	f.IntVar(&o.gpus, "gpus", 8, "GPUs per node")
	f.IntVar(&o.jobs, "jobs", 5000, "jobs for the largest number of nodes; fewer nodes get fewer jobs, in proportion")
	f.StringSliceVar(&o.modes, "mode", []string{modeFill, modeChurn}, "fill: jobs run forever until the cluster is full; churn: jobs end, and all of them run")
	f.StringSliceVar(&o.kinds, "kind", []string{kindTrainingJob}, "what is submitted to Fairway: trainingjob, or job (plain batch/v1 Jobs); each in a run of its own")
	f.StringVar(&o.gang, "gang", "", "`PODSxGPUS` of every job, such as 512x8, instead of the mix")
	f.StringSliceVar(&o.rules, "require", nil, "with --gang: zone, rack or machine that its pods share, or LEVEL/GPUS for segments, such as zone,rack/128")
	f.DurationVar(&o.input.runFor, "run-for", 20*time.Second, "how long pods run, with churn")
	f.Uint64Var(&o.input.seed, "seed", 1, "seed of the order of the jobs")
	f.Float64Var(&o.rate, "rate", 0, "jobs submitted per second; 0: as fast as the API server accepts them")
	f.StringSliceVar(&o.policies, "policy", []string{"fifo"}, "Fairway policies, each in a run of its own")
	f.StringSliceVar(&o.schedulers, "scheduler", []string{schedulerFairway}, "fairway, kube-scheduler (no gangs; shows the limit of the API server), kueue or volcano; several run one after the other")
	f.StringVar(&o.operator, "operator", "", "`file` of the fairway-operator program (default: built from this checkout)")
	f.StringArrayVar(&o.extra, "operator-config", nil, "line of the operator's configuration, such as 'pods: {rendezvous: ip}'; may be repeated")
	f.BoolVar(&o.bare, "bare", false, "run without kube-controller-manager; TrainingJobs do not need it")
	f.DurationVar(&o.quiet, "quiet", 10*time.Second, "the cluster counts as full when no job was bound for this long")
	f.DurationVar(&o.limit, "limit", 10*time.Minute, "time limit of one run")
	f.StringVar(&o.out, "out", filepath.Join("out", "cluster"), "`folder` for figures, plots, profiles and logs")
	f.StringVar(&o.bounds, "bounds", "", "`file` of bounds; a figure out of bounds is an error (default: lab/bench/cluster/bounds.json)")
	f.BoolVar(&o.asJSON, "json", false, "print JSON instead of a table")
	f.BoolVar(&o.profile, "profile", false, "take CPU profiles of the operator and the API server, and one of the operator's memory")
	f.DurationVar(&o.profileAfter, "profile-after", 0, "delay from the first submission to the CPU profiles")
	return c
}

func (o *options) validate() error {
	for _, n := range o.nodes {
		if n < 1 || n > 10_000 {
			return fmt.Errorf("--nodes %d; want 1 to 10000", n)
		}
	}
	if err := o.shape(); err != nil {
		return err
	}
	for _, m := range o.modes {
		if m != modeFill && m != modeChurn {
			return fmt.Errorf("--mode %q; want fill or churn", m)
		}
	}
	switch {
	case len(o.nodes) == 0 || len(o.modes) == 0 || len(o.policies) == 0 || len(o.schedulers) == 0 || len(o.kinds) == 0:
		return errors.New("--nodes, --mode, --policy, --scheduler and --kind must not be empty")
	case o.jobs < 1 || o.jobs > 100_000:
		return fmt.Errorf("--jobs %d; want 1 to 100000", o.jobs)
	case o.gpus < 1 || o.gpus > 64:
		return fmt.Errorf("--gpus %d; want 1 to 64", o.gpus)
	case o.rate < 0:
		return fmt.Errorf("--rate %g; want 0 or more", o.rate)
	}
	for _, kind := range o.kinds {
		if kind != kindTrainingJob && kind != kindJob {
			return fmt.Errorf("--kind %q; want trainingjob or job", kind)
		}
	}
	for _, name := range o.schedulers {
		if _, known := peers[name]; !known && name != schedulerFairway {
			return fmt.Errorf("--scheduler %q; want %s, %s", name, schedulerFairway, strings.Join(slices.Sorted(maps.Keys(peers)), ", "))
		}
	}
	if o.bare && slices.ContainsFunc(o.contenders(), func(c contender) bool { return c.kind != kindTrainingJob }) {
		return errors.New("--bare: only TrainingJobs do without kube-controller-manager")
	}
	return nil
}

// contender is a scheduler in one of its variants.
type contender struct {
	scheduler string // fairway, or one of the peers
	policy    string // of Fairway
	kind      string // of the objects that it is given
}

func (c contender) String() string {
	return strings.Join(slices.DeleteFunc([]string{c.scheduler, c.policy, c.kind}, func(s string) bool { return s == "" }), "-")
}

// contenders are run one after the other.
func (o *options) contenders() (out []contender) {
	for _, name := range o.schedulers {
		if p, known := peers[name]; known {
			out = append(out, contender{scheduler: name, kind: p.kind})
			continue
		}
		for _, kind := range o.kinds {
			for _, policy := range o.policies {
				out = append(out, contender{scheduler: name, policy: policy, kind: kind})
			}
		}
	}
	return out
}

// shape reads what every job looks like.
func (o *options) shape() (err error) {
	if o.gang != "" {
		if o.input.gang, err = parseGang(o.gang); err != nil {
			return err
		}
	}
	if o.input.rules, err = parseRules(o.rules); err != nil {
		return err
	}
	if len(o.rules) == 0 {
		return nil
	}
	if o.gang == "" || !slices.Equal(o.schedulers, []string{schedulerFairway}) || !slices.Equal(o.kinds, []string{kindTrainingJob}) {
		return errors.New("--require needs --gang and TrainingJobs")
	}
	o.extra = append(o.extra, levelsConfig)
	return nil
}

// run does all runs and prints their figures.
func (o *options) run(ctx context.Context, out, status io.Writer) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("make folder for results: %w", err)
	}
	if slices.Contains(o.schedulers, schedulerFairway) && o.operator == "" {
		fmt.Fprintln(status, "building the operator")
		var err error
		if o.operator, err = buildOperator(ctx, o.out); err != nil {
			return err
		}
	}
	all, failed := o.runAll(ctx, status)
	if len(all) == 0 {
		return failed
	}
	if err := errors.Join(failed, o.print(out, all)); err != nil {
		return err
	}
	return o.check(out, all)
}

// runAll does all runs. A failure does not keep the others from running.
func (o *options) runAll(ctx context.Context, status io.Writer) (all []*result, failed error) {
	for _, c := range o.contenders() {
		for _, mode := range o.modes {
			for _, nodes := range o.nodes {
				t := trial{options: o, contender: c, mode: mode, nodes: nodes, jobs: o.jobsFor(nodes), bar: progress.New(status), status: status}
				t.bar.Interval = 10 * time.Second
				r, err := t.run(ctx)
				if ctx.Err() != nil {
					return all, errors.Join(failed, ctx.Err())
				}
				if err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s: %w", t.name(), err))
					continue
				}
				all = append(all, r)
			}
		}
	}
	return all, failed
}

// jobsFor scales the number of jobs with the number of nodes.
func (o *options) jobsFor(nodes int) int {
	largest := 0
	for _, n := range o.nodes {
		largest = max(largest, n)
	}
	return max(1, o.jobs*nodes/largest)
}

func (o *options) print(out io.Writer, all []*result) error {
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encode figures: %w", err)
	}
	if err := os.WriteFile(filepath.Join(o.out, "figures.json"), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	if err := plot(o.out, all); err != nil {
		return err
	}
	if o.asJSON {
		_, err = fmt.Fprintf(out, "%s\n", data)
		return err
	}
	printTable(out, all)
	return nil
}

// check compares figures with their bounds.
func (o *options) check(out io.Writer, all []*result) error {
	if !slices.Contains(o.schedulers, schedulerFairway) {
		return nil
	}
	limits, err := readBounds(o.bounds)
	if err != nil {
		return err
	}
	var faults []string
	compared := 0
	for _, r := range all {
		if r.Nodes == limits.Nodes && r.Jobs == limits.Jobs && r.Kind == limits.Kind {
			compared++
			faults = append(faults, limits.faults(r)...)
		}
	}
	switch {
	case len(faults) > 0:
		return fmt.Errorf("%w: %s", errBeyond, strings.Join(faults, "; "))
	case o.asJSON:
	case compared == 0:
		fmt.Fprintf(out, "\nThere are no bounds for these runs, only for %d nodes and %d objects of kind %s.\n", limits.Nodes, limits.Jobs, limits.Kind)
	default:
		fmt.Fprintln(out, "\nAll figures that have bounds are within them.")
	}
	return nil
}
