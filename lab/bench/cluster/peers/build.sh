#!/usr/bin/env bash
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the peers of the cluster benchmark from their modules, into the cache folder of
# the control plane: peers/NAME-VERSION has the programs and crds.yaml.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

kueue=v0.18.2
volcano=v1.14.1 volcano_apis=v1.14.0 # its go.mod takes them from a folder that the module does not have

folder=$(../../../../tools/controlplane/build.sh --where)/peers
export CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=mod
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say() { printf 'peers: %s\n' "$*" >&2; }

# fetch MODULE VERSION prints the folder of a module.
fetch() { (cd "$scratch" && go mod download -json "$1@$2") | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'; }

# build NAME PACKAGE builds into the new folder, with the go.mod of the working folder.
build() {
  say "building $1"
  go build -trimpath -ldflags "-s -w" -o "$new/$1" "$2"
}

# crds FILE... joins manifests.
crds() { for f in "$@"; do echo ---; cat "$f"; done >"$new/crds.yaml"; }

# begin NAME VERSION makes the new folder, unless the peer is there already.
begin() {
  [ ! -d "$folder/$1-$2" ] || { say "ready in $folder/$1-$2"; return 1; }
  new="$scratch/$1-$2"
  mkdir -p "$new" "$scratch/module-$1"
  cd "$scratch/module-$1"
}

# finish NAME leaves only the new version.
finish() {
  mkdir -p "$folder"
  rm -rf "$folder/$1"-v*
  mv "$new" "$folder/"
  say "ready in $folder/$(basename "$new")"
}

if begin kueue $kueue; then
  source=$(fetch sigs.k8s.io/kueue $kueue)
  printf 'module peer\n\n%s\n\nrequire sigs.k8s.io/kueue %s\n' "$(grep '^go ' "$source/go.mod")" $kueue >go.mod
  # It reads the certificate of its metrics from a fixed path, even without metrics.
  sed 's#"/etc/kueue/metrics/certs"#cfg.Webhook.CertDir#' "$source/cmd/kueue/main.go" >main.go
  crds "$source"/config/components/crd/bases/*.yaml
  build kueue .
  finish kueue
fi

if begin volcano $volcano; then
  source=$(fetch volcano.sh/volcano $volcano)
  {
    printf 'module peer\n\n%s\n\nrequire volcano.sh/volcano %s\n\n' "$(grep '^go ' "$source/go.mod")" $volcano
    sed -n '/^replace (/,/^)/p' "$source/go.mod" | sed "s#volcano.sh/apis => .*#volcano.sh/apis => volcano.sh/apis $volcano_apis#"
  } >go.mod
  crds "$source"/config/crd/{volcano,jobflow}/bases/*.yaml
  build vc-scheduler volcano.sh/volcano/cmd/scheduler
  build vc-controller-manager volcano.sh/volcano/cmd/controller-manager
  finish volcano
fi
