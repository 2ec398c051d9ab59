# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A stand-in for the daemon: takes reports over a Unix socket and refuses those
that the real one would refuse (api.AgentReport.Validate)."""

from __future__ import annotations

import json
import math
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Optional

POINT = {"at", "done", "gpus", "batch", "rate", "lr", "noise", "efficiency", "throughput", "goodput", "loss", "metrics"}
SAMPLE = {"nodes", "gpus", "local", "step", "sync", "count"}


def problem(report: Any) -> Optional[str]:
    """What is wrong with a report; None: nothing."""
    unknown = set(report) - {"ask", "done", "saved", "restored", "work", "rate", "save_failed", "can", "resized", "checkpoint", "complete", "training", "point", "pace", "series", "links"}
    if unknown:
        return f"unknown fields {unknown}"
    for name in ("done", "saved", "restored", "work", "rate"):
        if not 0 <= report.get(name, 0) < math.inf:
            return name
    if report.get("can", "unproven") not in ("unproven", "saves", "resizes", "in_place"):
        return "can"
    training = report.get("training")
    if training is not None:
        limits = training["limits"]
        if set(limits) != {"initial", "max", "local_min", "local_max"} or set(training) - {"limits", "fixed", "noise", "samples", "parts"}:
            return "training"
        if not (1 <= limits["initial"] <= limits["max"] and 1 <= limits["local_min"] <= limits["local_max"]):
            return "limits"
        if not 0 <= training.get("fixed", 0) <= limits["max"] or not 0 <= training.get("noise", 0) < math.inf:
            return "fixed or noise"
        parts = training.get("parts", {})
        if set(parts) - {"exchange", "wait", "bubble"} or not all(0 <= seconds <= 1e9 for seconds in parts.values()):
            return f"parts {parts}"
        for s in training.get("samples", []):
            ints = all(isinstance(s[k], int) for k in ("nodes", "gpus", "local"))
            good = 1 <= s["nodes"] <= s["gpus"] and s["local"] >= 1 and 0 <= s["sync"] < s["step"] <= 1e9
            if set(s) != SAMPLE or not ints or not good:
                return f"sample {s}"
    windows = report.get("pace", {"windows": []})["windows"]
    if any(len(w) != len(windows[0]) or not all(0 <= s < math.inf for s in w) for w in windows):
        return f"pace {windows}"
    for series in report.get("series", []):
        columns = [series[name] for name in ("steps", "at", "values", "counts", "mins", "maxs") if name in series]
        if len(columns) not in (3, 6) or len({len(c) for c in columns}) != 1 or not all(math.isfinite(v) for c in columns for v in c):
            return f"series {series}"
        if len(columns) == 6 and not all(low <= v <= high for v, low, high in zip(series["values"], series["mins"], series["maxs"])):
            return f"series {series}"
    point = report.get("point")
    if point is not None:
        if set(point) - POINT or len(point.get("metrics", {})) > 32:
            return f"point {point}"
        if not all(isinstance(point.get(k, 0), int) for k in ("gpus", "batch")) or "T" not in point["at"]:
            return f"point {point}"
    return None


class Daemon:
    """Serves until closed. reports holds what was taken; answer is what every
    report is answered with; status and delay make it misbehave."""

    def __init__(self, folder: Path, token: str = "secret") -> None:
        self.path = Path(folder) / "api.sock"
        self.api = f"unix://{self.path}"
        self.token = token
        self.reports: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.answer: dict[str, Any] = {}
        self.status = 200
        self.delay = 0.0
        self.calls = 0
        self.body: Optional[bytes] = None  # instead of the answer
        self.refuses = ""  # a field that it does not know
        self._server: Any = None

    def start(self, tcp: bool = False) -> "Daemon":
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            def address_string(self) -> str:
                return "unix"

            def log_message(self, *_args: Any) -> None:
                pass

            def do_POST(self) -> None:
                daemon.calls += 1
                body = self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(daemon.delay)
                status = daemon.take(self.path, self.headers.get("Authorization"), body)
                answer: Any = daemon.answer
                if status == 400:
                    answer = {"error": {"code": "invalid", "message": "there is no such field", "field": daemon.refuses}}
                data = daemon.body if daemon.body is not None else json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # the client gave up

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        if tcp:
            self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            self.api = f"http://127.0.0.1:{self._server.server_port}"
        else:
            self.path.unlink(missing_ok=True)
            self._server = Server(str(self.path), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def take(self, path: str, authorization: Optional[str], body: bytes) -> int:
        if self.status != 200:
            return self.status
        if path != "/v1/agent/report" or authorization != "Bearer " + self.token or len(body) > 256 << 10:
            self.problems.append(f"{path} {authorization} {len(body)}")
            return 401
        report = json.loads(body, parse_constant=lambda c: self.problems.append(c))
        wrong = self.refuses if self.refuses in report else problem(report)
        if wrong:
            self.problems.append(wrong)
            return 400
        self.reports.append(report)
        return 200

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def wait_for(condition: Callable[[], Any], seconds: float = 120.0, what: str = "") -> None:
    """Waits until something holds; fails the test if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain {what}")
        time.sleep(0.01)
