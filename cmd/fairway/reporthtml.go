// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	html "html/template"
	"io"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/lab/report"
)

//go:embed report.html
var reportPage string

// bar is a row of a chart.
type bar struct {
	Name, Value string
	Width       float64 // percent of the longest
	Cells       []string
}

// writeHTML writes the report as a page in one file, without scripts.
func (w *week) writeHTML(out io.Writer) error {
	t, err := html.New("report").Parse(reportPage)
	if err != nil {
		return err
	}
	style, err := report.Style()
	if err != nil {
		return err
	}
	rows, verdict := w.whatIfRows()
	return t.Execute(out, map[string]any{
		"Title": w.title(), "Style": html.CSS(style), "Headline": w.headline(), "Missing": w.Missing, "Policy": w.Policy,
		"Users":    usageTable("user", w.Users, func(r api.UsageRow) string { return r.User }),
		"Tenants":  usageTable("tenant", w.Tenants, func(r api.UsageRow) string { return string(r.Tenant) }),
		"Days":     usageTable("day", w.Days, func(r api.UsageRow) string { return r.Day }),
		"Waits":    textTable{nil, w.waitRows()},
		"Failures": textTable{[]string{"how often", "whose", "such as", "what", "advice"}, w.failureRows()},
		"WhatIf":   textTable{[]string{"policy", "average time", "99 % within", "average wait", "restarts"}, rows}, "Verdict": verdict,
	})
}

// usageRows and textTable are the tables of the page.
type usageRows struct {
	Head, Currency string
	Priced         bool
	Rows           []bar
}

type textTable struct {
	Head []string
	Rows [][]string
}

func usageTable(head string, u api.Usage, name func(api.UsageRow) string) usageRows {
	return usageRows{head, u.Price.Currency, u.Price.GPUHour > 0, bars(u, name)}
}

// bars returns the rows of a usage with bars for the GPU time.
func bars(u api.Usage, name func(api.UsageRow) string) []bar {
	most := 0.0
	for _, r := range u.Rows {
		most = max(most, r.GPUs)
	}
	var out []bar
	for _, r := range u.Rows {
		b := bar{Name: orDash(name(r)), Value: inHours(r.GPUs), Cells: []string{inHours(r.Lost), idleText(r), inHours(r.Waited), fmt.Sprint(r.Ended), fmt.Sprint(r.Failed)}}
		if u.Price.GPUHour > 0 {
			b.Cells = append(b.Cells, fmt.Sprintf("%.2f", r.GPUs/3600*u.Price.GPUHour))
		}
		if most > 0 {
			b.Width = 100 * r.GPUs / most
		}
		out = append(out, b)
	}
	return out
}
