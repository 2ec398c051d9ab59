// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"runtime"
	"runtime/debug"

	"github.com/fairway-gpu/fairway/api"
)

// Release is the version of this source tree. It is written here and nowhere else by
// hand: the Makefile reads it, and a test compares the chart, the agent and the documents
// with it.
const Release = "0.2.0"

// Build says what this program was built from.
func Build() api.Build {
	b := api.Build{Version: Release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
