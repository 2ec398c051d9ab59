// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command cluster runs a small Kubernetes cluster with Fairway on this machine, for
// people who want to try it: a real control plane, simulated GPU nodes or two real
// ones, the operator, and a gang that runs. "make cluster" builds what it needs and
// starts it. It needs neither Docker nor a network.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	var o options
	flag.StringVar(&o.folder, "dir", "out/cluster", "`folder` for the files of the cluster")
	flag.StringVar(&o.operator, "operator", "bin/fairway-operator", "the operator's `program`")
	flag.BoolVar(&o.real, "real", false, "two real nodes with containers, instead of simulated ones; needs root on Linux")
	flag.IntVar(&o.nodes, "nodes", 4, "simulated nodes, of 8 GPUs each")
	flag.StringVar(&o.policy, "policy", "themis", "scheduling `policy` to begin with")
	flag.BoolVar(&o.exit, "exit", false, "end when the gang runs, instead of at Ctrl-C")
	flag.Parse()
	log.SetLogger(logr.Discard()) // clients complain once without one
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}
