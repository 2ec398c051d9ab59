// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// maxSMI bounds how much output of nvidia-smi is read, in bytes.
const maxSMI = 1 << 20

const mib = 1 << 20

// The fields queried from nvidia-smi. Old drivers know no MIG and refuse the whole
// query, so that field and what is nice to know come last and can be left out.
const (
	gpuFields  = "index,uuid,name,memory.total,memory.used,utilization.gpu,power.draw,temperature.gpu"
	moreFields = ",mig.mode.current,clocks.sm,clocks.max.sm"
	procFields = "pid,gpu_uuid,used_memory"
)

// gpuRow is one GPU as reported by nvidia-smi. Missing numbers are -1.
type gpuRow struct {
	index              int
	uuid, name         string
	memTotal, memUsed  int64   // bytes
	util, power, tempC float64 // util: 0 to 1
	mig                bool
	clock, maxClock    float64 // MHz; 0: not asked for
}

// procRow is a process that holds memory of a GPU.
type procRow struct {
	pid    int
	uuid   string
	memory int64 // bytes; -1: not reported
}

// csvRows splits the output of nvidia-smi into fields, and refuses a table with
// fewer columns.
func csvRows(what, text string, columns int) ([][]string, error) {
	if len(text) > maxSMI {
		return nil, fmt.Errorf("%s: %d bytes; want at most %d", what, len(text), maxSMI)
	}
	var rows [][]string
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		fields := strings.Split(line, ",")
		if len(fields) < columns {
			return nil, fmt.Errorf("%s: line %d: %.80q has %d columns; want %d", what, n+1, line, len(fields), columns)
		}
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		rows = append(rows, fields)
	}
	return rows, nil
}

// smiNumber parses a number. Values that the driver does not know ("[N/A]", "[Not
// Supported]", "[Unknown Error]") are -1.
func smiNumber(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0) || v > 1e15 {
		return -1
	}
	return v
}

func smiBytes(s string) int64 {
	if v := smiNumber(s); v >= 0 && v < 1e9 {
		return int64(v * mib)
	}
	return -1
}

// parseGPUs reads the answer to gpuFields, with or without moreFields.
func parseGPUs(text string) ([]gpuRow, error) {
	const what = "nvidia-smi --query-gpu"
	rows, err := csvRows(what, text, 8)
	if err != nil {
		return nil, err
	}
	var out []gpuRow
	for n, f := range rows {
		index, err := strconv.Atoi(f[0])
		if err != nil || index < 0 || index > 1<<10 {
			return nil, fmt.Errorf("%s: line %d: column 1: index %.40q; want a number from 0 to 1024", what, n+1, f[0])
		}
		if f[1] == "" || len(f[1]) > 128 {
			return nil, fmt.Errorf("%s: line %d: column 2: uuid %.40q; want 1 to 128 bytes", what, n+1, f[1])
		}
		if slices.ContainsFunc(out, func(g gpuRow) bool { return g.index == index }) {
			return nil, fmt.Errorf("%s: line %d: column 1: index %d comes twice", what, n+1, index)
		}
		row := gpuRow{
			index: index, uuid: f[1], name: f[2],
			memTotal: smiBytes(f[3]), memUsed: smiBytes(f[4]),
			util: smiNumber(f[5]), power: smiNumber(f[6]), tempC: smiNumber(f[7]),
			mig: len(f) > 8 && f[8] == "Enabled",
		}
		if row.util >= 0 {
			row.util = min(1, row.util/100)
		}
		if len(f) > 10 {
			row.clock, row.maxClock = smiNumber(f[9]), smiNumber(f[10])
		}
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b gpuRow) int { return cmp.Compare(a.index, b.index) })
	return out, nil
}

// parseProcs reads the answer to procFields. Lines without a process number are
// left out.
func parseProcs(text string) ([]procRow, error) {
	rows, err := csvRows("nvidia-smi --query-compute-apps", text, 3)
	if err != nil {
		return nil, err
	}
	var out []procRow
	for _, f := range rows {
		if pid, err := strconv.Atoi(f[0]); err == nil && pid > 0 {
			out = append(out, procRow{pid: pid, uuid: f[1], memory: smiBytes(f[2])})
		}
	}
	return out, nil
}

