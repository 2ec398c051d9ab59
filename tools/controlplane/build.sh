#!/usr/bin/env bash
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds a Kubernetes control plane for Fairway's tests, at the versions of
# go.mod, into a cache folder named after what goes into it. README.md says why.
#
#   build.sh          etcd, kube-apiserver, kube-controller-manager,
#                     kube-scheduler, kwok, kubectl
#   build.sh --real   these, and what a real node needs: kubelet, containerd,
#                     runc and CNI plugins
#   build.sh --where  print the cache folder and build nothing
#
# FAIRWAY_BUILD_JOBS bounds how many packages compile at once (default: one for
# each CPU; linking one program takes up to 2.6 GB of memory).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kwok kubectl)

say() { printf 'controlplane: %s\n' "$*" >&2; }

# Package kubetest computes the same name: keep the files and their order.
digest() {
  if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}
name=$(cat go.mod go.sum build.sh etcd/main.go pod/main.go | digest | cut -c1-16)
folder="${XDG_CACHE_HOME:-$HOME/.cache}/fairway/controlplane/$name"

real=
case "${1-}" in
  --where) echo "$folder"; exit ;;
  --real) real=yes; programs+=(kubelet pod) ;;
  '') ;;
  *) say "unknown argument $1; known are --real and --where"; exit 2 ;;
esac

complete() {
  local p
  for p in "${programs[@]}"; do [ -x "$folder/$p" ] || return 1; done
  [ -z "$real" ] || [ -x "$folder/node/bin/containerd" ]
}

if complete; then say "ready in $folder"; exit; fi

mkdir -p "$folder"
# One builder at a time: a second one waits and finds the work done.
exec 9>"$folder/.lock"
if command -v flock >/dev/null; then
  flock -n 9 || { say "another build is under way; waiting for it"; flock 9; }
  rm -rf "$folder"/.building.* # of builders that were killed
fi

# Files appear under their names by a rename, so that an interrupted build
# leaves no half-written program behind.
scratch=$(mktemp -d "$folder/.building.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

export CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=readonly
jobs=(); [ -z "${FAIRWAY_BUILD_JOBS-}" ] || jobs=(-p "$FAIRWAY_BUILD_JOBS")

# Without a stamp the programs call themselves v0.0.0, and clients that compare
# versions (kubectl, kubelet, feature gates) misbehave.
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}; minor=${minor%%.*}
stamp="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  stamp+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
  stamp+=" -X $package.gitTreeState=clean -X $package.gitCommit=module -X $package.buildDate=1970-01-01T00:00:00Z"
done

source_of() {
  case "$1" in
    etcd | pod) echo "./$1" ;;
    kwok) echo sigs.k8s.io/kwok/cmd/kwok ;;
    *) echo "k8s.io/kubernetes/cmd/$1" ;;
  esac
}

count=0
for program in "${programs[@]}"; do
  count=$((count + 1))
  [ ! -x "$folder/$program" ] || continue
  say "building $program ($count of ${#programs[@]})"
  begin=$SECONDS
  go build -trimpath ${jobs[@]+"${jobs[@]}"} -ldflags "$stamp" -o "$scratch/$program" "$(source_of "$program")"
  mv "$scratch/$program" "$folder/$program"
  say "built $program in $((SECONDS - begin)) s"
done

# What starts containers comes from the distribution, unpacked and not
# installed: runc needs cgo and libseccomp, and nothing here depends on its
# version.
if [ -n "$real" ] && [ ! -x "$folder/node/bin/containerd" ]; then
  say "unpacking containerd, runc and CNI plugins"
  command -v apt-get >/dev/null || { say "a real node needs Debian's packages: apt-get is not here"; exit 1; }
  mkdir "$scratch/debs" "$scratch/root" "$scratch/node" "$scratch/node/bin" "$scratch/node/cni"
  mkdir -p "$scratch/lists/partial" # lists of our own: the machine may have none, and keeps what it has
  (cd "$scratch/debs" && apt-get -qq -o Dir::State::lists="$scratch/lists" -o APT::Sandbox::User=root update &&
    apt-get -qq -o Dir::State::lists="$scratch/lists" -o APT::Sandbox::User=root download containerd runc containernetworking-plugins) ||
    { say "cannot download the packages with apt-get"; exit 1; }
  for deb in "$scratch"/debs/*.deb; do dpkg -x "$deb" "$scratch/root"; done
  for program in containerd containerd-shim-runc-v2 ctr; do mv "$scratch/root/usr/bin/$program" "$scratch/node/bin/"; done
  mv "$scratch/root/usr/sbin/runc" "$scratch/node/bin/"
  for plugin in bridge host-local loopback; do mv "$scratch/root/usr/lib/cni/$plugin" "$scratch/node/cni/"; done
  mv "$scratch/node" "$folder/node"
fi

say "ready in $folder"
