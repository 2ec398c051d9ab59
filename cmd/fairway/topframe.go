// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// picture is all that top draws.
type picture struct {
	overview api.Overview
	nodes    []api.Node
	jobs     api.JobPage // that have not ended
	fault    string      // why the rest is old; empty: it is not
}

// screen is where top draws.
type screen struct {
	width, height int // height 0: as many lines as there are
	scroll        int // lines of the body above the screen
	colour        bool
}

// frame draws the picture. It returns the lines, and how far the body can be
// scrolled.
func frame(p picture, s screen) (lines []string, mostScroll int) {
	head := header(p, s)
	body := slices.Concat(gpuLines(p, s), runningLines(p, s), queueLines(p, s))
	foot := ""
	if s.height > 0 {
		room := max(1, s.height-len(head)-1)
		mostScroll = max(0, len(body)-room)
		from := max(0, min(s.scroll, mostScroll))
		below := max(0, len(body)-room-from)
		body = body[from:min(len(body), from+room)]
		foot = "q quit"
		if mostScroll > 0 {
			foot += fmt.Sprintf("   ↑↓ scroll   %d lines above, %d below", from, below)
		}
		for len(body) < room {
			body = append(body, "")
		}
	}
	lines = slices.Concat(head, body)
	if foot != "" {
		lines = append(lines, s.paint(dim, fit(foot, s.width)))
	}
	return lines, mostScroll
}

// The colours of a terminal, by their codes.
const (
	bold = "1"
	dim  = "2"
	warn = "31"
)

// paint colours text that has its final width.
func (s screen) paint(code, text string) string {
	if !s.colour || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// jobColour gives a job the same colour everywhere.
func jobColour(id sched.JobID) string {
	codes := []string{"32", "33", "34", "35", "36", "92", "93", "94", "95", "96"}
	h := fnv.New32a()
	h.Write([]byte(id))
	return codes[h.Sum32()%uint32(len(codes))]
}

func header(p picture, s screen) []string {
	o := p.overview
	left := fmt.Sprintf("fairway  %s  %d/%d GPUs in use", clean(o.Policy), o.Held, o.GPUs)
	right := fmt.Sprintf("%d running  %d waiting", o.Running, o.Waiting)
	if o.Paused > 0 {
		right += fmt.Sprintf("  %d paused", o.Paused)
	}
	right += "  " + o.Now.Format(time.TimeOnly)
	line := pad(left, s.width-textWidth(right)-1) + " " + right
	lines := []string{s.paint(bold, fit(line, s.width))}
	for _, fault := range []string{p.fault, o.Problem} {
		if fault != "" {
			lines = append(lines, s.paint(warn, fit("! "+clean(fault), s.width)))
		}
	}
	return lines
}

// title is a line that separates parts.
func (s screen) title(text string) string {
	text = fit("── "+text+" ", s.width)
	return s.paint(dim, text+strings.Repeat("─", max(0, s.width-textWidth(text))))
}

// gpuLines draws the GPUs: a cell for each with a bar, or where there are many,
// two columns for each.
func gpuLines(p picture, s screen) []string {
	slots := 0
	for _, n := range p.nodes {
		slots += len(n.Slots)
	}
	const manyGPUs = 32
	lines := []string{s.title("GPUs")}
	for _, n := range p.nodes {
		name := fmt.Sprintf("%s  %s", clean(n.Name), orDash(string(n.Type)))
		held, util, measured := heldSlots(n)
		name += fmt.Sprintf("  %d/%d in use", held, n.GPUs)
		if measured {
			name += fmt.Sprintf("  %.0f%% busy", 100*util)
		}
		if state := nodeState(n); state != "ready" {
			name += "  " + strings.ToUpper(state)
		}
		if slots > manyGPUs {
			lines = append(lines, s.denseNode(name, n)...)
			continue
		}
		lines = append(lines, fit(name, s.width))
		lines = append(lines, s.cells(n)...)
	}
	return lines
}

// cells draws the slots of a node in rows.
func (s screen) cells(n api.Node) []string {
	const least = 26
	perRow := max(1, s.width/least)
	width := s.width / perRow
	barWidth := 8
	if width < 30 {
		barWidth = 6
	}
	var lines []string
	var row strings.Builder
	for i, slot := range n.Slots {
		use, share := "    ", 0.0
		if slot.Use != nil {
			share = slot.Use.Util
			use = fmt.Sprintf("%3.0f%%", 100*share)
		}
		bar, colour, who := strings.Repeat("·", barWidth), dim, "free"
		if len(slot.Jobs) > 0 {
			colour, who = jobColour(slot.Jobs[0]), jobsOf(api.GPUSlot{Jobs: slot.Jobs})
			bar = strings.Repeat("▒", barWidth) // held, and nobody measures
		}
		if slot.Use != nil {
			bar = meter(share, barWidth)
		}
		const others = 10 // columns of the number, the share and the blanks
		row.WriteString(fmt.Sprintf("%2d ", slot.Index) + s.paint(colour, bar) + " " + use + " " + s.paint(colour, pad(who, max(0, width-barWidth-others))) + " ")
		if (i+1)%perRow == 0 || i == len(n.Slots)-1 {
			lines = append(lines, strings.TrimRight(row.String(), " "))
			row.Reset()
		}
	}
	return lines
}

// denseNode draws a node in one line, or a few: a letter for each GPU that is
// held, the same for the same job.
func (s screen) denseNode(name string, n api.Node) []string {
	nameWidth := min(40, s.width/2)
	room := max(1, s.width-nameWidth-1)
	var lines []string
	for from := 0; from < max(1, len(n.Slots)); from += room {
		var b strings.Builder
		for _, slot := range n.Slots[from:min(len(n.Slots), from+room)] {
			if len(slot.Jobs) == 0 {
				b.WriteString(s.paint(dim, "·"))
				continue
			}
			b.WriteString(s.paint(jobColour(slot.Jobs[0]), letter(slot)))
		}
		label := pad("", nameWidth)
		if from == 0 {
			label = pad(name, nameWidth)
		}
		lines = append(lines, label+" "+b.String())
	}
	return lines
}

// letter shows how busy a GPU is; "▒" where nobody measures.
func letter(slot api.GPUSlot) string {
	if slot.Use == nil {
		return "▒"
	}
	steps := []string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}
	return steps[max(0, min(len(steps)-1, int(slot.Use.Util*float64(len(steps)))))]
}

