// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// nodeListHead begins a node list.
const nodeListHead = "sn,cpu_milli,memory_mib,gpu,model"

// readNodeList reads the nodes of Alibaba's GPU cluster, 2023
// (openb_node_list_*.csv): name, thousandths of CPUs, memory in MiB, GPUs and their
// type. Nodes without GPUs are left out. The list has no racks.
func readNodeList(r io.Reader) (*sched.Cluster, error) {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord = strings.Count(nodeListHead, ",") + 1
	var nodes []sched.Node
	for line := 1; ; line++ {
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF) && len(nodes) == 0:
			return nil, fmt.Errorf("read node list: no node has a GPU; want at least one")
		case errors.Is(err, io.EOF):
			c, err := sched.NewCluster(nodes)
			if err != nil {
				return nil, fmt.Errorf("read node list: %w", err)
			}
			return c, nil
		case err != nil:
			return nil, fmt.Errorf("read node list: %w", err)
		case line == 1:
			continue
		}
		var number [3]int64 // cpu_milli, memory_mib, gpu
		for i := range number {
			if number[i], err = strconv.ParseInt(row[i+1], 10, 32); err != nil || number[i] < 0 {
				return nil, fmt.Errorf("read node list: line %d: %s = %q; want a whole number, 0 or more", line, strings.Split(nodeListHead, ",")[i+1], row[i+1])
			}
		}
		switch {
		case number[2] == 0:
			continue
		case number[2] > sched.MaxGPUs || len(nodes) == maxNodes:
			return nil, fmt.Errorf("read node list: line %d: gpu = %d; want at most %d GPUs of a node, and %d nodes", line, number[2], sched.MaxGPUs, maxNodes)
		}
		nodes = append(nodes, sched.Node{
			Name: row[0], GPUs: int(number[2]), Type: sched.GPUType(strings.ToLower(row[4])),
			CPUs: int(number[0] / 1000), Memory: number[1] << 20, Rack: "r0",
		})
	}
}
