// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/daemon/notify"
	"github.com/fairway-gpu/fairway/daemon/otel"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/local"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
	"github.com/fairway-gpu/fairway/server"
	"github.com/fairway-gpu/fairway/store"
	"github.com/fairway-gpu/fairway/tune/runner"
)

// localDaemon is everything that "fairway up" runs, wired together.
type localDaemon struct {
	config    daemonConfig
	log       *slog.Logger
	store     *store.Store
	state     *state.Store
	machine   *local.Machine
	secrets   *local.Secrets
	server    *server.Server
	guard     *guard.Guard
	metrics   *server.Metrics
	notifier  *notify.Notifier
	listeners []*server.Listener
	node      sched.Node
	noSuspend string // why jobs cannot be suspended; empty: they can

	containers, noContainers string     // what runs jobs with an image, or why nothing does
	broken                   chan error // the journal must be opened again
}

// openDaemon opens the store, reads the journal, looks at the machine and
// listens. Nothing runs yet.
func openDaemon(ctx context.Context, c daemonConfig, log *slog.Logger) (d *localDaemon, err error) {
	d = &localDaemon{config: c, log: log, broken: make(chan error, 1), metrics: server.NewMetrics()}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	// Jobs run as other users and must be able to walk through to their folders.
	if err := os.MkdirAll(c.Data, 0o711); err != nil {
		return d, fmt.Errorf("make data folder: %w", err)
	}
	lost, err := d.openJournal()
	if err != nil {
		return d, err
	}
	machine, err := d.discover(ctx)
	if err != nil {
		return d, err
	}
	if d.secrets, err = local.OpenSecrets(machine.Dir); err != nil {
		return d, err
	}
	if err := d.openState(ctx, lost); err != nil {
		return d, err
	}
	// The machine asks the state which of the folders it finds are ours.
	if d.machine, err = local.Open(machine); err != nil {
		return d, err
	}
	if text := d.machine.SetAside(); text != "" {
		if err := d.state.Damaged(ctx, text); err != nil {
			return d, err
		}
	}
	d.openNotifier()
	return d, d.openServer()
}

// discover finds the GPUs.
func (d *localDaemon) discover(ctx context.Context) (local.Config, error) {
	c := d.config
	lc := local.Config{
		// The supervisor is this very program, also after an upgrade replaced its file.
		Dir: c.machinePath(), API: "unix://" + c.agentPath(), Shim: []string{"/proc/self/exe", "shim"},
		GracePeriod: c.Notice.D(), Report: c.Report.D(), Slots: c.Slots, Name: c.Name, Log: d.log,
		LogLimit: int64(c.Keep.Log), LogKeep: c.Keep.Attempts, LogBytes: int64(c.Keep.Logs), KeepEnded: c.Keep.Checkpoints.D(),
		Ended:     func(id sched.JobID) bool { return d.ended(id) },
		Claim:     func(a api.Attempt) (bool, error) { return d.state.Claim(context.Background(), a) },
		SaveFails: func(id api.AttemptID) bool { return d.state.SaveFails(id) },
		MPS:       c.GPU.MPS, MPSThreads: c.GPU.Threads, Tell: d.tell,
		Warm: c.Warm.Most, WarmIdle: c.Warm.Idle.D(), Mounts: c.Containers.Mounts,
		NoSuspend: !c.Suspend, Processes: c.Limits.Processes, NewPrivileges: c.Limits.NewPrivileges, AllGPUs: c.Limits.AllGPUs,
	}
	if lc.Processes == 0 {
		lc.Processes = -1 // no limit
	}
	var err error
	if lc.Node, lc.Devices, err = local.Discover(ctx, lc); err != nil {
		return lc, fmt.Errorf("inspect the machine: %w", err)
	}
	if lc.Node.Suspend, d.noSuspend = local.CanSuspend(lc); !lc.Node.Suspend {
		d.log.Info("jobs cannot be suspended in place", "why", d.noSuspend)
	}
	if lc.Runtime, d.noContainers = local.FindRuntime(ctx, lc, c.Containers.Runtime); lc.Runtime.Kind == "" {
		d.log.Info("jobs cannot run in containers", "why", d.noContainers)
	} else {
		d.log.Info("jobs with an image run in containers", "by", lc.Runtime.String())
	}
	d.node, d.containers = lc.Node, lc.Runtime.String()
	return lc, nil
}

// tell writes a word of the machine into the journal, for operators.
func (d *localDaemon) tell(text string) {
	if d.state == nil {
		return // the log has it
	}
	if err := d.state.Note(context.Background(), text); err != nil {
		d.log.Warn("note", "text", text, "err", err)
	}
}

