// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package operator installs Fairway in a cluster of kubetest, from the manifests
// that users apply, and runs its operator as a process, with the rights of its
// service account.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fairway-gpu/fairway/kube/kubetest"
)

// Namespace is where the manifests put the operator.
const Namespace = "fairway-system"

// account is the operator's service account.
const account = "fairway-operator"

// Build builds the operator into a folder, with flags of "go build", and returns its path.
func Build(ctx context.Context, folder string, flags ...string) (string, error) {
	root, err := kubetest.ModuleRoot()
	if err != nil {
		return "", err
	}
	return BuildIn(ctx, root, folder, flags...)
}

// BuildIn does the same with another version, whose source is in a folder.
func BuildIn(ctx context.Context, root, folder string, flags ...string) (string, error) {
	path := filepath.Join(folder, "fairway-operator")
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-o", path}, flags, []string{"./cmd/fairway-operator"})...)
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build operator: %w: %s", err, out)
	}
	return path, nil
}

// Options configures an operator.
type Options struct {
	Program string // path of fairway-operator; required
	// Name is the name of its log and its files; default "operator".
	Name string
	// Host is the address to listen on; default 127.0.0.1.
	Host string
	// Config holds settings of the configuration file that differ from the default. The
	// addresses to listen on are added, and a longer lease unless leader is set.
	Config map[string]any
	// Pod is the name of the pod that it is told it runs in, if any.
	Pod string
	// Through changes the connection to the API server, such as Link.Through; nil:
	// direct.
	Through func(*rest.Config) *rest.Config
}

// Operator is a running operator.
type Operator struct {
	*kubetest.Process
	API     string // URL of Fairway's API, which only the leader serves
	Metrics string // URL of /metrics
	Health  string // URL of /healthz and /readyz
}

// Start runs an operator until the cluster ends, or it is stopped.
func Start(ctx context.Context, c *kubetest.Cluster, o Options) (*Operator, error) {
	if o.Name == "" {
		o.Name = "operator"
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	as, err := c.ServiceAccount(ctx, Namespace, account)
	if err != nil {
		return nil, fmt.Errorf("start operator: %w", err)
	}
	if o.Through != nil {
		as = o.Through(as)
	}
	kubeconfig, err := c.WriteKubeconfig(o.Name, as)
	if err != nil {
		return nil, fmt.Errorf("start operator: %w", err)
	}
	addresses, err := kubetest.FreeAddresses(o.Host, 3)
	if err != nil {
		return nil, fmt.Errorf("start operator: %w", err)
	}
	file := filepath.Join(c.Folder, o.Name+".json")
	if err := writeConfig(file, o.Config, addresses); err != nil {
		return nil, fmt.Errorf("start operator: %w", err)
	}
	command := exec.Command(o.Program, "run", "--config", file, "--kubeconfig", kubeconfig, "--namespace", Namespace)
	command.Env = os.Environ()
	if o.Pod != "" {
		command.Env = append(command.Env, "POD_NAME="+o.Pod)
	}
	p, err := c.Run(o.Name, command)
	if err != nil {
		return nil, fmt.Errorf("start operator: %w", err)
	}
	url := func(i int) string { return "http://" + addresses[i] }
	return &Operator{Process: p, API: url(0), Metrics: url(1), Health: url(2)}, nil
}

// writeConfig writes the configuration file.
func writeConfig(file string, config map[string]any, addresses []string) error {
	config = maps.Clone(config)
	if config == nil {
		config = map[string]any{}
	}
	// A machine that stands still for some seconds, as one with many tests does, is no reason
	// to lose the lead.
	if _, ok := config["leader"]; !ok {
		config["leader"] = map[string]any{"lease": "15s", "renew": "10s", "retry": "2s"}
	}
	api := map[string]any{}
	if own, ok := config["api"].(map[string]any); ok {
		maps.Copy(api, own)
	}
	// Pods reach the API at this URL. The default is a Service, which has no pods here.
	if _, ok := api["url"]; !ok {
		api["url"] = "http://" + addresses[0]
	}
	api["address"] = addresses[0]
	config["api"], config["metrics"], config["health"] = api, addresses[1], addresses[2]
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return os.WriteFile(file, text, 0o600)
}

// WaitLeads waits until the operator leads: only a leader serves the API.
func (o *Operator) WaitLeads(ctx context.Context) error {
	for o.Running() {
		err := o.isReady(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until the operator leads: %w; its log ends: %s", errors.Join(ctx.Err(), err), o.Tail(5))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("wait until the operator leads: it ended: %s", o.Tail(5))
}

func (o *Operator) isReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.API+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
