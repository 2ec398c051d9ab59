// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// kube runs kubectl as an administrator.
func (q *quick) kube(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, q.kubectl, append([]string{"--kubeconfig", q.cluster.Kubeconfig}, args...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// show prints what runs, and how to go on.
func (q *quick) show(ctx context.Context) error {
	for _, args := range [][]string{{"get", "trainingjobs", "-n", team}, {"get", "pods", "-n", team, "-o", "wide"}} {
		text, err := q.kube(ctx, args...)
		if err != nil {
			return err
		}
		fmt.Fprintf(q.out, "$ kubectl %s\n%s\n", strings.Join(args, " "), text)
	}
	if q.exit {
		return nil
	}
	config := filepath.Join(q.folder, "kubeconfig")
	token := fmt.Sprintf("%s --kubeconfig %s create token %s -n %s --audience fairway", q.kubectl, config, trainer, team)
	fmt.Fprintf(q.out, `Go on in another shell:

  export KUBECONFIG=%s PATH=%s:$PATH
  kubectl get trainingjobs -A
  kubectl explain trainingjob.spec

  fairway context add kube --address %s \
    --token-command '%s'
  fairway --context kube ps

The dashboard is at %s; log in with a token:

  kubectl create token %s -n %s --audience fairway

Logs are in %s. Ctrl-C ends everything.
`, config, filepath.Join(q.folder, "bin"), q.fairway.API, token, q.fairway.API, trainer, team, q.files())
	return nil
}
