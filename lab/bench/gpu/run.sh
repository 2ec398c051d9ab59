#!/usr/bin/env bash
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs a mix of real PyTorch jobs under "fairway up" on the GPUs of this machine
# and records the results: lab/bench/gpu/run.sh OUT [SECONDS]. Needs bin/fairway and
# a python3 with PyTorch. "python3 lab/bench/gpu/report.py OUT" makes the report.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd); seconds=${2:-330}
cd "$(dirname "$0")/../../.."
root=$PWD; fairway=$root/bin/fairway; data=$(mktemp -d /tmp/fwXXXX); chmod 711 "$data"
export PYTHONPATH=$root/python/src FAIRWAY_ADDRESS=unix://$data/fairway.sock
cat > "$data/fairway.yaml" <<YAML
policy: las:lease=25s
report: 3s
notice: 20s
listen: {address: "127.0.0.1:8460", public_metrics: true}
YAML
"$fairway" up --config "$data/fairway.yaml" --data "$data" > "$out/daemon.log" 2>&1 &
daemon=$!
trap 'kill $daemon 2>/dev/null || true' EXIT
until "$fairway" status > /dev/null 2>&1; do sleep 0.2; done
"$fairway" nodes > "$out/nodes-before.txt"
submit() { "$fairway" submit --notice 20s "$@"; }
train="python3 lab/bench/gpu/train.py"
submit --name residual --batch 128 --batch-max 1024 --adapt -- $train --model residual --epochs 60
submit --name tokens -- $train --model tokens --epochs 60 --batch 64
submit --name residual-small -- $train --model residual --epochs 14 --batch 256
submit --name trial-a --app search -- $train --model tokens --epochs 8 --lr 0.01
submit --name trial-b --app search -- $train --model tokens --epochs 8 --lr 0.05
submit --name bug -- python3 -c 'import torch; x = torch.zeros(4, device="cuda"); torch.cuda.synchronize(); print(x[[1, 2]] @ torch.zeros(3, device="cuda"))'
end=$((SECONDS + seconds)); n=0; killed=
while [ $SECONDS -lt $end ]; do
  sleep 5; n=$((n + 1))
  curl -sf --unix-socket "$data/fairway.sock" http://fairway/v1/nodes > "$out/nodes-$(printf %03d $n).json" || true
  "$fairway" ps --all > "$out/ps-last.txt" || true
  if [ $n = 12 ]; then "$fairway" explain residual-1 > "$out/explain-running.txt" || true; "$fairway" policy set --dry-run pollux > "$out/policy-dry-run.txt" || true; fi
  if [ $n = 20 ]; then # kill only the daemon: jobs continue and are adopted
    kill -9 $daemon; sleep 2; "$fairway" up --config "$data/fairway.yaml" --data "$data" >> "$out/daemon.log" 2>&1 & daemon=$!; killed=1; sleep 2
  fi
  if [ -z "$("$fairway" ps --json | python3 -c 'import json,sys; d=json.load(sys.stdin); print(*[j["id"] for j in (d.get("jobs") if isinstance(d, dict) else d)])')" ]; then break; fi
done
for job in $("$fairway" ps --all --json | python3 -c 'import json,sys; d=json.load(sys.stdin); print(*[j["id"] for j in (d.get("jobs") if isinstance(d, dict) else d)])'); do
  "$fairway" explain "$job" --json > "$out/explain-$job.json"; "$fairway" explain "$job" > "$out/explain-$job.txt"
  curl -sf --unix-socket "$data/fairway.sock" "http://fairway/v1/jobs/$job/points" > "$out/points-$job.json"
  "$fairway" logs "$job" > "$out/log-$job.txt" 2>&1 || true
done
curl -sf --unix-socket "$data/fairway.sock" http://fairway/v1/history > "$out/history.json"
curl -sf http://127.0.0.1:8460/metrics > "$out/metrics.txt"
"$fairway" events > "$out/events.txt"
"$fairway" ps --all > "$out/ps-last.txt"
nvidia-smi > "$out/nvidia-smi.txt" || true
cat "$out/ps-last.txt"
