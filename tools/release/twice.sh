#!/usr/bin/env bash
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the release of the last commit twice, from clones in two folders, at two times and
# with two umasks, and compares the checksums. Nothing that was compiled before is used,
# unless SHARE=1 says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ -z "$(git status --porcelain)" ] || echo "twice: what is not committed is not in the release" >&2

scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
for n in 1 2; do
  git clone --quiet --no-hardlinks . "$scratch/clone-of-$n"
  (
    cd "$scratch/clone-of-$n"
    umask "00$((n * 2))2"
    [ -n "${SHARE-}" ] || export GOCACHE=$scratch/cache-$n
    make --no-print-directory release >"$scratch/log-$n" 2>&1 || { tail -20 "$scratch/log-$n" >&2; exit 1; }
  )
done
if ! diff "$scratch"/clone-of-{1,2}/out/release/SHA256SUMS; then
  echo "twice: these differ" >&2
  exit 1
fi
cat "$scratch/clone-of-1/out/release/SHA256SUMS"