// ended reports whether a job will never run again.
func (d *localDaemon) ended(id sched.JobID) bool {
	j, err := d.state.Job(api.Identity{Role: api.Admin}, id)
	if err != nil {
		return api.CodeOf(err) == api.Unknown // else the journal does not answer
	}
	return j.Status.Phase.Ended()
}

func (d *localDaemon) openState(ctx context.Context, lost loss) error {
	key, err := secretFile(filepath.Join(d.config.Data, "key"))
	if err != nil {
		return err
	}
	pool, err := readPool(d.poolPath())
	if err != nil {
		return err
	}
	table, err := readTable(d.config.Failures.Table)
	if err != nil {
		return err
	}
	d.state, err = state.Open(ctx, state.Config{
		Seen: d.readMark(), Mark: d.writeMark, Lost: lost.text, Found: lost.found,
		Journal: journal{d.store, d}, FixedNodes: true, Node: d.node, NoSuspend: d.noSuspend, Containers: d.containers, NoContainers: d.noContainers, Policies: policy.Builtin(), Standard: d.config.Policy, Guard: d.config.Guard, Key: key, Secrets: d.secrets, Pool: pool,
		Now: time.Now, Log: d.log, Keep: d.config.Keep.Jobs, MaxQueue: d.config.Keep.Queue, MaxQueueBytes: int64(d.config.Keep.QueueBytes), CompactEvery: d.config.Keep.Compact,
		CheckNotify: d.config.Notify.Check, CheckBidder: d.config.Bidders.Check, Lookup: lookupUser, OwnersOnly: os.Geteuid() == 0, CheckSearch: runner.Check,
		// The machine is opened after the state, which knows the machine's folders.
		Warm: func() *api.Warm { return d.machine.Warm() },
		Use:  func() []*api.GPUUse { return d.machine.Use() }, Paused: func() string { return d.machine.Paused() },
		Joined:  func(id api.AttemptID) (bool, bool) { return d.machine.Joined(id) },
		Learned: func() { d.savePool(pool) }, Failures: table, Screen: d.config.Screen.Time.D(), Price: d.config.Price,
	})
	if err != nil {
		return err
	}
	if err := d.settled(); err != nil {
		return err
	}
	if len(d.config.Tenants) > 0 {
		if err := d.state.SetTenants(ctx, api.Identity{User: "configuration", Role: api.Admin}, d.config.Tenants); err != nil {
			return fmt.Errorf("declare tenants: %w", err)
		}
	}
	d.guard, err = guard.New(d.config.Guard)
	return err
}

func (d *localDaemon) openServer() error {
	mode, _ := strconv.ParseUint(d.config.Socket.Mode, 8, 9)
	endpoints := []server.ListenConfig{
		{Address: "unix://" + d.config.socketPath(), Mode: fs.FileMode(mode), Group: d.config.Socket.Group},
		{Address: "unix://" + d.config.agentPath(), Mode: 0o666, Agents: true}, // the secret of an attempt is all that counts there
	}
	if l := d.config.Listen; l.Address != "" {
		endpoints = append(endpoints, server.ListenConfig{Address: l.Address, Cert: l.Cert, Key: l.Key, Hosts: l.Hosts})
	}
	for _, e := range endpoints {
		l, err := server.Listen(e)
		if err != nil {
			return err
		}
		d.listeners = append(d.listeners, l)
	}
	key, err := secretFile(filepath.Join(d.config.Data, "session-key"))
	if err != nil {
		return err
	}
	d.server, err = server.New(server.Config{
		Jobs: d.state, Feed: d.state, Cluster: d.state, Access: d.state, Agents: d.state, Bidders: d.state, Logs: d.machine, Searches: d.state,
		Policies: daemon.PolicyEntries(), Version: daemon.Release, SocketTenant: d.config.Socket.Tenant, JobOf: d.machine.JobOf,
		ReadJobs: func(text []byte) ([]api.Submission, error) { return parseJobs("the job file", text) },
		URL:      d.url(), Warnings: d.config.warnings(), Deliveries: d.notifier.Deliveries, PublicMetrics: d.config.Listen.PublicMetrics, SessionKey: key, Metrics: d.metrics, Log: d.log,
		Ready: func() error {
			if o, _ := d.state.Overview(api.Identity{}); o.Problem != "" {
				return errors.New(o.Problem)
			}
			return nil
		},
	})
	return err
}

