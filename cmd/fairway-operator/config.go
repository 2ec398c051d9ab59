// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	content "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/otel"
	"github.com/fairway-gpu/fairway/daemon/strictyaml"
	"github.com/fairway-gpu/fairway/kube/nodepool"
	"github.com/fairway-gpu/fairway/kube/nodes"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
	"github.com/fairway-gpu/fairway/sim/autoscale"
)

// config is the configuration file of "fairway-operator run".
type config struct {
	Policy   string         `json:"policy"`
	Notice   sched.Duration `json:"notice"`
	Report   sched.Duration `json:"report"`
	Pace     sched.Duration `json:"pace"`
	API      apiConfig      `json:"api"`
	Metrics  string         `json:"metrics"`
	Health   string         `json:"health"`
	Pprof    string         `json:"pprof"`
	KeyFile  string         `json:"key_file"`
	Leader   leaderConfig   `json:"leader"`
	Client   clientConfig   `json:"client"`
	Nodes    nodesConfig    `json:"nodes"`
	Pods     podsConfig     `json:"pods"`
	Suspend  suspendConfig  `json:"suspend"`
	Scale    scaleConfig    `json:"autoscale"`
	Guard    guard.Config   `json:"guard"`
	Bidders  daemon.Bidders `json:"bidders"`
	Failures failuresConfig `json:"failures"`
	Screen   screenConfig   `json:"screen"`
	Keep     keepConfig     `json:"keep"`
	Log      daemon.Log     `json:"log"`
	Otel     otel.Config    `json:"otel"`
	Price    api.Price      `json:"price"`
}

type apiConfig struct {
	Address string `json:"address"`
	Cert    string `json:"cert"`
	Key     string `json:"key"`
	URL     string `json:"url"`
}

type leaderConfig struct {
	Lease sched.Duration `json:"lease"`
	Renew sched.Duration `json:"renew"`
	Retry sched.Duration `json:"retry"`
}

type clientConfig struct {
	Rate  int `json:"rate"`
	Burst int `json:"burst"`
}

type nodesConfig struct {
	Resources  []string       `json:"resources"`
	RackLabels []string       `json:"rack_labels"`
	Levels     []nodes.Level  `json:"levels"`
	Tolerated  []string       `json:"tolerated"`
	Pin        bool           `json:"pin"`
	Grace      sched.Duration `json:"grace"`
}

type podsConfig struct {
	Rendezvous  string         `json:"rendezvous"`
	Image       string         `json:"image"`
	StartGrace  sched.Duration `json:"start_grace"`
	StartWithin sched.Duration `json:"start_within"`
	LostAfter   sched.Duration `json:"lost_after"`
	Parallel    int            `json:"parallel"`
}

type suspendConfig struct {
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
}

// scaleConfig is the pool of nodes that a cluster autoscaler is asked for.
type scaleConfig struct {
	By     string            `json:"by"`
	Class  string            `json:"class"`
	Rule   autoscale.Rule    `json:"rule"`
	Min    int               `json:"min"`
	Max    int               `json:"max"`
	Every  sched.Duration    `json:"every"`
	Labels map[string]string `json:"labels"`
	GPUs   int               `json:"gpus"`
	Type   sched.GPUType     `json:"gpu_type"`
}

// scaler returns what decides about the number of nodes.
func (c scaleConfig) scaler() (*autoscale.Scaler, error) {
	s := autoscale.Default(max(1, c.Min), c.Max) // without jobs nobody asks it
	s.Rule = c.Rule
	return autoscale.New(s)
}

