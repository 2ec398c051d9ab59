// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriteConfig(t *testing.T) {
	addresses := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	long := map[string]any{"lease": "15s", "renew": "10s", "retry": "2s"}
	for name, test := range map[string]struct {
		config map[string]any
		want   map[string]any
	}{
		"none": {nil, map[string]any{
			"api":     map[string]any{"address": "127.0.0.1:1", "url": "http://127.0.0.1:1"},
			"metrics": "127.0.0.1:2", "health": "127.0.0.1:3", "leader": long,
		}},
		"own": {map[string]any{"policy": "fifo", "metrics": ":1", "leader": map[string]any{}, "api": map[string]any{"url": "http://x"}}, map[string]any{
			"api":     map[string]any{"address": "127.0.0.1:1", "url": "http://x"},
			"metrics": "127.0.0.1:2", "health": "127.0.0.1:3", "policy": "fifo", "leader": map[string]any{},
		}},
	} {
		file := filepath.Join(t.TempDir(), "c.json")
		if err := writeConfig(file, test.config, addresses); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