// run works until the context ends or a part cannot go on. Jobs keep running.
func (d *localDaemon) run(ctx context.Context) error {
	scheduler := daemon.Scheduler{State: d.state, Guard: d.guard, Metrics: d.metrics, Bidders: d.config.Bidders, Pace: d.config.Pace.D(), Log: d.log}
	parts, err := scheduler.Parts()
	if err != nil {
		return err
	}
	if d.config.Otel.Endpoint != "" {
		traces := &otel.Exporter{Config: d.config.Otel, Source: d.state, Log: d.log}
		parts = append(parts, daemon.Part{Name: "send traces", Run: traces.Run})
	}
	return daemon.Run(ctx, append(parts,
		daemon.Part{Name: "run jobs", Run: func(ctx context.Context) error { return d.machine.Run(ctx, d.state) }},
		daemon.Part{Name: "serve", Run: func(ctx context.Context) error { return d.server.Serve(ctx, d.listeners...) }},
		daemon.Part{Name: "watch the machine", Run: d.watch},
		daemon.Part{Name: "notify", Run: d.notify},
		daemon.Part{Name: "keep the journal", Run: func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return nil
			case err := <-d.broken:
				return err
			}
		}},
	)...)
}

func (d *localDaemon) noticesPath() string { return filepath.Join(d.config.Data, "notices.json") }

// notify tells people what happens to jobs until the context ends.
func (d *localDaemon) notify(ctx context.Context) error {
	if len(d.config.Notify.Targets) > 0 {
		return d.notifier.Run(ctx)
	}
	if err := os.Remove(d.noticesPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("forget pending notices", "err", err) // a later target is not told of the past
	}
	<-ctx.Done()
	return nil
}

func (d *localDaemon) openNotifier() {
	path := d.noticesPath()
	d.notifier = notify.New(notify.Options{
		Config: d.config.Notify, State: d.state, Now: time.Now, Log: d.log,
		Save: func(text []byte) error { return replaceFile(path, text, 0o600) },
		Load: func() ([]byte, error) {
			text, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			return text, err
		},
	})
}

// watch records problems of the machine until the context ends.
func (d *localDaemon) watch(ctx context.Context) error {
	const every = 2 * time.Second
	const sweepEvery = 15 // looks
	for n, tick := 0, time.Tick(every); ; n++ {
		if n%sweepEvery == 0 {
			if err := d.secrets.Sweep(d.state.SecretsInUse); err != nil {
				d.log.Warn("remove secrets of ended jobs", "err", err)
			}
		}
		d.state.SetProblem("machine", d.machine.Problem())
		if err := d.store.Check(); err != nil {
			d.state.SetProblem("journal", err.Error())
		} else if errors.Is(d.store.Stats().Failure, store.ErrMoved) {
			d.tell("the file of the journal is back in its place") // that it can be written ends the problem
		}
		d.syncMark()
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}

// close lets go of everything, in the reverse order.
func (d *localDaemon) close() error {
	var errs []error
	for _, l := range d.listeners {
		_ = l.Close() // Serve has closed them if it ran
	}
	if d.state != nil {
		d.state.Close()
	}
	if d.machine != nil {
		errs = append(errs, d.machine.Close())
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	return errors.Join(errs...)
}

// secretFile reads 32 random bytes, or makes them.
func secretFile(path string) ([]byte, error) {
	const size = 32
	key, err := os.ReadFile(path)
	switch {
	case err == nil && len(key) == size:
		return key, nil
	case err == nil:
		return nil, fmt.Errorf("read %s: it has %d bytes; want %d (remove it to make a new one: agents of running jobs then lose their connection)", path, len(key), size)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	key = make([]byte, size)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	return key, replaceFile(path, key, 0o600)
}

// replaceFile replaces a file as a whole: after a crash it is the old or the new.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

func (d *localDaemon) poolPath() string { return filepath.Join(d.config.Data, "experience.jsonl") }

func readPool(path string) (*experience.Pool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return experience.New(), nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := experience.Read(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w (delete it to start without experience)", path, err)
	}
	return p, nil
}

// savePool is called by the state while nobody else can learn.
func (d *localDaemon) savePool(p *experience.Pool) {
	var b bytes.Buffer
	err := p.Write(&b)
	if err == nil {
		err = replaceFile(d.poolPath(), b.Bytes(), 0o600)
	}
	if err != nil {
		d.log.Warn("save experience", "err", err)
	}
}

func lookupUser(name string) (api.Owner, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return api.Owner{}, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return api.Owner{}, err
	}
	gid, err := strconv.Atoi(u.Gid)
	return api.Owner{Name: name, UID: uid, GID: gid}, err
}