func (c scaleConfig) validate() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("autoscale.%s = %v; want %s", field, value, want)
	}
	if c.By == "" {
		return nil
	}
	labels := validation.ValidateLabels(c.Labels, field.NewPath("autoscale", "labels")).ToAggregate()
	switch {
	case c.By != nodepool.ByRequests && c.By != nodepool.ByPods:
		return bad("by", c.By, nodepool.ByRequests+", "+nodepool.ByPods+", or nothing")
	case len(content.IsDNS1123Subdomain(c.Class)) > 0:
		return bad("class", c.Class, "the name of a provisioning class")
	case c.Max < 1 || c.Max > 10_000:
		return bad("max", c.Max, "1 to 10000 nodes")
	case c.Min < 0 || c.Min > c.Max:
		return bad("min", c.Min, fmt.Sprintf("0 to max = %d nodes", c.Max))
	case c.Every.D() < time.Second || c.Every.D() > time.Hour:
		return bad("every", c.Every, "1s to 1h")
	case len(c.Labels) == 0:
		return bad("labels", "{}", "the labels by which the nodes of the pool are known, such as karpenter.sh/nodepool: gpu")
	case labels != nil:
		return labels
	case c.GPUs < 1 || c.GPUs > sched.MaxGPUs:
		return bad("gpus", c.GPUs, fmt.Sprintf("the GPUs of a node, 1 to %d", sched.MaxGPUs))
	}
	if _, err := c.scaler(); err != nil {
		return fmt.Errorf("autoscale.%w", errors.Unwrap(err))
	}
	return nil
}

type failuresConfig struct {
	Table string `json:"table"`
}

type screenConfig struct {
	Time sched.Duration `json:"time"`
}

type keepConfig struct {
	Jobs       int         `json:"jobs"`
	Queue      int         `json:"queue"`
	QueueBytes daemon.Size `json:"queue_bytes"`
	Compact    int         `json:"compact"`
}

// The ways in which a gang meets.
const (
	rendezvousDNS = "dns"
	rendezvousIP  = "ip"
)

func defaultConfig() config {
	seconds := func(n int) sched.Duration { return sched.Duration(time.Duration(n) * time.Second) }
	return config{
		Policy: "fairway", Notice: seconds(30), Report: seconds(30), Pace: sched.Duration(loop.DefaultPace),
		API: apiConfig{Address: ":8460"}, Metrics: ":8080", Health: ":8081",
		Leader: leaderConfig{Lease: seconds(3), Renew: sched.Duration(2500 * time.Millisecond), Retry: sched.Duration(400 * time.Millisecond)},
		Client: clientConfig{Rate: 1_000, Burst: 2_000},
		Nodes:  nodesConfig{Grace: seconds(40)},
		Pods:   podsConfig{Rendezvous: rendezvousDNS, StartGrace: seconds(300), StartWithin: seconds(900), LostAfter: seconds(60), Parallel: 16}, Suspend: suspendConfig{Namespace: "fairway-nodes"},
		Scale: scaleConfig{Class: "best-effort-atomic-scale-up.autoscaling.x-k8s.io", Rule: autoscale.Utility, Every: seconds(20), GPUs: 8},
		Guard: guard.Default(), Bidders: daemon.DefaultBidders(), Screen: screenConfig{Time: seconds(300)},
		Keep: keepConfig{Jobs: 5_000, Queue: 100_000, QueueBytes: 256 << 20, Compact: 20_000},
		Log:  daemon.Log{Level: "info", Format: "json"},
	}
}

func readConfig(path string) (config, error) {
	c := defaultConfig()
	if err := strictyaml.ReadFile(path, &c, c.validate); err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	return c, nil
}

