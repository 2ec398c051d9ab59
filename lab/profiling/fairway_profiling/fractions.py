# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures models that may use a part of the GPU's threads, under NVIDIA's multi-process service."""

from . import catalogue, solo
from .pairs import SharedServer
from .worker import Failed, Worker

COLUMNS = ("threads", *solo.COLUMNS)

THREADS = (100, 50, 25)  # percent

# Models and batch sizes that the solo file has: arithmetic, traffic and launches dominate in turn.
CASES = (
    ("torchvision/resnet50", 128), ("torchvision/resnet50", 8), ("plain/bert-base-128", 8), ("torchvision/mobilenet_v2", 256),
    ("plain/gpt-small-256", 2), ("plain/lstm-2x650", 320), ("torchvision/vgg16", 8), ("plain/unet-32@256", 24),
)


class Fractions(solo.Solo):
    """Each row has a process of its own: the limit is set when a process opens the GPU."""

    def todo(self):
        done = self.table.keys("model", "batch", "threads")
        for model, batch in CASES:
            for threads in THREADS:
                if (model, str(batch), str(threads)) not in done:
                    yield catalogue.by_name()[model], batch, threads

    def run(self, processes):
        before = len(self.table.rows)
        todo = list(self.todo())
        with SharedServer() as environment:
            start = lambda i: Worker(processes, todo[i][0].name,
                                     {**environment, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(todo[i][2])})
            worker = start(0) if todo else None
            for i, (entry, batch, self.threads) in enumerate(todo):
                if self.late():
                    break
                following = start(i + 1) if i + 1 < len(todo) else None
                try:
                    self.measure(worker, entry, batch, worker.call("begin", self.options.device))
                except Failed as failure:
                    self.record(entry, batch, {"status": failure.status, "note": failure.note})
                worker.close()
                worker = following
            if worker:
                worker.close()
        return len(self.table.rows) - before

    def record(self, entry, batch, row):
        row.update(threads=self.threads)
        super().record(entry, batch, row)