// runningLines lists the jobs that hold GPUs.
func runningLines(p picture, s screen) []string {
	lines := []string{s.title("Running")}
	wide := s.width >= 100
	barWidth, idWidth := 10, min(s.width, max(12, s.width-54))
	if wide {
		barWidth, idWidth = 20, s.width-82
	}
	head := fmt.Sprintf("%s %5s %6s  %s %4s %7s %7s %5s", pad("JOB", idWidth), "GPUS", "WANTS", pad("PROGRESS", barWidth), "", "RAN", "LEFT", "RHO")
	if wide {
		head += fmt.Sprintf(" %9s %7s", "LOSS", "STARTS")
	}
	lines = append(lines, s.paint(dim, fit(head, s.width)))
	for _, j := range p.jobs.Jobs {
		if j.State == api.Waiting || j.State == api.Paused {
			continue
		}
		share, known := shareDone(j)
		bar := strings.Repeat("·", barWidth)
		if known {
			bar = meter(share, barWidth)
		}
		id := clean(string(j.ID))
		if j.State != api.Running {
			id += " (" + j.State + ")"
		}
		line := fmt.Sprintf(" %5d %6s  %s %4s %7s %7s %5s", j.HeldGPUs(), wants(j), bar, percent(j), sched.Brief(ranFor(j, p.overview.Now)), left(j), rhoText(j.Rho))
		if wide {
			loss := "-"
			if j.Last != nil && j.Last.Loss != nil {
				loss = fmt.Sprintf("%.4g", *j.Last.Loss)
			}
			line += fmt.Sprintf(" %9s %7d", loss, j.Status.Starts)
		}
		lines = append(lines, s.paint(jobColour(j.ID), pad(id, idWidth))+fit(line, s.width-idWidth))
	}
	if len(lines) == 2 {
		return []string{lines[0], "no running jobs"}
	}
	return lines
}

// queueLines lists the jobs that wait, with the reason.
func queueLines(p picture, s screen) []string {
	lines := []string{s.title("Queue")}
	for _, j := range p.jobs.Jobs {
		if j.State != api.Waiting && j.State != api.Paused {
			continue
		}
		line := fmt.Sprintf("%s %6s %7s  %s", pad(clean(string(j.ID)), max(12, s.width/5)), wants(j), sched.Brief(waitedFor(j, p.overview.Now)), why(j))
		lines = append(lines, fit(line, s.width))
	}
	if len(lines) == 1 {
		lines = append(lines, "no waiting jobs")
	}
	if more := p.jobs.Total - len(p.jobs.Jobs); more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	return lines
}
