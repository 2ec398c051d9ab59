// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

func newNodes() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:   "nodes",
		Short: "List nodes and their GPUs, or cordon a node",
		Long: `List nodes: how many of their GPUs are allocated, how busy they are, and to which jobs.
SUSPEND says whether jobs that cannot save their work are suspended in place there when
they have to make room.

"cordon" keeps new jobs off a node; running jobs stay. "uncordon" undoes it.` + exitHelp,
		Example: `  fairway nodes
  fairway nodes cordon gpu-3
  fairway nodes uncordon gpu-3`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			width := widthOf(c.OutOrStdout())
			return query[api.NodeList]{&r, askNodes, func(w io.Writer, l api.NodeList) { printNodes(w, l.Nodes, width) }}.run(c)
		},
	}
	r.registerJSON(c)
	return group(c,
		newSetNode(&r, "cordon", "Keep new jobs off a node", sched.Cordoned),
		newSetNode(&r, "uncordon", "Let a node accept new jobs again", sched.Ready))
}

func askNodes(ctx context.Context, daemon *client.Client) (api.NodeList, error) {
	nodes, err := daemon.Nodes(ctx)
	return api.NodeList{Nodes: nodes}, err
}

func newSetNode(r *remote, name, short string, state sched.NodeState) *cobra.Command {
	example := "fairway nodes " + name + " gpu-3"
	return &cobra.Command{
		Use: name + " NAME", Short: short, Example: "  " + example,
		Args: exactly(1, example),
		RunE: func(c *cobra.Command, args []string) error {
			return query[api.Node]{r,
				func(ctx context.Context, daemon *client.Client) (api.Node, error) {
					return daemon.SetNode(ctx, args[0], state)
				},
				func(w io.Writer, n api.Node) { fmt.Fprintf(w, "%s %s\n", clean(n.Name), nodeState(n)) },
			}.run(c)
		},
	}
}

func nodeState(n api.Node) string {
	switch {
	case !n.Up || n.State == sched.Down:
		return "down"
	case n.State == sched.Cordoned && n.Quarantine != nil:
		return "quarantined"
	case n.State == sched.Cordoned:
		return "cordoned"
	}
	return "ready"
}

// quarantineText says what is held against a node.
func quarantineText(n api.Node) string {
	q := n.Quarantine
	if n.State == sched.Cordoned {
		return fmt.Sprintf("quarantined until %s: %s (end it now: fairway nodes uncordon %s)", q.Until.Local().Format("Jan 2 15:04"), q.Why, n.Name)
	}
	return fmt.Sprintf("looks faulty but stays in use: %s (dismiss: fairway nodes uncordon %s)", q.Why, n.Name)
}

// heldSlots returns how many slots of a node are held, and the mean utilisation
// of those that are measured; measured is false if none is.
func heldSlots(n api.Node) (held int, util float64, measured bool) {
	count := 0
	for _, s := range n.Slots {
		if len(s.Jobs) > 0 {
			held++
		}
		if s.Use != nil {
			util += s.Use.Util
			count++
		}
	}
	return held, util / float64(max(1, count)), count > 0
}

func printNodes(w io.Writer, nodes []api.Node, width int) {
	g := grid{right: []bool{false, false, false, true, true, true, true, true}}
	g.add("NODE", "STATE", "TYPE", "GPUS", "ALLOC", "UTIL", "CPUS", "MEMORY", "SUSPEND", "RACK")
	for _, n := range nodes {
		held, util, measured := heldSlots(n)
		utilText := "-"
		if measured {
			utilText = fmt.Sprintf("%.0f%%", 100*util)
		}
		g.add(clean(n.Name), nodeState(n), orDash(string(n.Type)), fmt.Sprint(n.GPUs), fmt.Sprint(held), utilText,
			positive(n.CPUs, fmt.Sprint(n.CPUs)), positive(int(n.Memory>>20), gibibytes(n.Memory)), yesNo(n.Suspend), orDash(n.Rack))
	}
	g.print(w, "", width)
	for _, n := range nodes {
		if n.Quarantine != nil {
			fmt.Fprintf(w, "%s: %s\n", clean(n.Name), clean(quarantineText(n)))
		}
		if n.Warm != nil {
			fmt.Fprintf(w, "%s: warm starts: %d of at most %d interpreters wait, %s of memory\n", clean(n.Name), n.Warm.Ready, n.Warm.Most, gibibytes(n.Warm.Memory))
		}
		if n.Containers != "" {
			fmt.Fprintf(w, "%s: jobs with an image run in %s\n", clean(n.Name), clean(n.Containers))
		}
		if n.NoContainers != "" {
			fmt.Fprintf(w, "%s: jobs cannot have an image: %s\n", clean(n.Name), clean(n.NoContainers))
		}
		if n.NoSuspend != "" {
			fmt.Fprintf(w, "%s: jobs cannot be suspended: %s\n", clean(n.Name), clean(n.NoSuspend))
		}
		if n.SuspendedMemory > 0 {
			fmt.Fprintf(w, "%s: suspended jobs hold %s of its memory\n", clean(n.Name), gibibytes(n.SuspendedMemory))
		}
	}
	slots := grid{right: []bool{false, true, true, true, true, true}}
	slots.add("NODE", "GPU", "UTIL", "MEMORY", "POWER", "TEMP", "JOBS")
	for _, n := range nodes {
		for _, s := range n.Slots {
			slots.add(slotRow(n, s)...)
		}
	}
	if len(slots.rows) > 1 {
		fmt.Fprintln(w)
		slots.print(w, "", width)
	}
}

func slotRow(n api.Node, s api.GPUSlot) []string {
	row := []string{clean(n.Name), fmt.Sprint(s.Index), "-", "-", "-", "-", jobsOf(s)}
	if u := s.Use; u != nil {
		row[2] = fmt.Sprintf("%.0f%%", 100*u.Util)
		if u.MemoryTotal > 0 {
			row[3] = fmt.Sprintf("%s of %s", gibibytes(u.MemoryUsed), gibibytes(u.MemoryTotal))
		}
		row[4] = positive(int(u.PowerW), fmt.Sprintf("%.0f W", u.PowerW))
		row[5] = positive(int(u.TempC), fmt.Sprintf("%.0f °C", u.TempC))
	}
	return row
}

// jobsOf names who holds a slot; processes of strangers are told too, because
// they explain a GPU that is busy and free.
func jobsOf(s api.GPUSlot) string {
	text := ""
	for i, id := range s.Jobs {
		if i > 0 {
			text += ", "
		}
		text += clean(string(id))
	}
	if text == "" {
		text = "free"
	}
	strangers := 0
	if s.Use != nil {
		for _, p := range s.Use.Processes {
			if p.Job == "" {
				strangers++
			}
		}
	}
	if strangers > 0 {
		text += fmt.Sprintf(" (and %s not started by Fairway)", processes(strangers))
	}
	return text
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// positive prints text for a number that is known.
func positive(n int, text string) string {
	if n <= 0 {
		return "-"
	}
	return text
}
