// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"

	"github.com/fairway-gpu/fairway/sim"
)

//go:embed web
var web embed.FS

// reportScripts are the files of web/ that make the report, in the order they
// run in.
var reportScripts = []string{"base.js", "chart.js", "table.js", "gantt.js", "app.js"}

// Write writes one HTML page that compares the runs, side by side and in the
// order given.
func Write(w io.Writer, runs []*sim.Result) error {
	if len(runs) == 0 {
		return errors.New("write report: no runs; want one or more")
	}
	for i, r := range runs {
		if r == nil {
			return fmt.Errorf("write report: run %d has no result", i)
		}
	}
	title := "Fairway report"
	if name := runs[0].Workload; name != "" {
		title = clip(name) + " – " + title
	}
	return writePage(w, title, newPage(runs), reportScripts)
}

// Style returns the style sheet of the pages, for a page of another kind.
func Style() (string, error) {
	style, err := web.ReadFile("web/style.css")
	return string(style), err
}

// writePage joins the page's data and scripts. The page's own policy allows
// this one script and nothing from elsewhere.
func writePage(w io.Writer, title string, data any, scripts []string) error {
	var script bytes.Buffer
	for _, name := range scripts {
		b, err := web.ReadFile("web/" + name)
		if err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		script.Write(b)
	}
	style, err := web.ReadFile("web/style.css")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	t, err := template.ParseFS(web, "web/page.html")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	// Marshal writes <, > and & in strings as escapes, so that no name in the
	// data can end the element that holds them.
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	hash := sha256.Sum256(script.Bytes())
	err = t.Execute(w, struct {
		Title  string
		Hash   string
		Style  template.CSS
		Data   template.JS
		Script template.JS
	}{
		Title: title, Hash: base64.StdEncoding.EncodeToString(hash[:]),
		Style: template.CSS(style), Data: template.JS(text), Script: template.JS(script.String()),
	})
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
