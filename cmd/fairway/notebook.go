// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func newNotebook() *cobra.Command {
	f := &interactive{}
	c := &cobra.Command{
		Use:   "notebook [flags]",
		Short: "Start Jupyter on GPUs of this machine and print its address",
		Long: `Start Jupyter on GPUs of this machine, in this folder and environment, and print its
address. Jupyter must be installed in the environment that is active in this shell.

It is a job like any other. It ends when no kernel, terminal or page has been active
for as long as --idle. Only this machine can reach it: from elsewhere, forward the port, for
example with "ssh -L 8888:127.0.0.1:8888 HOST" (the port is in the address).

Ctrl-C asks: once more cancels the job, Enter leaves it running. The token in the
address is known to nobody else; whoever has it can run programs as you.

Exit codes: as of "fairway run".`,
		Example: `  fairway notebook
  fairway notebook --gpus 2 --idle 2h`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return f.notebook(c) },
	}
	f.flags(c, "notebook")
	return c
}

// findJupyter returns the server to start, and the page it shows.
func findJupyter() (program, page string, err error) {
	for _, p := range [][2]string{{"jupyter-lab", "lab"}, {"jupyter-notebook", "tree"}} {
		if path, err := exec.LookPath(p[0]); err == nil {
			return path, p[1], nil
		}
	}
	where := "this shell's PATH"
	if dir := cmp.Or(os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")); dir != "" {
		where = dir
	}
	return "", "", fmt.Errorf("notebook: Jupyter is not in %s: install it there (python3 -m pip install jupyterlab), or activate the environment that has it", where)
}

func (f *interactive) notebook(c *cobra.Command) error {
	program, page, err := findJupyter()
	if err != nil {
		return err
	}
	daemon, err := f.dialHere("notebook")
	if err != nil {
		return err
	}
	defer daemon.Close()
	port, err := unusedPort()
	if err != nil {
		return err
	}
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails
	token, idle := hex.EncodeToString(secret), strconv.Itoa(int(f.idle.D().Seconds()))
	f.job.SecretValues = map[string]string{"JUPYTER_TOKEN": token}
	command := []string{program, "--no-browser", "--ip=127.0.0.1", "--port=" + strconv.Itoa(port), "--ServerApp.port_retries=0",
		"--ServerApp.shutdown_no_activity_timeout=" + idle, "--MappingKernelManager.cull_idle_timeout=" + idle}
	if os.Geteuid() == 0 {
		command = append(command, "--allow-root")
	}
	j, err := f.submit(c.Context(), daemon, command...)
	if err != nil {
		return err
	}
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	a := attached{daemon: daemon, job: j, in: c.InOrStdin(), out: c.ErrOrStderr(), told: c.ErrOrStderr()}
	j, err = a.stay(c.Context(), func(ctx context.Context) {
		go func() {
			if answers(ctx, address+"/api") {
				fmt.Fprintf(c.OutOrStdout(), "%s/%s?token=%s\n", address, page, token)
			}
		}()
		a.follow(ctx)
	})
	if err != nil {
		return err
	}
	return ownExit(j)
}

// answers waits until a server answers, or the context ends.
func answers(ctx context.Context, address string) bool {
	caller := &http.Client{Timeout: 5 * time.Second}
	for ctx.Err() == nil {
		if r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil); err == nil {
			if answer, err := caller.Do(r); err == nil {
				answer.Body.Close()
				return true
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return false
}
