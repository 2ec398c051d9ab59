// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/daemon/notify"
	"github.com/fairway-gpu/fairway/daemon/otel"
	"github.com/fairway-gpu/fairway/daemon/strictyaml"
	"github.com/fairway-gpu/fairway/local"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
)

// daemonConfig is the configuration file of "fairway up".
type daemonConfig struct {
	Data    string         `json:"data"`    // folder of everything the daemon keeps
	Policy  string         `json:"policy"`  // of a new data folder; later `fairway policy set` changes it
	Slots   int            `json:"slots"`   // CPU slots to offer instead of GPUs; 0: the GPUs, or a slot for each core
	Name    string         `json:"name"`    // of this machine; empty: its host name
	Notice  sched.Duration `json:"notice"`  // between the request to stop and the kill
	Report  sched.Duration `json:"report"`  // how often agents report
	Pace    sched.Duration `json:"pace"`    // least time between two decisions
	Socket  socketConfig   `json:"socket"`  // for this machine
	Listen  listenConfig   `json:"listen"`  // for the network and the browser
	Guard   guard.Config   `json:"guard"`   // bounds on preemption
	Bidders daemon.Bidders `json:"bidders"` // programs that bid for apps
	Keep    keepConfig     `json:"keep"`    // how much of the past stays
	Log     daemon.Log     `json:"log"`     // of the daemon itself
	Tenants []sched.Tenant `json:"tenants"` // declared at every start
	Notify  notify.Config  `json:"notify"`  // who is told what happens to jobs

	Failures   failuresConfig   `json:"failures"`   // why jobs fail
	Screen     screenConfig     `json:"screen"`     // of new gangs
	GPU        gpuConfig        `json:"gpu"`        // that jobs share
	Suspend    bool             `json:"suspend"`    // jobs that cannot save their work are suspended in place where they have to make room
	Limits     limitsConfig     `json:"limits"`     // of each job
	Containers containersConfig `json:"containers"` // of jobs with an image
	Warm       warmConfig       `json:"warm"`       // starts of Python programs
	Otel       otel.Config      `json:"otel"`       // traces of jobs
	Price      api.Price        `json:"price"`      // of the GPUs, for "fairway usage" and reports
}

type warmConfig struct {
	Most int            `json:"most"` // interpreters with torch that wait; 0: none
	Idle sched.Duration `json:"idle"` // one that is not used for so long ends
}

type containersConfig struct {
	Runtime string   `json:"runtime"` // auto, podman, apptainer, docker or off
	Mounts  []string `json:"mounts"`  // folders that every container sees at the same path
}

func (c *containersConfig) validate() error {
	if !slices.Contains(local.Runtimes, c.Runtime) {
		return fmt.Errorf("containers.runtime = %.40q; want %s", c.Runtime, strings.Join(local.Runtimes, ", "))
	}
	for i, path := range c.Mounts {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" || strings.ContainsAny(path, ",:\"\n") {
			return fmt.Errorf("containers.mounts[%d] = %.80q; want an absolute path below /, without commas, colons and quotes", i, path)
		}
	}
	return nil
}

type limitsConfig struct {
	Processes     int  `json:"processes"`      // and threads, for each GPU or slot of the job; 0: no limit
	NewPrivileges bool `json:"new_privileges"` // jobs may run set-user-ID programs
	AllGPUs       bool `json:"all_gpus"`       // jobs may open the GPUs of others
}

type failuresConfig struct {
	Table string `json:"table"` // file of signatures that go before the built-in ones
}

type screenConfig struct {
	Time sched.Duration `json:"time"` // a new gang proves itself for so long; 0s: none has to
}

type gpuConfig struct {
	MPS     string `json:"mps"`     // auto, on or off
	Threads int    `json:"threads"` // percent of a GPU for each job under MPS; 0: all
}

type socketConfig struct {
	Path   string         `json:"path"`   // empty: fairway.sock in the data folder
	Agents string         `json:"agents"` // socket of the agents of jobs; empty: agent.sock in the data folder
	Mode   string         `json:"mode"`   // octal; empty: 0600, or 0660 with a group
	Group  string         `json:"group"`
	Tenant sched.TenantID `json:"tenant"` // of whoever comes through it
}

