// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package web holds the dashboard that the daemon serves: plain files, as the
// browser gets them. There is no build step and nothing comes from elsewhere,
// so that the pages work offline and under the content security policy
// "default-src 'self'".
package web

import (
	"embed"
	"io/fs"
)

//go:embed index.html icon.svg *.css *.js views/*.js
var files embed.FS

// FS returns the files of the dashboard, index.html at the root.
func FS() fs.FS { return files }
