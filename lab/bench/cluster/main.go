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
	"os"
	"os/signal"
	"path/filepath"
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

	scheduler string
	policies  []string
	operator  string // path of the program; empty: built
	extra     []string
	peer      peer
	bare      bool // without a controller manager
	quiet     time.Duration
	limit     time.Duration

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
	schedulerDefault = "kube-scheduler"
	schedulerPeer    = "peer"
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
	f.StringVar(&o.input.kind, "kind", kindTrainingJob, "what is submitted: trainingjob, or job (plain batch/v1 Jobs)")
	f.StringVar(&o.gang, "gang", "", "`PODSxGPUS` of every job, such as 512x8, instead of the mix")
	f.StringSliceVar(&o.rules, "require", nil, "with --gang: zone, rack or machine that its pods share, or LEVEL/GPUS for segments, such as zone,rack/128")
	f.DurationVar(&o.input.runFor, "run-for", 20*time.Second, "how long pods run, with churn")
	f.Uint64Var(&o.input.seed, "seed", 1, "seed of the order of the jobs")
	f.Float64Var(&o.rate, "rate", 0, "jobs submitted per second; 0: as fast as the API server accepts them")
	f.StringSliceVar(&o.policies, "policy", []string{"fifo"}, "Fairway policies, each in a run of its own")
	f.StringVar(&o.scheduler, "scheduler", schedulerFairway, "fairway, kube-scheduler (no gangs; shows the limit of the API server), or peer (see README.md)")
	f.StringVar(&o.operator, "operator", "", "`file` of the fairway-operator program (default: built from this checkout)")
	f.StringArrayVar(&o.extra, "operator-config", nil, "line of the operator's configuration, such as 'pods: {rendezvous: ip}'; may be repeated")
	f.StringVar(&o.peer.command, "peer-command", "", "command that runs the peer, by sh -c, with KUBECONFIG set")
	f.StringArrayVar(&o.peer.apply, "peer-apply", nil, "`file` of manifests that the peer needs; may be repeated")
	f.StringVar(&o.input.scheduler, "peer-scheduler", "", "schedulerName of the peer's pods")
	f.StringToStringVar(&o.input.labels, "peer-labels", nil, "labels that give Jobs to the peer, such as kueue.x-k8s.io/queue-name=all")
	f.StringToStringVar(&o.input.podLabels, "peer-pod-labels", nil, "labels of the pods; {job} and {pods} stand for the name and size of the gang")
	f.StringToStringVar(&o.input.podAnnotations, "peer-pod-annotations", nil, "annotations of the pods, with the same placeholders")
	f.BoolVar(&o.input.suspend, "peer-suspend", false, "create Jobs suspended, for a peer that resumes them")
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
	case len(o.nodes) == 0 || len(o.modes) == 0 || len(o.policies) == 0:
		return errors.New("--nodes, --mode and --policy must not be empty")
	case o.jobs < 1 || o.jobs > 100_000:
		return fmt.Errorf("--jobs %d; want 1 to 100000", o.jobs)
	case o.gpus < 1 || o.gpus > 64:
		return fmt.Errorf("--gpus %d; want 1 to 64", o.gpus)
	case o.rate < 0:
		return fmt.Errorf("--rate %g; want 0 or more", o.rate)
	case o.input.kind != kindTrainingJob && o.input.kind != kindJob:
		return fmt.Errorf("--kind %q; want trainingjob or job", o.input.kind)
	case o.scheduler != schedulerFairway && o.input.kind != kindJob:
		return fmt.Errorf("--scheduler %s does not support TrainingJobs; use --kind job", o.scheduler)
	case o.input.kind == kindJob && o.bare:
		return errors.New("--bare: Jobs need kube-controller-manager")
	case o.scheduler == schedulerPeer && (o.peer.command == "" || o.input.scheduler == ""):
		return errors.New("--scheduler peer needs --peer-command and --peer-scheduler")
	}
	switch o.scheduler {
	case schedulerFairway, schedulerPeer:
	case schedulerDefault:
		o.input.scheduler = "default-scheduler"
	default:
		return fmt.Errorf("--scheduler %q; want fairway, kube-scheduler or peer", o.scheduler)
	}
	if o.scheduler != schedulerFairway {
		o.policies = []string{o.scheduler}
	}
	return nil
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
	if o.gang == "" || o.input.kind != kindTrainingJob {
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
	if o.scheduler == schedulerFairway && o.operator == "" {
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

// runAll does all runs, up to the first failure.
func (o *options) runAll(ctx context.Context, status io.Writer) (all []*result, err error) {
	for _, policy := range o.policies {
		for _, mode := range o.modes {
			for _, nodes := range o.nodes {
				t := trial{options: o, policy: policy, mode: mode, nodes: nodes, jobs: o.jobsFor(nodes), bar: progress.New(status), status: status}
				t.bar.Interval = 10 * time.Second
				r, err := t.run(ctx)
				if err != nil {
					return all, fmt.Errorf("%s: %w", t.name(), err)
				}
				all = append(all, r)
			}
		}
	}
	return all, nil
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
	if o.scheduler != schedulerFairway {
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