func (c *config) validate() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("%s = %v; want %s", field, value, want)
	}
	for _, d := range []struct {
		field       string
		value       sched.Duration
		least, most time.Duration
	}{
		{"notice", c.Notice, time.Second, api.MaxGracePeriod}, {"report", c.Report, time.Second, time.Hour},
		{"pace", c.Pace, time.Millisecond, time.Minute}, {"nodes.grace", c.Nodes.Grace, time.Second, time.Hour},
		{"pods.start_grace", c.Pods.StartGrace, time.Second, 24 * time.Hour}, {"pods.start_within", c.Pods.StartWithin, time.Second, 24 * time.Hour}, {"pods.lost_after", c.Pods.LostAfter, time.Second, 24 * time.Hour},
		{"screen.time", c.Screen.Time, 0, api.MaxScreen},
		{"leader.lease", c.Leader.Lease, 2 * time.Second, 10 * time.Minute},
		// The Lease object holds whole seconds, and the others wait for no more than that.
		{"leader.renew", c.Leader.Renew, time.Second, c.Leader.Lease.D().Truncate(time.Second) - time.Millisecond},
		{"leader.retry", c.Leader.Retry, 100 * time.Millisecond, c.Leader.Renew.D() * 2 / 3},
	} {
		if d.value.D() < d.least || d.value.D() > d.most {
			return bad(d.field, d.value, fmt.Sprintf("%s to %s", sched.Duration(d.least), sched.Duration(d.most)))
		}
	}
	switch {
	case (c.API.Cert == "") != (c.API.Key == ""):
		return bad("api.cert, api.key", []string{c.API.Cert, c.API.Key}, "both or none")
	case c.Client.Rate < 1 || c.Client.Burst < c.Client.Rate:
		return bad("client", fmt.Sprintf("rate %d, burst %d", c.Client.Rate, c.Client.Burst), "a rate of at least 1 and a burst that is not less")
	case c.Pods.Rendezvous != rendezvousDNS && c.Pods.Rendezvous != rendezvousIP:
		return bad("pods.rendezvous", c.Pods.Rendezvous, "dns or ip")
	case c.Pods.Parallel < 1 || c.Pods.Parallel > 1_000:
		return bad("pods.parallel", c.Pods.Parallel, "1 to 1000")
	case c.Keep.QueueBytes < 1<<20:
		return bad("keep.queue_bytes", c.Keep.QueueBytes, "1MiB or more")
	case c.Keep.Jobs < 1 || c.Keep.Queue < 1 || c.Keep.Compact < 100:
		return bad("keep", fmt.Sprintf("jobs %d, queue %d, compact %d", c.Keep.Jobs, c.Keep.Queue, c.Keep.Compact), "positive numbers, compact at least 100")
	}
	if _, _, err := net.SplitHostPort(c.API.Address); err != nil {
		return bad("api.address", c.API.Address, "host:port, such as :8460")
	}
	if _, _, err := net.SplitHostPort(c.Suspend.Address); c.Suspend.Address != "" && err != nil {
		return bad("suspend.address", c.Suspend.Address, "host:port, such as :8461, or nothing")
	}
	if c.Suspend.Address != "" && c.Suspend.Namespace == "" {
		return bad("suspend.namespace", `""`, "the namespace of the agents")
	}
	if host, _, err := net.SplitHostPort(c.Pprof); c.Pprof != "" && (err != nil || !net.ParseIP(host).IsLoopback()) {
		return bad("pprof", c.Pprof, "an address of this machine alone, such as 127.0.0.1:6060: profiles tell more than metrics")
	}
	if c.Failures.Table != "" && !filepath.IsAbs(c.Failures.Table) {
		return bad("failures.table", c.Failures.Table, "an absolute path, or nothing")
	}
	if err := nodes.CheckLevels(c.Nodes.Levels); err != nil {
		return fmt.Errorf("nodes.%w", err)
	}
	if _, err := policy.Builtin().NewLive(c.Policy); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if err := c.Guard.Validate(); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	return errors.Join(c.Scale.validate(), c.Bidders.Validate(), c.Log.Validate(), c.Otel.Validate(), c.Price.Validate())
}

// url is where pods of any namespace reach the API.
func (c *config) url(namespace string) string {
	if c.API.URL != "" {
		return c.API.URL
	}
	scheme := "http"
	if c.API.Cert != "" {
		scheme = "https"
	}
	_, port, _ := net.SplitHostPort(c.API.Address) // validated
	return fmt.Sprintf("%s://%s.%s.svc:%s", scheme, serviceName, namespace, port)
}

// serviceName is the Service of the API in the chart.
const serviceName = "fairway"

//go:embed operator.yaml
var defaultConfigText string

func newConfigCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Show or check the configuration"}
	c.AddCommand(&cobra.Command{
		Use: "default", Short: "Print the defaults, with what each field means", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := io.WriteString(c.OutOrStdout(), defaultConfigText)
			return err
		},
	}, &cobra.Command{
		Use: "check FILE", Short: "Say whether a configuration file is right", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := readConfig(args[0]); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is right.\n", args[0])
			return nil
		},
	})
	return c
}
