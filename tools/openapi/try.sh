#!/usr/bin/env bash
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# Generates a Python client from the API's OpenAPI document with openapi-python-client, as
# somebody would who has no client of ours, and submits and follows a job with it. It needs
# a network the first time, to install the generator. CLIENT=FOLDER keeps the client.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || { kill "$pid"; wait "$pid" || true; }; rm -rf "$scratch"' EXIT
chmod 711 "$scratch"

venv=${VENV:-bin/openapi}
if [ ! -x "$venv/bin/openapi-python-client" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'openapi-python-client>=0.26,<1'
fi
PATH=$(cd "$venv/bin" && pwd):$PATH

go build -trimpath -o "$scratch/fairway" ./cmd/fairway
export FAIRWAY_ADDRESS=unix://$scratch/data/fairway.sock
"$scratch/fairway" up --data "$scratch/data" --listen 127.0.0.1:0 --slots 2 >"$scratch/up" 2>&1 &
pid=$!
until "$scratch/fairway" status >/dev/null 2>&1; do
  kill -0 "$pid" || { cat "$scratch/up"; exit 1; }
  sleep 0.2
done
address=$(grep -o 'http://127.0.0.1:[0-9]*' "$scratch/up" | head -1)
# A daemon of root starts no job for a token without a user of the machine.
account=(); [ "$(id -u)" != 0 ] || account=(--run-as nobody)
token=$("$scratch/fairway" token create --user ada --role user "${account[@]}" | tail -1)

python3 - "$address" "$scratch/openapi.json" <<'PY'
import sys, urllib.request
open(sys.argv[2], "wb").write(urllib.request.urlopen(sys.argv[1] + "/openapi.json").read())
PY
out=${CLIENT:-$scratch/client}
openapi-python-client generate --path "$scratch/openapi.json" --output-path "$out" --meta none --overwrite --fail-on-warning
mkdir -p "$scratch/site" && ln -s "$(cd "$out" && pwd)" "$scratch/site/fairway_api"
PYTHONPATH=$scratch/site python3 tools/openapi/use.py "$address" "$token"
