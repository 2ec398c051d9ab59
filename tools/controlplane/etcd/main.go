// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command etcd is the etcd server: its module holds the program as a library
// and no command that "go build" can fetch by name.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
