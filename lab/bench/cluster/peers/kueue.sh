#!/usr/bin/env bash
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds Kueue from its module and runs the cluster benchmark on it, with
# kube-scheduler to bind its pods. From the root of the checkout:
#
#   lab/bench/cluster/peers/kueue.sh [NODES [JOBS [MODE]]]      default: 1000 5000 fill
#
# The program, its manifests and the results are in out/kueue. Kueue's webhooks are
# not registered: all objects are created valid.
set -euo pipefail

version=v0.14.0
nodes=${1:-1000} jobs=${2:-5000} mode=${3:-fill}
mkdir -p out/kueue
out=$(cd out/kueue && pwd)

if [ ! -x "$out/kueue-$version" ]; then
  module=$(cd "$out" && go mod download -json "sigs.k8s.io/kueue@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  rm -rf "$out/source"
  cp -r "$module" "$out/source"
  chmod -R u+w "$out/source"
  # It reads the certificate of its metrics from a fixed path, even without metrics.
  sed -i.before "s#/etc/kueue/metrics/certs#$out#" "$out/source/cmd/kueue/main.go"
  for crd in "$out"/source/config/components/crd/bases/*.yaml; do
    echo ---
    cat "$crd"
  done >"$out/crds.yaml"
  openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=kueue -keyout "$out/tls.key" -out "$out/tls.crt" 2>/dev/null
  (cd "$out/source" && go build -o "../kueue-$version" ./cmd/kueue)
  rm -rf "$out/source"
fi

# The request rate limit is that of Fairway.
cat >"$out/config.yaml" <<EOF
apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
namespace: kueue-system
health: {healthProbeBindAddress: "127.0.0.1:28081"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: 29443, certDir: $out}
internalCertManagement: {enable: false}
leaderElection: {leaderElect: false}
controller:
  groupKindConcurrency: {Job.batch: 5, Workload.kueue.x-k8s.io: 5}
clientConnection: {qps: 1000, burst: 2000}
integrations: {frameworks: [batch/job]}
EOF

# One queue for each namespace, and all GPUs behind them.
cat >"$out/queues.yaml" <<EOF
apiVersion: v1
kind: Namespace
metadata: {name: kueue-system}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: gpu}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu, nvidia.com/gpu]
      flavors:
        - name: gpu
          resources:
            - {name: cpu, nominalQuota: 1000000}
            - {name: nvidia.com/gpu, nominalQuota: $((nodes * 8))}
EOF
for team in 0 1 2 3; do
  cat >>"$out/queues.yaml" <<EOF
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: all, namespace: team-$team}
spec: {clusterQueue: all}
EOF
done

exec go run ./lab/bench/cluster --nodes "$nodes" --jobs "$jobs" --mode "$mode" --out "$out/$mode-$nodes" \
  --scheduler peer --kind job --peer-scheduler default-scheduler --peer-suspend \
  --peer-labels kueue.x-k8s.io/queue-name=all --peer-apply "$out/crds.yaml" --peer-apply "$out/queues.yaml" \
  --peer-command "exec '$out/kueue-$version' --config '$out/config.yaml' --feature-gates=VisibilityOnDemand=false"