type listenConfig struct {
	Address       string   `json:"address"` // host:port; empty: only the socket
	Cert          string   `json:"cert"`
	Key           string   `json:"key"`
	Hosts         []string `json:"hosts"`          // further names a browser may use for a loopback address
	PublicMetrics bool     `json:"public_metrics"` // /metrics without a token
}

type keepConfig struct {
	Jobs        int            `json:"jobs"`        // ended jobs in memory
	Queue       int            `json:"queue"`       // most jobs that wait or run
	QueueBytes  daemon.Size    `json:"queue_bytes"` // of them, and of the ended jobs in memory
	Journal     daemon.Size    `json:"journal"`     // archive of the journal; 0: all of it
	Log         daemon.Size    `json:"log"`         // of one process of a job
	Logs        daemon.Size    `json:"logs"`        // of all ended attempts
	Attempts    int            `json:"attempts"`    // ended attempts whose logs stay
	Checkpoints sched.Duration `json:"checkpoints"` // of ended jobs
	Compact     int            `json:"compact"`     // records of the journal between two snapshots
}

func defaultConfig() daemonConfig {
	return daemonConfig{
		Data: defaultDataDir(), Policy: "fairway", Notice: sched.Duration(30 * time.Second),
		Report: sched.Duration(30 * time.Second), Pace: sched.Duration(50 * time.Millisecond),
		Socket: socketConfig{Tenant: "default"},
		Listen: listenConfig{Address: "127.0.0.1:8460"},
		Guard:  guard.Default(), Bidders: daemon.DefaultBidders(), Notify: notify.Default(),
		Keep: keepConfig{
			Jobs: 5_000, Queue: 100_000, QueueBytes: 256 << 20, Journal: 1 << 30, Log: 64 << 20, Logs: 8 << 30, Attempts: 1_000,
			Checkpoints: sched.Duration(7 * 24 * time.Hour), Compact: 20_000,
		},
		Log:    daemon.Log{Level: "info", Format: "text"},
		Screen: screenConfig{Time: sched.Duration(5 * time.Minute)},
		GPU:    gpuConfig{MPS: local.MPSAuto}, Suspend: true,
		Limits: limitsConfig{Processes: 8192}, Containers: containersConfig{Runtime: local.RuntimeAuto},
		Warm: warmConfig{Idle: sched.Duration(30 * time.Minute)},
	}
}

// readConfig reads a configuration file over the defaults.
func readConfig(path string) (daemonConfig, error) {
	c := defaultConfig()
	if err := strictyaml.ReadFile(path, &c, c.validate); err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	return c, nil
}

func (c *daemonConfig) validate() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("%s = %v; want %s", field, value, want)
	}
	switch {
	case !filepath.IsAbs(c.Data):
		return bad("data", c.Data, "an absolute path")
	case c.Slots < 0 || c.Slots > sched.MaxGPUs:
		return bad("slots", c.Slots, fmt.Sprintf("0 (the GPUs) to %d", sched.MaxGPUs))
	case c.Notice.D() < time.Second || c.Notice.D() > time.Hour:
		return bad("notice", c.Notice, "1s to 1h")
	case c.Report.D() < time.Second || c.Report.D() > time.Hour:
		return bad("report", c.Report, "1s to 1h")
	case c.Pace.D() < time.Millisecond || c.Pace.D() > time.Minute:
		return bad("pace", c.Pace, "1ms to 1m")
	case c.Socket.Path != "" && !filepath.IsAbs(c.Socket.Path):
		return bad("socket.path", c.Socket.Path, "an absolute path, or nothing")
	case c.Socket.Agents != "" && (!filepath.IsAbs(c.Socket.Agents) || c.agentPath() == c.socketPath()):
		return bad("socket.agents", c.Socket.Agents, "an absolute path other than socket.path, or nothing")
	case (c.Listen.Cert == "") != (c.Listen.Key == ""):
		return bad("listen.cert, listen.key", []string{c.Listen.Cert, c.Listen.Key}, "both or none")
	case c.Failures.Table != "" && !filepath.IsAbs(c.Failures.Table):
		return bad("failures.table", c.Failures.Table, "an absolute path, or nothing")
	case c.Screen.Time < 0 || c.Screen.Time.D() > api.MaxScreen:
		return bad("screen.time", c.Screen.Time, "0s (none) to "+sched.Duration(api.MaxScreen).String())
	case !slices.Contains([]string{local.MPSAuto, local.MPSOn, local.MPSOff}, c.GPU.MPS):
		return bad("gpu.mps", c.GPU.MPS, "auto, on or off")
	case c.Limits.Processes < 0:
		return bad("limits.processes", c.Limits.Processes, "a number, or 0 (no limit)")
	case c.Warm.Most < 0 || c.Warm.Most > 64:
		return bad("warm.most", c.Warm.Most, "0 (no warm starts) to 64")
	case c.Warm.Idle.D() < time.Minute:
		return bad("warm.idle", c.Warm.Idle, "1m or more")
	case c.GPU.Threads < 0 || c.GPU.Threads > 100:
		return bad("gpu.threads", c.GPU.Threads, "0 (no limit) to 100 percent")
	}
	if err := errors.Join(c.Keep.validate(), c.Containers.validate(), c.Price.Validate()); err != nil {
		return err
	}
	if _, err := strconv.ParseUint(c.Socket.Mode, 8, 9); err != nil && c.Socket.Mode != "" {
		return bad("socket.mode", c.Socket.Mode, "an octal mode such as 0660")
	}
	if _, err := policy.Builtin().NewLive(c.Policy); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if err := c.Guard.Validate(); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	if err := errors.Join(c.Bidders.Validate(), c.Log.Validate(), c.Notify.Validate(), c.Otel.Validate()); err != nil {
		return err
	}
	for i, t := range c.Tenants {
		if err := t.Validate(); err != nil {
			return fmt.Errorf("tenants[%d]: %w", i, err)
		}
	}
	if err := sched.CheckTenants(c.Tenants); err != nil {
		return fmt.Errorf("tenants: %w", err)
	}
	return nil
}