var (
	ansi    = regexp.MustCompile("\x1b\\[[0-9;]*m")
	gpuName = regexp.MustCompile(`^GPU([0-9]{1,4})$`)
	nvlink  = regexp.MustCompile(`^NV[0-9]+$`)
)

// parseTopo reads the matrix of `nvidia-smi topo -m` and returns, by GPU index,
// the lowest GPU that it reaches over NVLink. GPUs with the same value form an
// island.
func parseTopo(text string) (map[int]int, error) {
	if len(text) > maxSMI {
		return nil, fmt.Errorf("nvidia-smi topo: %d bytes; want at most %d", len(text), maxSMI)
	}
	var columns []int // GPU of each column, -1: something else
	root := map[int]int{}
	find := func(g int) int {
		for root[g] != g {
			g = root[g]
		}
		return g
	}
	for line := range strings.SplitSeq(ansi.ReplaceAllString(text, ""), "\n") {
		fields := strings.Split(strings.TrimRight(line, "\r"), "\t")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		if columns == nil {
			if len(fields) > 1 && fields[0] == "" && gpuName.MatchString(fields[1]) {
				for _, f := range fields[1:] {
					columns = append(columns, gpuNumber(f))
				}
			}
			continue
		}
		row := gpuNumber(fields[0])
		if row < 0 {
			continue
		}
		if _, ok := root[row]; !ok {
			root[row] = row
		}
		for i, f := range fields[1:] {
			if i >= len(columns) || columns[i] < 0 || !nvlink.MatchString(f) {
				continue
			}
			if _, ok := root[columns[i]]; !ok {
				root[columns[i]] = columns[i]
			}
			a, b := find(row), find(columns[i])
			root[max(a, b)] = min(a, b)
		}
	}
	if columns == nil {
		return nil, fmt.Errorf("nvidia-smi topo: %.60q… has no line that names the GPUs", text)
	}
	out := make(map[int]int, len(root))
	for g := range root {
		out[g] = find(g)
	}
	return out, nil
}

func gpuNumber(s string) int {
	m := gpuName.FindStringSubmatch(s)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// islands turns the result of parseTopo into sets of slots; none if all GPUs are
// linked, or no two are.
func islands(devices []Device, root map[int]int) []sched.GPUSet {
	sets := map[int]sched.GPUSet{}
	var order []int
	for slot, d := range devices {
		r, ok := root[d.Index]
		if !ok {
			return nil
		}
		if sets[r] == 0 {
			order = append(order, r)
		}
		sets[r] |= 1 << slot
	}
	if len(order) <= 1 || len(order) == len(devices) {
		return nil
	}
	out := make([]sched.GPUSet, len(order))
	for i, r := range order {
		out[i] = sets[r]
	}
	return out
}

// pickDevices picks the GPUs to offer: those of the most common type, because a
// node has one type, and none that is split into MIG parts. It also returns what
// it left out and why.
func pickDevices(rows []gpuRow) (devices []Device, left []string) {
	count := map[sched.GPUType]int{}
	for _, g := range rows {
		if !g.mig {
			count[api.GPUTypeOf(g.name)]++
		}
	}
	var best sched.GPUType
	for _, g := range rows { // in order, so that the first of equals wins
		if t := api.GPUTypeOf(g.name); count[t] > count[best] {
			best = t
		}
	}
	for _, g := range rows {
		t := api.GPUTypeOf(g.name)
		switch {
		case g.mig:
			left = append(left, fmt.Sprintf("GPU %d is in MIG mode", g.index))
		case t != best:
			left = append(left, fmt.Sprintf("GPU %d is of type %s, most are %s", g.index, t, best))
		case len(devices) == sched.MaxGPUs:
			left = append(left, fmt.Sprintf("GPU %d is beyond the %d that a node may have", g.index, sched.MaxGPUs))
		default:
			devices = append(devices, Device{Index: g.index, UUID: g.uuid, Type: t, Memory: max(0, g.memTotal)})
		}
	}
	return devices, left
}
