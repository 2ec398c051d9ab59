// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// fakeSMI writes a program that answers like nvidia-smi.
func fakeSMI(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	writeProgram(t, path, "#!/bin/sh\n"+script)
	return path
}

// answers is a script with answers to the three questions.
func answers(gpus, procs, topo string) string {
	return "case $1 in\n*mig.mode*) echo 'Field \"mig.mode.current\" is not a valid field to query.'; exit 2;;\n" +
		"--query-gpu=*) cat <<'E'\n" + gpus + "E\n;;\n--query-compute*) cat <<E\n" + procs + "E\n;;\ntopo) cat <<'E'\n" + topo + "E\n;;\nesac\n"
}

const smiA100 = `0, GPU-a, NVIDIA A100-SXM4-80GB, 81920, 1024, 50, 200.5, 50
1, GPU-b, NVIDIA A100-SXM4-80GB, 81920, 0, 0, 60, 30
2, GPU-c, NVIDIA A100-SXM4-80GB, 81920, 0, 0, 60, 30
3, GPU-d, NVIDIA A100-SXM4-80GB, 81920, 0, 0, 60, 30
`

func TestDiscover(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := Config{Name: "here", SMI: fakeSMI(t, answers(smiA100, "", topoA100Pairs))}
	node, devices, err := Discover(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	want := sched.Node{Name: "here", GPUs: 4, Type: "a100", GPUMemory: 80 << 30, CPUs: node.CPUs, Memory: node.Memory, Islands: []sched.GPUSet{0b0101, 0b1010}}
	if diff := cmp.Diff(want, node); diff != "" || node.CPUs < 1 || node.Memory < 1<<20 {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(devices) != 4 || devices[3] != (Device{Index: 3, UUID: "GPU-d", Type: "a100", Memory: 80 << 30}) {
		t.Errorf("devices %+v", devices)
	}
	c.Slots = 3
	node, devices, err = Discover(ctx, c)
	if err != nil || node.GPUs != 3 || node.Type != "cpu" || len(devices) != 3 || devices[0].Index != -1 {
		t.Errorf("3 slots: %+v %+v %v", node, devices, err)
	}
	c = Config{SMI: "no-such-program-here"}
	if node, _, err = Discover(ctx, c); err != nil || node.GPUs < 1 || node.Type != "cpu" || node.Name == "" {
		t.Errorf("without a driver: %+v %v; want CPU slots", node, err)
	}
	if _, _, err := Discover(ctx, Config{Slots: 65}); err == nil || !strings.Contains(err.Error(), "slots = 65") {
		t.Errorf("65 slots: %v; want an error", err)
	}
}

// TestHang: a driver that does not answer costs measurements, nothing else.
func TestHang(t *testing.T) {
	t.Parallel()
	tool := smiTool{program: fakeSMI(t, "exec sleep 600"), timeout: 100 * time.Millisecond}
	begin := time.Now()
	if _, err := tool.gpus(context.Background()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > patience {
		t.Errorf("%v after %v; want that the time is over", err, time.Since(begin))
	}
	tool.stuck.Store(true)
	if _, err := tool.gpus(context.Background()); !errors.Is(err, errStuck) {
		t.Errorf("%v; want no second process beside one that is stuck", err)
	}
	r := newRig(t, func(c *Config) {
		c.SMI = fakeSMI(t, "echo broken >&2; exit 9")
		for i := range c.Devices {
			c.Devices[i] = Device{Index: i, UUID: "GPU-x", Type: "a100"}
		}
	})
	eventually(t, "a problem", func() bool { return strings.Contains(r.m.Problem(), "broken") })
	a := attempt("works", 1, 0b1, "exit 0")
	r.orders.set(a)
	if e := r.exit(a.AttemptID); !e.OK() {
		t.Errorf("%s; want OK", show(e))
	}
	if u := r.m.Use(); len(u) != 4 || u[0] != nil {
		t.Errorf("use %v; want 4 that are not measured", u)
	}
}

func TestGPUUse(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pid")
	r := newRig(t, func(c *Config) {
		c.SMI = fakeSMI(t, answers(smiA100, "$(cat "+pids+" 2>/dev/null), GPU-a, 1000\n1, GPU-a, 24\n", topoA100Pairs))
		for i, id := range []string{"GPU-a", "GPU-b", "GPU-c", "GPU-lost"} {
			c.Devices[i] = Device{Index: i, UUID: id, Type: "a100"}
		}
	})
	a := attempt("uses", 1, 0b1, `sh -c 'echo $$ > `+pids+`; exec sleep 100'; true`)
	r.orders.set(a)
	var u []*api.GPUUse
	eventually(t, "use of GPU 0", func() bool {
		u = r.m.Use()
		return u[0] != nil && len(u[0].Processes) == 2 && u[0].Processes[0].Job == "uses"
	})
	want := &api.GPUUse{At: u[0].At, Util: 0.5, MemoryUsed: 1 << 30, MemoryTotal: 80 << 30, PowerW: 200.5, TempC: 50,
		Processes: []api.GPUProcess{{PID: u[0].Processes[0].PID, Job: "uses", Memory: 1000 << 20}, {PID: 1, Memory: 24 << 20}}}
	if diff := cmp.Diff(want, u[0]); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if u[3] != nil {
		t.Errorf("a GPU that is gone is measured: %+v", u[3])
	}
	r.stop()
	r.m.cfg.Now = func() time.Time { return time.Now().Add(time.Minute) }
	if u := r.m.Use(); u[0] != nil {
		t.Errorf("a measurement of a minute ago counts: %+v", u[0])
	}
}

// TestRealGPU looks at the GPUs of the machine it runs on, if there are any.
func TestRealGPU(t *testing.T) {
	t.Parallel()
	node, devices, err := Discover(context.Background(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if node.Type == "cpu" {
		t.Skip("no GPU here")
	}
	t.Logf("%+v %+v", node, devices)
	if node.GPUMemory < 1<<30 || devices[0].UUID == "" {
		t.Errorf("%+v %+v; want memory and a uuid", node, devices)
	}
	r := newRig(t, func(c *Config) { c.Node, c.Devices = node, devices })
	eventually(t, "use of GPU 0", func() bool { return r.m.Use()[0] != nil })
	if u := r.m.Use()[0]; u.MemoryTotal != devices[0].Memory || u.PowerW <= 0 || u.TempC <= 0 {
		t.Errorf("%+v; want memory, power and temperature", u)
	}
	a := attempt("torch", 1, 0b1, "")
	a.Task.Command = []string{"python3", "-c", "import torch, time; x = torch.zeros(1 << 28, device='cuda'); time.sleep(100)"}
	r.orders.set(a)
	eventually(t, "a process of the job on GPU 0", func() bool {
		if len(r.orders.exitsOf(a.AttemptID)) > 0 {
			t.Skipf("no PyTorch here: %s", show(r.exit(a.AttemptID)))
		}
		u := r.m.Use()[0]
		return u != nil && slices.ContainsFunc(u.Processes, func(p api.GPUProcess) bool { return p.Job == "torch" && p.Memory >= 1<<30 })
	})
	t.Logf("%+v", r.m.Use()[0])
}