func (k *keepConfig) validate() error {
	for _, f := range []struct {
		name         string
		value, least int64
	}{
		{"jobs", int64(k.Jobs), 1}, {"queue", int64(k.Queue), 1}, {"queue_bytes", int64(k.QueueBytes), 1 << 20}, {"journal", int64(k.Journal), 0}, {"log", int64(k.Log), 4096},
		{"logs", int64(k.Logs), 0}, {"attempts", int64(k.Attempts), 1}, {"checkpoints", int64(k.Checkpoints), 0}, {"compact", int64(k.Compact), 100},
	} {
		if f.value < f.least {
			return fmt.Errorf("keep.%s = %d; want %d or more", f.name, f.value, f.least)
		}
	}
	return nil
}

func (c *daemonConfig) socketPath() string {
	return cmp.Or(c.Socket.Path, filepath.Join(c.Data, "fairway.sock"))
}

// warnings returns what is not safe about the configuration, or will not work for some.
func (c *daemonConfig) warnings() []string {
	out := c.Listen.warnings()
	if os.Geteuid() != 0 {
		return out // all jobs run as the daemon's user
	}
	for _, dir := range closedFolders(filepath.Join(c.machinePath(), "jobs"), filepath.Dir(c.agentPath())) {
		out = append(out, fmt.Sprintf("jobs of other users cannot reach their folders or their agent's socket: %s is closed to them; run \"chmod o+x %s\", or choose another data folder", dir, dir))
	}
	return out
}

// closedFolders returns those on the way to the paths that other users cannot walk through.
func closedFolders(paths ...string) (closed []string) {
	for _, dir := range paths {
		for ; dir != "/"; dir = filepath.Dir(dir) {
			if info, err := os.Stat(dir); err == nil && info.Mode()&0o001 == 0 && !slices.Contains(closed, dir) {
				closed = append(closed, dir)
			}
		}
	}
	return closed
}

func (c *listenConfig) warnings() []string {
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil || c.Cert != "" || host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return nil
	}
	return []string{fmt.Sprintf("listen.address %s can be reached from other machines without TLS: tokens can be read on the network; set listen.cert and listen.key, or listen on 127.0.0.1", c.Address)}
}

// machinePath is the folder of what runs on this machine.
func (c *daemonConfig) machinePath() string { return filepath.Join(c.Data, "machine") }

// agentPath is where the agents of jobs report. Jobs of all users must be able to
// walk there.
func (c *daemonConfig) agentPath() string {
	return cmp.Or(c.Socket.Agents, filepath.Join(c.Data, "agent.sock"))
}

//go:embed fairway.yaml
var defaultConfigFile string

// defaultConfigText is the configuration file that says what the defaults are;
// a test keeps it true.
func defaultConfigText() string { return defaultConfigFile }
