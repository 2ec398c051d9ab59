# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""A process that trains one model on command, and its controller.

The process is forked from a server that has imported the libraries but never touched the
GPU. It builds its model on the CPU at once, and waits for "begin" before it opens the GPU:
the next model is built while the present one is measured, and disturbs nothing.
"""

import gc
import multiprocessing
import os
import statistics
import time

from . import catalogue
from .recipe import Recipe

AHEAD = 2  # steps launched but not finished, as in a loop that reads its loss now and then
PRELOAD = ["torch", "torchvision", "timm"]
REPLY_SECONDS = 60
COMPILE_SECONDS = 240  # for the first step of a model that torch.compile translates


class Failed(Exception):
    """A command failed; status is the status of the row."""

    def __init__(self, status, note):
        super().__init__(f"{status}: {note}")
        self.status, self.note = status, note


class Trainer:
    """Lives in the worker: a model, its optimiser and one batch."""

    def __init__(self, name, recipe=None):
        import torch
        self.torch = torch
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.entry = catalogue.by_name()[name]
        self.recipe = recipe or Recipe("")
        self.model = self.entry.build() if recipe is None else None
        self.optimizer = None

    def begin(self, device):
        self.device = self.torch.device(device)
        self.cuda = self.device.type == "cuda"
        if self.model is None:  # a CPU takes minutes to draw the weights of billions of parameters
            with self.device:
                self.model = self.entry.build()
        self.model.train()
        self.model.to(self.device)
        self.recipe.apply(self.model)
        return {"params": sum(p.numel() for p in self.model.parameters())}

    def prepare(self, batch):
        """Sets up a batch size and takes the first step, which loads the kernels."""
        if self.optimizer:
            self.release()
        self.arguments, self.target = self.entry.inputs(batch, self.device)
        self.arguments = tuple(map(self.recipe.cast, self.arguments))
        self.optimizer = self.recipe.optimizer(self.model.parameters())
        self.step()
        self.wait()
        return {"input": "x".join(map(str, self.arguments[0].shape[1:])) or "1"}

    def release(self):
        self.arguments = self.target = self.optimizer = None
        self.model.zero_grad(set_to_none=True)
        gc.collect()
        if self.cuda:
            self.torch.cuda.empty_cache()
            self.torch.cuda.reset_peak_memory_stats()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.recipe.precision(self.device.type):
            loss = self.entry.loss(self.model(*self.arguments), self.target)
        loss.backward()
        self.optimizer.step()
        return loss

    def wait(self):
        if self.cuda:
            self.torch.cuda.synchronize()

    def mark(self):
        if not self.cuda:
            return time.perf_counter()
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def run(self, seconds, settle=0.0, start_at=0.0):
        """Trains for settle + seconds; counts the steps that end after settling and in time.

        The first of them is timed from the end of the step before it. Work is launched until
        the last moment that counts, so of two that start together neither is alone before.
        """
        self.wait()
        while time.monotonic() < start_at:
            pass
        began = time.monotonic()
        marks = [self.mark()]
        while len(marks) == 1 or time.monotonic() - began < settle + seconds:
            loss = self.step()
            marks.append(self.mark())
            if self.cuda and len(marks) > AHEAD:
                marks[-1 - AHEAD].synchronize()
        self.wait()
        ended = time.monotonic()
        if self.cuda:
            times = [0.0] + [marks[0].elapsed_time(m) for m in marks[1:]]
        else:
            times = [(m - marks[0]) * 1000 for m in marks]
        counted = counted_steps(times, settle * 1000, (settle + seconds) * 1000)
        return {"began": began, "ended": ended, "steps": len(counted), "loss": loss.item(),
                "step_ms_mean": statistics.fmean(counted), "step_ms_median": statistics.median(counted),
                "step_ms_p10": quantile(counted, 0.1), "step_ms_p90": quantile(counted, 0.9),
                "allocated": self.torch.cuda.max_memory_allocated() if self.cuda else 0,
                "reserved": self.torch.cuda.max_memory_reserved() if self.cuda else 0}


def quantile(values, share):
    """With linear interpolation."""
    values = sorted(values)
    at = share * (len(values) - 1)
    low = int(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def counted_steps(times, start, end):
    """Lengths of the steps that end after start and by end; times[0] is when the first began.

    Where a step outlasts the window, that one step counts.
    """
    steps = [(b, b - a) for a, b in zip(times, times[1:])]
    return ([length for at, length in steps if start < at <= end]
            or [length for at, length in steps if at > end][:1]
            or [steps[-1][1]])


def _serve(pipe, name, environment, recipe):
    os.environ.update(environment)
    try:
        trainer = Trainer(name, recipe)
        pipe.send(("ok", None))
    except Exception as failure:  # whatever a model library raises becomes a row
        pipe.send(("error", repr(failure)[:200]))
        return
    while True:
        try:
            command, *arguments = pipe.recv()
        except EOFError:
            return
        if command == "quit":
            pipe.close()
            os._exit(0)  # the driver frees the GPU faster than the interpreter does
        try:
            pipe.send(("ok", getattr(trainer, command)(*arguments)))
        except Exception as failure:
            memory = "out of memory" in str(failure).lower()
            pipe.send(("oom" if memory else "error", repr(failure)[:200]))


def context():
    """How processes start. PROFILING_START=spawn is slower, but works where forking fails."""
    # Some libraries look for a GPU when imported; that must not open it.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    processes = multiprocessing.get_context(os.environ.get("PROFILING_START", "forkserver"))
    processes.set_forkserver_preload(PRELOAD)
    return processes


class Worker:
    """The controller."""

    def __init__(self, processes, name, environment=None, recipe=None):
        self.name = name
        self.patience = COMPILE_SECONDS if recipe and "compile" in recipe.words else REPLY_SECONDS
        self.pipe, far = processes.Pipe()
        self.process = processes.Process(target=_serve, args=(far, name, environment or {}, recipe), daemon=True)
        self.process.start()
        far.close()
        self.built = False

    def ready(self):
        """Waits until the model is built, which the first reply says."""
        if not self.built:
            self.built = True
            self.reply()

    def send(self, command, *arguments):
        self.ready()
        try:
            self.pipe.send((command, *arguments))
        except BrokenPipeError as failure:
            raise Failed("died", repr(failure)) from failure

    def reply(self, seconds=None):
        seconds = seconds or self.patience
        try:
            if not self.pipe.poll(seconds):
                raise Failed("timeout", f"no reply in {seconds} s")
            status, value = self.pipe.recv()
        except (EOFError, ConnectionError) as failure:
            raise Failed("died", repr(failure)) from failure
        if status != "ok":
            raise Failed(status, value)
        return value

    def call(self, command, *arguments):
        self.send(command, *arguments)
        return self.reply()

    def leave(self):
        """Tells the process to end, without waiting for it."""
        try:
            self.pipe.send(("quit",))
        except OSError:
            pass

    def close(self):
        """Ends the process and waits until it is gone, and its GPU memory with it."""
        self.leave()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(10)
        self.pipe.close()
