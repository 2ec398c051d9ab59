// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
)

const smiH200 = `0, GPU-f5578bcb-d2b3-cedf-c4ae-db106b9e2970, NVIDIA H200, 143771, 0, 0, 104.91, 42, Disabled
1, GPU-f5578bcb-d2b3-cedf-c4ae-db106b9e2971, NVIDIA H200, 143771, 90123, 97, 612.30, 61, Disabled
2, GPU-f5578bcb-d2b3-cedf-c4ae-db106b9e2972, NVIDIA H200, 143771, 0, 0, 104.91, 42, Disabled
3, GPU-f5578bcb-d2b3-cedf-c4ae-db106b9e2973, NVIDIA H200, 143771, 0, 0, 104.91, 42, Disabled
4, GPU-f5578bcb-d2b3-cedf-c4ae-db106b9e2974, NVIDIA H200, 143771, 0, 0, 104.91, 42, Disabled
5, GPU-f5578bcb-d2b3-cedf-c4ae-db106b9e2975, NVIDIA H200, 143771, 0, 0, 104.91, 42, Disabled
6, GPU-f5578bcb-d2b3-cedf-c4ae-db106b9e2976, NVIDIA H200, 143771, 0, 0, 104.91, 42, Disabled
7, GPU-f5578bcb-d2b3-cedf-c4ae-db106b9e2977, NVIDIA H200, 143771, 0, 0, 104.91, 42, Disabled
`

const topoH200 = "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n" +
	"GPU0\t X \tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tPIX\t0-55\t0\t\tN/A\n" +
	"GPU1\tNV18\t X \tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tNODE\t0-55\t0\t\tN/A\n" +
	"GPU2\tNV18\tNV18\t X \tNV18\tNV18\tNV18\tNV18\tNV18\tNODE\t0-55\t0\t\tN/A\n" +
	"GPU3\tNV18\tNV18\tNV18\t X \tNV18\tNV18\tNV18\tNV18\tNODE\t0-55\t0\t\tN/A\n" +
	"GPU4\tNV18\tNV18\tNV18\tNV18\t X \tNV18\tNV18\tNV18\tSYS\t56-111\t1\t\tN/A\n" +
	"GPU5\tNV18\tNV18\tNV18\tNV18\tNV18\t X \tNV18\tNV18\tSYS\t56-111\t1\t\tN/A\n" +
	"GPU6\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\t X \tNV18\tSYS\t56-111\t1\t\tN/A\n" +
	"GPU7\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\t X \tSYS\t56-111\t1\t\tN/A\n" +
	"NIC0\tPIX\tNODE\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"

const topoA100Pairs = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n" +
	"GPU0\t X \tSYS\tNV12\tSYS\t0-31\t0\n" +
	"GPU1\tSYS\t X \tSYS\tNV12\t0-31\t0\n" +
	"GPU2\tNV12\tSYS\t X \tSYS\t32-63\t1\n" +
	"GPU3\tSYS\tNV12\tSYS\t X \t32-63\t1\n"

const topoOne = "\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \t0-15\t0\t\tN/A\n\nLegend:\n"

