// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// sandboxImage is the image of the container that holds a pod's namespaces.
const sandboxImage = "docker.io/local/sandbox:1"

// nodeScript is the first process in the namespaces of a real node.
//
//go:embed node.sh
var nodeScript []byte

// privateScript has the functions with which nodeScript gives a node private folders.
//
//go:embed private.sh
var privateScript []byte

// writeNodeFiles writes the configuration of containerd, its network plugins and the
// kubelet of a node.
func (c *Cluster) writeNodeFiles(n *realNode, i int) error {
	if err := os.MkdirAll(filepath.Join(n.folder, "cni"), 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	kubeconfig, err := c.kubeconfigForUser("system:node:"+n.name, "system:nodes")
	if err != nil {
		return err
	}
	// Nodes share the pod network, and each hands out a part of it.
	const first, each = 16, 28
	values := map[string]any{
		"Folder": n.folder, "Address": n.address, "Cgroup": n.cgroup, "Sandbox": sandboxImage, "Socket": n.socket(),
		"CNI": filepath.Join(c.programs, "node/cni"), "Runc": filepath.Join(c.programs, "node/bin/runc"),
		"Subnet": c.machine.subnet, "First": first + i*each, "Last": first + (i+1)*each - 1,
		"CA": c.file("ca.crt"),
	}
	for name, text := range map[string]string{"containerd.toml": containerdConfig, "cni/10-bridge.conflist": networkConfig, "kubelet.yaml": kubeletConfig} {
		if err := writeTemplate(filepath.Join(n.folder, name), text, values); err != nil {
			return err
		}
	}
	for name, script := range map[string][]byte{"node.sh": nodeScript, "private.sh": privateScript} {
		if err := os.WriteFile(filepath.Join(n.folder, name), script, 0o600); err != nil {
			return fmt.Errorf("write node script: %w", err)
		}
	}
	if err := os.Symlink(kubeconfig, filepath.Join(n.folder, "kubeconfig")); err != nil {
		return fmt.Errorf("link kubeconfig: %w", err)
	}
	return nil
}

func writeTemplate(path, text string, values any) error {
	parsed, err := template.New(filepath.Base(path)).Option("missingkey=error").Parse(text)
	if err != nil {
		return fmt.Errorf("parse %s: %w", filepath.Base(path), err)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := parsed.Execute(f, values); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return f.Close()
}

// restrict_oom_score_adj: without CAP_SYS_RESOURCE no process may lower the score, and
// runc would fail.
const containerdConfig = `version = 2
root = "{{.Folder}}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt"]
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Sandbox}}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{{.Runc}}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{.CNI}}"
    conf_dir = "{{.Folder}}/cni"
`

const networkConfig = `{
  "cniVersion": "1.0.0", "name": "pods",
  "plugins": [{
    "type": "bridge", "bridge": "pods", "isGateway": true,
    "ipam": {
      "type": "host-local", "routes": [{"dst": "0.0.0.0/0"}],
      "ranges": [[{
        "subnet": "10.214.{{.Subnet}}.0/24", "gateway": "10.214.{{.Subnet}}.1",
        "rangeStart": "10.214.{{.Subnet}}.{{.First}}", "rangeEnd": "10.214.{{.Subnet}}.{{.Last}}"
      }]]
    }
  }]
}
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.Address}}
port: 10250
readOnlyPort: 0
healthzPort: 0
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: false}
  x509: {clientCAFile: {{.CA}}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://{{.Socket}}
cgroupDriver: cgroupfs
cgroupRoot: /{{.Cgroup}}
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
volumePluginDir: {{.Folder}}/volume-plugins
makeIPTablesUtilChains: false
evictionHard: {}
resolvConf: ""
`
