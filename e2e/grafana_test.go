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

	"github.com/fairway-gpu/fairway/live"
)

// TestGrafana: every metric that the dashboard file asks for is one that the
// daemon has.
func TestGrafana(t *testing.T) {
	file, err := os.ReadFile("../deploy/grafana/fairway.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(file) {
		t.Fatal("deploy/grafana/fairway.json is not JSON")
	}
	d := startDaemon(t, shortDir(t), "--slots", "2")
	s := live.Submission{}
	s.Command, s.GPUs = []string{"/bin/sleep", "60"}, 1
	if _, err := d.Submit(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	var have bytes.Buffer
	if err := d.Metrics(context.Background(), &have); err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`fairway_[a-z_]+`).FindAllString(string(file), -1)
	if len(asked) < 10 {
		t.Fatalf("the dashboard asks for %d metrics; want more", len(asked))
	}
	for _, name := range asked {
		if !strings.Contains(have.String(), "# HELP "+strings.TrimSuffix(name, "_bucket")+" ") {
			// Measured only where there is something to measure.
			if !strings.HasPrefix(name, "fairway_gpu_memory") && !strings.HasPrefix(name, "fairway_tenant_rho") {
				t.Errorf("the dashboard asks for %s, which the daemon does not have", name)
			}
		}
	}
}