func TestParseGPUs(t *testing.T) {
	rows, err := parseGPUs(smiH200)
	if err != nil || len(rows) != 8 {
		t.Fatalf("%d rows, %v; want 8", len(rows), err)
	}
	want := gpuRow{index: 1, uuid: "GPU-f5578bcb-d2b3-cedf-c4ae-db106b9e2971", name: "NVIDIA H200", memTotal: 143771 << 20, memUsed: 90123 << 20, util: 0.97, power: 612.30, tempC: 61}
	if diff := cmp.Diff(want, rows[1], cmp.AllowUnexported(gpuRow{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	mig, err := parseGPUs("1, GPU-b, NVIDIA A100-SXM4-40GB, 40960, [N/A], [N/A], [Unknown Error], [Not Supported], Enabled\n0, GPU-a, Tesla T4, 15360, 3, 5, 30.1, 40\n")
	if err != nil {
		t.Fatal(err)
	}
	wantMIG := []gpuRow{
		{index: 0, uuid: "GPU-a", name: "Tesla T4", memTotal: 15360 << 20, memUsed: 3 << 20, util: 0.05, power: 30.1, tempC: 40},
		{index: 1, uuid: "GPU-b", name: "NVIDIA A100-SXM4-40GB", memTotal: 40960 << 20, memUsed: -1, util: -1, power: -1, tempC: -1, mig: true},
	}
	if diff := cmp.Diff(wantMIG, mig, cmp.AllowUnexported(gpuRow{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	clocks, err := parseGPUs("0, GPU-a, NVIDIA H200, 1, 1, 97, 612.30, 61, Disabled, 1200, 1980\n")
	if err != nil || len(clocks) != 1 || clocks[0].clock != 1200 || clocks[0].maxClock != 1980 {
		t.Errorf("%+v, %v; want a clock of 1200 of 1980 MHz", clocks, err)
	}
	for text, want := range map[string]string{
		"No devices were found\n":                             "line 1",
		"NVIDIA-SMI has failed because, it, c, d, e, f, g, h": "column 1: index \"NVIDIA-SMI has failed because\"",
		"-1, u, n, 1, 1, 1, 1, 1":                             "index \"-1\"",
		"0, , n, 1, 1, 1, 1, 1":                               "column 2: uuid",
		"0, u, n, 1, 1, 1, 1, 1\n0, v, n, 1, 1, 1, 1, 1":      "line 2: column 1: index 0 comes twice",
		strings.Repeat("x", maxSMI+1):                         "want at most",
	} {
		if _, err := parseGPUs(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want an error with %q", text, err, want)
		}
	}
}

func TestParseProcs(t *testing.T) {
	got, err := parseProcs("4711, GPU-a, 2048\n[N/A], GPU-a, 5\n12, GPU-b, [N/A]\n")
	want := []procRow{{4711, "GPU-a", 2 << 30}, {12, "GPU-b", -1}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(procRow{})); diff != "" || err != nil {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
}

func TestIslands(t *testing.T) {
	devices := func(index ...int) []Device {
		var out []Device
		for _, i := range index {
			out = append(out, Device{Index: i})
		}
		return out
	}
	for name, c := range map[string]struct {
		topo    string
		devices []Device
		want    []sched.GPUSet
	}{
		"all linked":          {topoH200, devices(0, 1, 2, 3, 4, 5, 6, 7), nil},
		"two pairs":           {topoA100Pairs, devices(0, 1, 2, 3), []sched.GPUSet{0b0101, 0b1010}},
		"two pairs, one left": {topoA100Pairs, devices(0, 2, 3), []sched.GPUSet{0b011, 0b100}},
		"one":                 {topoOne, devices(0), nil},
		"none linked":         {strings.ReplaceAll(topoA100Pairs, "NV12", "SYS"), devices(0, 1, 2, 3), nil},
		"not in the matrix":   {topoA100Pairs, devices(0, 9), nil},
	} {
		root, err := parseTopo(c.topo)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, islands(c.devices, root)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	for _, bad := range []string{"", "garbage\n", "Failed to initialize NVML: Driver/library version mismatch", strings.Repeat("x", maxSMI+1)} {
		if _, err := parseTopo(bad); err == nil {
			t.Errorf("%.40q: no error", bad)
		}
	}
}

func TestPickDevices(t *testing.T) {
	rows := []gpuRow{{index: 0, name: "Tesla T4"}, {index: 1, name: "NVIDIA H200", uuid: "b", memTotal: 5}, {index: 2, name: "NVIDIA H200", memTotal: -1}, {index: 3, name: "NVIDIA H200", mig: true}}
	devices, left := pickDevices(rows)
	if diff := cmp.Diff([]Device{{Index: 1, UUID: "b", Type: "h200", Memory: 5}, {Index: 2, Type: "h200"}}, devices); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"GPU 0 is of type t4, most are h200", "GPU 3 is in MIG mode"}, left); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if devices, left := pickDevices(nil); devices != nil || left != nil {
		t.Errorf("of none: %v %v", devices, left)
	}
}

func FuzzSMI(f *testing.F) {
	for _, s := range []string{smiH200, topoH200, topoA100Pairs, topoOne, "4711, GPU-a, 2048\n", "\tGPU0\nGPU0", "GPU9999\tNV1", "0,u,n,NaN,Inf,1e309,-1,0x10"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := parseGPUs(text)
		if err == nil {
			devices, _ := pickDevices(rows)
			if len(devices) > sched.MaxGPUs {
				t.Errorf("%d devices", len(devices))
			}
			for _, r := range rows {
				if r.util > 1 || r.memTotal < -1 || r.util != r.util {
					t.Errorf("row %+v", r)
				}
			}
		}
		if root, err := parseTopo(text); err == nil {
			var devices []Device
			for g := range root {
				if len(devices) < sched.MaxGPUs {
					devices = append(devices, Device{Index: g})
				}
			}
			node := sched.Node{Name: "n", GPUs: len(devices), Islands: islands(devices, root)}
			if _, err := sched.NewCluster([]sched.Node{node}); err != nil {
				t.Errorf("islands %v: %v", node.Islands, err)
			}
		}
		_, _ = parseProcs(text)
	})
}
