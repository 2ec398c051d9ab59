// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/sched"
)

const smiTimeout = 10 * time.Second

// Discover finds the machine's name and its GPUs, or else its CPU slots.
func Discover(ctx context.Context, c Config) (sched.Node, []Device, error) {
	c = c.withDefaults()
	node := sched.Node{Name: c.Name, CPUs: runtime.NumCPU(), Memory: hostMemory()}
	if node.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return sched.Node{}, nil, fmt.Errorf("read the host name: %w", err)
		}
		node.Name = name
	}
	if c.Slots < 0 || c.Slots > sched.MaxGPUs {
		return sched.Node{}, nil, fmt.Errorf("slots = %d; want 0 (the GPUs of the machine) to %d", c.Slots, sched.MaxGPUs)
	}
	var devices []Device
	if c.Slots == 0 {
		var err error
		if devices, err = findGPUs(ctx, c); err != nil {
			return sched.Node{}, nil, err
		}
	}
	if len(devices) == 0 {
		n := c.Slots
		if n == 0 {
			n = min(node.CPUs, sched.MaxGPUs)
		}
		node.GPUs, node.Type = n, sched.CPUSlot
		for range n {
			devices = append(devices, Device{Index: -1, Type: sched.CPUSlot})
		}
		return node, devices, nil
	}
	node.GPUs, node.Type, node.GPUMemory = len(devices), devices[0].Type, devices[0].Memory
	for _, d := range devices {
		node.GPUMemory = min(node.GPUMemory, d.Memory)
	}
	// A machine works without knowing its NVLinks, but less well.
	tool := smiTool{program: c.SMI, timeout: smiTimeout}
	if text, err := tool.run(ctx, "topo", "-m"); err != nil {
		c.Log.Warn("cannot read the NVLink topology", "err", err)
	} else if root, err := parseTopo(text); err != nil {
		c.Log.Warn("cannot read the NVLink topology", "err", err)
	} else {
		node.Islands = islands(devices, root)
	}
	return node, devices, nil
}

func findGPUs(ctx context.Context, c Config) ([]Device, error) {
	if _, err := exec.LookPath(c.SMI); err != nil {
		return nil, nil // no driver, no GPUs
	}
	rows, err := (&smiTool{program: c.SMI, timeout: smiTimeout}).gpus(ctx)
	if err != nil {
		// The tool is often installed where there is no GPU.
		if _, e := os.Stat(driverGPUs); errors.Is(e, os.ErrNotExist) {
			c.Log.Warn("nvidia-smi reports no GPU", "err", err)
			return nil, nil
		}
		return nil, fmt.Errorf("find GPUs: %w; repair the driver, or offer CPU slots with --slots", err)
	}
	devices, left := pickDevices(rows)
	files := deviceFiles(driverGPUs)
	for i := range devices {
		devices[i].File = files[devices[i].UUID]
	}
	for _, l := range left {
		c.Log.Warn("GPU not used", "why", l)
	}
	return devices, nil
}

// smiTool runs nvidia-smi.
type smiTool struct {
	program string
	timeout time.Duration
	stuck   atomic.Bool // a process that cannot be killed is still there
}

// errStuck means that a program does not end even when killed, because the driver
// keeps it inside the kernel.
var errStuck = errors.New("does not respond and cannot be killed")

const smiFormat = "--format=csv,noheader,nounits"

func (t *smiTool) gpus(ctx context.Context) ([]gpuRow, error) {
	text, err := t.run(ctx, "--query-gpu="+gpuFields+moreFields, smiFormat)
	if err != nil && strings.Contains(err.Error(), "not a valid field") {
		text, err = t.run(ctx, "--query-gpu="+gpuFields, smiFormat)
	}
	if err != nil {
		return nil, err
	}
	return parseGPUs(text)
}

func (t *smiTool) procs(ctx context.Context) ([]procRow, error) {
	text, err := t.run(ctx, "--query-compute-apps="+procFields, smiFormat)
	if err != nil {
		return nil, err
	}
	return parseProcs(text)
}

// run returns in time whatever the driver does. A process that cannot be killed is
// left behind, and no other is started before it ends.
func (t *smiTool) run(ctx context.Context, args ...string) (string, error) {
	what := "run nvidia-smi " + args[0]
	if t.stuck.Load() {
		return "", fmt.Errorf("%s: an earlier one %w", what, errStuck)
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.program, args...)
	cmd.WaitDelay = time.Second
	out, errs := &limited{left: maxSMI}, &limited{left: 4096}
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	t.stuck.Store(true)
	done := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		t.stuck.Store(false)
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-afterDone(ctx, 2*time.Second):
		return "", fmt.Errorf("%s: %w", what, errStuck)
	}
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: no answer in %s: %w", what, t.timeout, ctx.Err())
	case err != nil:
		said := strings.TrimSpace(errs.String() + " " + out.String())
		return "", fmt.Errorf("%s: %w: %.200s", what, err, said)
	case out.over:
		return "", fmt.Errorf("%s: more than %d bytes", what, maxSMI)
	}
	return out.String(), nil
}

// afterDone returns a channel that closes some time after the context ends.
func afterDone(ctx context.Context, d time.Duration) <-chan struct{} {
	out := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(d, func() { close(out) }) })
	return out
}

// limited keeps the beginning of what is written to it.
type limited struct {
	strings.Builder
	left int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.over = l.over || n < len(p)
	l.Builder.Write(p[:n])
	return len(p), nil
}

// hostMemory returns the memory of the machine in bytes; 0: not known.
func hostMemory() int64 { return proc.MemoryInfo("MemTotal:") }
