// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon"
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

	Failures failuresConfig `json:"failures"` // why jobs fail
	Screen   screenConfig   `json:"screen"`   // of new gangs
	GPU      gpuConfig      `json:"gpu"`      // that jobs share
	Limits   limitsConfig   `json:"limits"`   // of each job
}

type limitsConfig struct {
	Processes     int  `json:"processes"`      // and threads, for each GPU or slot of the job; 0: no limit
	NewPrivileges bool `json:"new_privileges"` // jobs may run set-user-ID programs
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
	Path   string         `json:"path"` // empty: fairway.sock in the data folder
	Mode   string         `json:"mode"` // octal
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
	Journal     sizeText       `json:"journal"`     // archive of the journal; 0: all of it
	Log         sizeText       `json:"log"`         // of one process of a job
	Logs        sizeText       `json:"logs"`        // of all ended attempts
	Attempts    int            `json:"attempts"`    // ended attempts whose logs stay
	Checkpoints sched.Duration `json:"checkpoints"` // of ended jobs
	Compact     int            `json:"compact"`     // records of the journal between two snapshots
}

func defaultConfig() daemonConfig {
	return daemonConfig{
		Data: defaultDataDir(), Policy: "pollux", Notice: sched.Duration(30 * time.Second),
		Report: sched.Duration(30 * time.Second), Pace: sched.Duration(50 * time.Millisecond),
		Socket: socketConfig{Mode: "0660", Tenant: "default"},
		Listen: listenConfig{Address: "127.0.0.1:8460"},
		Guard:  guard.Default(), Bidders: daemon.DefaultBidders(),
		Keep: keepConfig{
			Jobs: 5_000, Queue: 100_000, Journal: 1 << 30, Log: 64 << 20, Logs: 8 << 30, Attempts: 1_000,
			Checkpoints: sched.Duration(7 * 24 * time.Hour), Compact: 20_000,
		},
		Log:    daemon.Log{Level: "info", Format: "text"},
		Screen: screenConfig{Time: sched.Duration(5 * time.Minute)},
		GPU:    gpuConfig{MPS: local.MPSAuto},
		Limits: limitsConfig{Processes: 8192},
	}
}

// readConfig reads a configuration file over the defaults.
func readConfig(path string) (daemonConfig, error) {
	c := defaultConfig()
	if err := strictyaml.ReadFile(path, &c); err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	if err := c.validate(); err != nil {
		return c, fmt.Errorf("read configuration %s: %w", path, err)
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
	case (c.Listen.Cert == "") != (c.Listen.Key == ""):
		return bad("listen.cert, listen.key", []string{c.Listen.Cert, c.Listen.Key}, "both or none")
	case c.Keep.Jobs < 1 || c.Keep.Queue < 1 || c.Keep.Attempts < 1 || c.Keep.Compact < 100:
		return bad("keep", fmt.Sprintf("jobs %d, queue %d, attempts %d, compact %d", c.Keep.Jobs, c.Keep.Queue, c.Keep.Attempts, c.Keep.Compact), "positive numbers, compact at least 100")
	case c.Keep.Journal < 0 || c.Keep.Log < 4096 || c.Keep.Logs < 0 || c.Keep.Checkpoints < 0:
		return bad("keep", fmt.Sprintf("journal %s, log %s, logs %s, checkpoints %s", c.Keep.Journal, c.Keep.Log, c.Keep.Logs, c.Keep.Checkpoints), "sizes that are not negative, log at least 4096")
	case c.Failures.Table != "" && !filepath.IsAbs(c.Failures.Table):
		return bad("failures.table", c.Failures.Table, "an absolute path, or nothing")
	case c.Screen.Time < 0 || c.Screen.Time.D() > api.MaxScreen:
		return bad("screen.time", c.Screen.Time, "0s (none) to "+sched.Duration(api.MaxScreen).String())
	case !slices.Contains([]string{local.MPSAuto, local.MPSOn, local.MPSOff}, c.GPU.MPS):
		return bad("gpu.mps", c.GPU.MPS, "auto, on or off")
	case c.Limits.Processes < 0:
		return bad("limits.processes", c.Limits.Processes, "a number, or 0 (no limit)")
	case c.GPU.Threads < 0 || c.GPU.Threads > 100:
		return bad("gpu.threads", c.GPU.Threads, "0 (no limit) to 100 percent")
	}
	if _, err := strconv.ParseUint(c.Socket.Mode, 8, 9); err != nil {
		return bad("socket.mode", c.Socket.Mode, "an octal mode such as 0660")
	}
	if _, err := policy.Builtin().NewLive(c.Policy); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if err := c.Guard.Validate(); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	if err := errors.Join(c.Bidders.Validate(), c.Log.Validate()); err != nil {
		return err
	}
	for i, t := range c.Tenants {
		if err := t.Validate(); err != nil {
			return fmt.Errorf("tenants[%d]: %w", i, err)
		}
	}
	return nil
}

func (c *daemonConfig) socketPath() string {
	if c.Socket.Path != "" {
		return c.Socket.Path
	}
	return filepath.Join(c.Data, "fairway.sock")
}

// sizeText is a number of bytes that may be written with a unit: "64MiB".
type sizeText int64

func (s sizeText) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(s)/u.bytes, u.name)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// MarshalText implements encoding.TextMarshaler.
func (s sizeText) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a number, with or without a unit.
func (s *sizeText) UnmarshalText(b []byte) error {
	text, factor := string(b), int64(1)
	for _, u := range sizeUnits {
		if t, ok := strings.CutSuffix(text, u.name); ok {
			text, factor = t, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/factor {
		return fmt.Errorf("size %s: want a number of bytes, or one with KiB, MiB, GiB or TiB", b)
	}
	*s = sizeText(n * factor)
	return nil
}

//go:embed fairway.yaml
var defaultConfigFile string

// defaultConfigText is the configuration file that says what the defaults are;
// a test keeps it true.
func defaultConfigText() string { return defaultConfigFile }
