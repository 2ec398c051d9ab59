// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

// TestGrafana: the daemon has every metric that the dashboard file uses.
func TestGrafana(t *testing.T) {
	file, err := os.ReadFile("../deploy/grafana/fairway.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(file) {
		t.Fatal("deploy/grafana/fairway.json is not JSON")
	}
	d := startDaemon(t, shortDir(t), "--slots", "2")
	s := api.Submission{}
	s.Command, s.GPUs = []string{"/bin/sleep", "3600"}, 1
	if _, err := d.Submit(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`fairway_[a-z_]+`).FindAllString(string(file), -1)
	if len(asked) < 10 {
		t.Fatalf("the dashboard asks for %d metrics; want more", len(asked))
	}
	var missing []string
	if !holds(patience, func() bool { // the use of slots is measured periodically
		var have bytes.Buffer
		if err := d.Metrics(context.Background(), &have); err != nil {
			t.Fatal(err)
		}
		missing = absent(asked, have.String())
		return len(missing) == 0
	}) {
		t.Errorf("the dashboard asks for %v, which the daemon does not have", missing)
	}
}

// seldom matches metrics that exist only if there is something to measure or count.
var seldom = regexp.MustCompile(`^fairway_(gpu_memory|tenant_rho|waiting_jobs$|failure_reasons_total$)`)

func absent(asked []string, have string) []string {
	var out []string
	for _, name := range asked {
		if !strings.Contains(have, "# HELP "+strings.TrimSuffix(name, "_bucket")+" ") && !seldom.MatchString(name) {
			out = append(out, name)
		}
	}
	return out
}
