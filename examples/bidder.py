# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A bidder that bids for the GPUs of an app, as described in docs/bidding.md. It needs
only Python's standard library. Put what your search framework knows into `speed` and
--work. The secret comes from the environment, and the program prints its address:

    export BIDDER_SECRET=$(openssl rand -hex 16)
    python3 examples/bidder.py --port 9000 --work 360000 &
    fairway app agent sweep http://127.0.0.1:9000 --secret-env BIDDER_SECRET
"""

import argparse
import hmac
import json
import os
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_REQUEST = 8 << 20


def speed(shares):
    """Work per second, in GPUs. Each additional node costs 10 %."""
    gpus = sum(s["gpus"] for s in shares)
    return gpus * 0.9 ** max(0, len({s["node"] for s in shares}) - 1)


def rho(ask, work, take=()):
    """Finish-time fairness of the app with these GPUs for one lease, and at least its
    equal share after that."""
    app, lease = ask["app"], ask["lease_s"]
    share = max(1.0, app["cluster_gpus"] / max(1.0, app["contention"]))
    then, now = (datetime.fromisoformat(t[:19]) for t in (app["submitted"], ask["now"]))
    have = speed(list(app["holds"]) + list(take))
    if have * lease < work:
        left = lease + (work - have * lease) / max(share, have)
    else:
        left = work / have
    return max(0.001, (max(0.0, (now - then).total_seconds()) + left) / (work / share))


def bid(offer, work):
    """One row for each number of gangs, on the fewest nodes."""
    best = rho(offer, work)
    rows = [{"take": [], "rho": best}]
    free = sorted(offer["free"], key=lambda f: -f["gpus"])
    gang, task = max(1, offer["gang"]), max(1, offer["task"])
    step = gang * max(1, offer["demand"] // gang // 64)
    for want in range(gang, offer["demand"] + 1, step):
        take, missing = [], want
        for f in free:
            if gpus := min(missing, f["gpus"] - f["gpus"] % task):
                take.append({"node": f["node"], "gpus": gpus})
                missing -= gpus
        if missing:
            break
        if (value := rho(offer, work, take)) < best:
            rows.append({"take": take, "rho": (best := value)})
    return {"round": offer["round"], "rows": rows}


class Bidder(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    secret, work = "", 1.0

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        if size > MAX_REQUEST:
            self.close_connection = True
            return self.answer(413, {"error": "too large"})
        body = self.rfile.read(size)
        shown = self.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(shown, f"Bearer {self.secret}".encode()):
            return self.answer(401, {"error": "wrong secret"})
        replies = {
            "/v1/rho": lambda q: {"rho": rho(q, self.work)},
            "/v1/bid": lambda q: bid(q, self.work),
            "/v1/win": lambda q: print("holds", q["jobs"], flush=True) or {},
        }
        if self.path not in replies:
            return self.answer(404, {"error": "no such question"})
        try:
            reply = replies[self.path](json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            return self.answer(400, {"error": repr(e)})
        return self.answer(200, reply)

    def answer(self, status, value):
        data = json.dumps(value, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--port", type=int, default=9000)
    p.add_argument("--work", type=float, default=360_000.0, help="remaining work in GPU-seconds")
    a = p.parse_args()
    Bidder.secret, Bidder.work = os.environ["BIDDER_SECRET"], a.work
    server = ThreadingHTTPServer(("127.0.0.1", a.port), Bidder)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
