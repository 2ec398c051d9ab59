# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Training of large models under execution plans, with FSDP2, tensor and pipeline parallelism:

    from fairway.torch import fsdp

    run = fsdp.wrap(model, lambda params: torch.optim.AdamW(params), data, batch_size=64, epochs=1, tensor=split)
    for inputs, targets in run:
        run.step(criterion(run.model(inputs), targets))

or, with plans of pipelines, wrap(..., stages=cut, loss=criterion) and run.learn(inputs, targets).
Fairway chooses one of the job's plans for each attempt. The script goes on where it was,
whatever the plans before and after: parts of the model are put together anew.
"""

from __future__ import annotations

import atexit
import functools
import io
import itertools
import logging
from typing import Any, Callable, Iterable, Optional, Union

import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import fairway
import fairway.torch
from fairway.env import Environment
from fairway.plan import Plan
from fairway.torch import state as checkpoints
from fairway.torch.gang import Reducer, group_of_one
from fairway.torch.gradients import Meter, Shards, local
from fairway.torch.parts import Recorder
from fairway.torch.pipeline import Cut, Loss, Pipeline, cut, keep
from fairway.torch.shardstore import ShardStore
from fairway.torch.together import parts_of, together

try:
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
except ImportError as err:
    raise ImportError(f"fairway.torch.fsdp needs PyTorch 2.6 or later; this is {torch.__version__}") from err

log = logging.getLogger("fairway")

__all__ = ["Run", "keep", "wrap"]

# Applies tensor parallelism to a model, over a mesh of the ranks that share its layers.
Split = Callable[[torch.nn.Module, DeviceMesh], Any]
MakeOptimizer = Callable[[Iterable[torch.nn.Parameter]], Any]


def wrap(
    model: torch.nn.Module,
    optimizer: MakeOptimizer,
    data: Union[DataLoader, Dataset],
    *,
    epochs: float,
    batch_size: Optional[int] = None,
    **options: Any,
) -> "Run":
    """Makes the training of a large model elastic. optimizer makes the optimiser of
    parameters: they are others once the model is divided. See Run for the options, and
    fairway.torch.wrap for the rest."""
    return Run(model, optimizer, data, epochs=epochs, batch_size=batch_size, **options)


class Run(fairway.torch.Run):
    """A training under an execution plan: used as fairway.torch.Run.

    tensor divides the layers among the ranks of a mesh, with PyTorch's
    parallelize_module; without it, plans with tensor parallelism fail. stages leaves the
    model what stage i of n computes (keep helps with its layers), and loss is a function of
    outputs and targets; without both, plans with pipelines fail. blocks returns
    the parts of the model that are gathered one at a time, by default the members of its
    ModuleLists. shard holds options for fully_shard, such as mp_policy. scheduler is a
    function of the optimiser. Without a plan from Fairway, all ranks are replicas."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: MakeOptimizer,
        data: Union[DataLoader, Dataset],
        *,
        tensor: Optional[Split] = None,
        stages: Optional[Cut] = None,
        loss: Optional[Loss] = None,
        blocks: Optional[Callable[[torch.nn.Module], Iterable[torch.nn.Module]]] = None,
        shard: Optional[dict[str, Any]] = None,
        **options: Any,
    ) -> None:
        for name in ("ddp", "scaler"):
            if options.get(name) is not None:
                raise ValueError(f"{name} is given; fairway.torch.fsdp has no use for it (for mixed precision, use bfloat16)")
        agent = options["agent"] = options.get("agent") or fairway.init()
        self.plan = _plan_of(agent.env)
        if self.plan.tensor > 1 and tensor is None:
            raise ValueError(f"the plan divides layers among {self.plan.tensor} ranks; say how (tensor=...), or list plans without tp")
        if self.plan.pipeline > 1 and (stages is None or loss is None):
            raise ValueError(f"the plan divides the model into {self.plan.pipeline} stages; say how (stages=...) and give the loss (loss=...), or list plans without pp")
        self._replicas = self.plan.data
        self._stages, self._loss = stages, loss
        self._pipeline: Optional[Pipeline] = None
        self._parts: list[Any] = []  # of the present batch: for a pipeline its examples, else its losses
        self._tensor, self._blocks, self._shard_options = tensor, blocks or _members_of_lists, dict(shard or {})
        self._shards = Shards(self.plan.pipeline)
        self._store: Optional[ShardStore] = None
        super().__init__(model, optimizer, data, **options)
        if self.agent.env.plan is not None and self.plan.ranks > 1:
            self.loop.recorder = Recorder(self.device)

    # The loop of the training.

    def learn(self, inputs: Any, targets: Any) -> Optional[torch.Tensor]:
        """Does a step with the examples handed out last, by the function given as loss, under any
        plan. When the batch is complete, returns its mean loss on this replica."""
        if self._loss is None:
            raise RuntimeError("learn needs the function of the loss: wrap(..., loss=...)")
        count = self.loop.config.accum + 1
        if self._pipeline is None:
            loss = self._loss(self.model(inputs), targets)
            self._parts.append(loss.detach())
            self.step(loss)
        else:
            if not self._waiting:
                raise RuntimeError("learn was called twice for the same batch")
            self._waiting = False
            self._parts.append((inputs, targets))
            self._micro += 1
        if len(self._parts) < count:
            return None
        parts, self._parts = self._parts, []
        if self._pipeline is None:
            return torch.stack(parts).mean()
        loss = self._pipeline.step(parts)
        self.agent.report(loss=loss)
        self.loop.saw(loss)
        self._step_optimizer(1)  # the gradients of the parts were never apart
        return loss

    def step(self, loss: torch.Tensor) -> bool:
        if self._pipeline is not None:
            raise RuntimeError(f"step(loss) was called under {self.plan}, where no rank has the whole model; call learn(inputs, targets)")
        return super().step(loss)

    # How the model is laid out over the ranks: those of a layer are neighbours, then come the
    # replicas of a stage.

    @property
    def _share(self) -> tuple[int, int]:
        return self.agent.env.rank // self.plan.tensor % self.plan.data, self.plan.data

    @property
    def _stage(self) -> int:
        return self.agent.env.rank // (self.plan.tensor * self.plan.data)

    def _link(self, env: Environment, ddp: dict[str, Any]) -> None:
        if self._source.streams:
            raise TypeError("the data set is iterable; fairway.torch.fsdp needs one with __len__ and __getitem__")

    def _lay_out(self, model: torch.nn.Module, optimizer: MakeOptimizer, scheduler: Any) -> None:
        if not dist.is_initialized():
            group_of_one(self.device)
        degrees = (self.plan.pipeline, self.plan.data, self.plan.tensor)
        mesh = init_device_mesh(self.device.type, degrees, mesh_dim_names=("pipeline", "data", "tensor"))
        _as_on_rank_0(model, self.device)
        if self.plan.pipeline > 1:
            cut(model, self._stages, self._stage, self.plan.pipeline, self.reducer)
        blocks = list(self._blocks(model))
        if self.plan.tensor > 1:
            self._tensor(model, mesh["tensor"])
        options = {"mesh": mesh["data"], "reshard_after_forward": self.plan.kind == "fsdp" and self.plan.data > 1, **self._shard_options}
        if self.plan.offload:
            options.setdefault("offload_policy", CPUOffloadPolicy(pin_memory=self.device.type == "cuda"))
        for block in blocks:
            if self.plan.recompute:
                block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
            fully_shard(block, **options)
        fully_shard(model, **options)
        for part in (*blocks, model):
            if dist.get_backend() == "gloo" and hasattr(part, "set_force_sum_reduction_for_comms"):
                part.set_force_sum_reduction_for_comms(True)  # gloo knows no mean
        self.model = self.module = model
        if self.plan.pipeline > 1:
            self._pipeline = Pipeline(model, self._loss, mesh["pipeline"].get_group(), self.device)
        made = optimizer(model.parameters())
        self.optimizer = together(made)
        self.scheduler = together(scheduler(made)) if scheduler is not None else None
        if self.agent.store is not None:
            self._beside: Reducer = self.reducer.beside()  # for the thread that writes checkpoints
            self._store = ShardStore(self.agent.store.folder, self.agent.env.rank, self._beside)
            atexit.register(self.agent.settle, self.agent.env.notice)  # before the groups end
        log.info("%d replicas, each on %d ranks", self.plan.data, self.plan.tensor * self.plan.pipeline)

    def _at_once(self, size: int, accumulate: int) -> int:
        parts = max(accumulate, self.plan.micro)
        return -(-size * accumulate // (self.plan.data * parts)) if parts > 1 else 0

    def _shorten(self, length: float) -> None:
        gradients = [p.grad for p in self.module.parameters() if p.grad is not None]
        with torch.no_grad():
            norms = torch.stack([n.float() for n in torch._foreach_norm(self._shards.own(gradients))])
            factor = (length / (self._shards.total(norms.square().sum()).sqrt() + 1e-6)).clamp(max=1.0)
            for gradient in gradients:
                local(gradient).mul_(factor.to(gradient.device))

    def _measure_noise(self) -> None:
        if self.loop.measures_noise:
            self._meter = Meter(self.module, self.optimizer, 1, self._shards)
            self.loop.drain_lengths = self._meter.drain

    def _probing(self) -> bool:
        return False  # the exchange is spread over the step

    # Checkpoints.

    def state_dict(self) -> dict[str, Any]:
        """All that is kept but the tensors. Every rank must call it."""
        return dict(self._course(), random=self.reducer.gather(checkpoints.random_state()))

    def _tensors(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.module, parts_of(self.optimizer))
        return {"model": model, "optimizer": optimizer}

    def _save(self, near: bool = False) -> None:
        """Saves what each rank holds: to the memory of its node and of the next one and,
        unless it is to be near, to the disk. The training stands still while it is copied;
        threads of all ranks do the rest together."""
        if self._store is None:
            super()._save()
            return
        if not near:
            self.agent.settle()  # what one rank has yet to write, another may have begun
        course, number = self.state_dict(), 0
        if self.agent.env.rank == 0:
            number = self.agent.store.number(max(self._store.all(), default=0) if not near else 0)
        course, number = self.reducer.share((course, number))
        tensors, why = self._tensors(), ""
        try:
            content = self._copies.take({"tensors": _locals(tensors), "course": course})
        except Exception as err:  # noqa: BLE001: the other ranks must not wait for this one
            why = f"{type(err).__name__}: {err}"
        failed = [str(text) for text in self.reducer.gather(why) if text]
        if failed:
            self.agent.save_failed(failed[0])
        elif near:
            self.agent.save_near(lambda: self._write_near(content, number))
        else:
            gpu = torch.cuda.current_device() if self.device.type == "cuda" else None
            self.agent.write_behind(lambda: lambda: self._write(tensors, content, number, gpu))

    def _write(self, tensors: dict[str, Any], content: checkpoints.Copy, number: int, gpu: Optional[int]) -> None:
        if gpu is not None:
            torch.cuda.set_device(gpu)  # of this thread: it would ask the first one about its memory
        if self._near.available:
            try:
                self._write_near(content, number)
            except Exception:  # noqa: BLE001: the disk shall say whether it is more than that
                log.exception("cannot write a checkpoint to memory")
        self._store.save(_laid_out(tensors, content.state["tensors"]), content.state["course"], number)

    def _write_near(self, content: checkpoints.Copy, number: int) -> None:
        file = io.BytesIO()
        content(file)
        kept = {self.agent.env.rank: file.getvalue()}
        if self._near.several:
            kept.update(self._near.swap(file.getvalue(), self._beside))
        for owner, part in kept.items():
            self._near.put(self._near.part(owner, self._layout), number, part)

    def _settle(self) -> None:
        self.agent.settle()
        self.reducer.barrier()

    def _load(self) -> bool:
        if self._store is None:
            return False
        rank, world = self.agent.env.rank, self.agent.env.world
        disk = self.reducer.gather(self._store.all() if rank == 0 else None)[0]
        parts = [self._near.part(r, self._layout) for r in range(world)]
        found = self._near.find(parts, {number: path.name for number, path in disk.items()}, lambda number: self._store.whole(disk[number]))
        if found is None:
            return False
        if rank == 0:
            self.agent.store.number(after=found.highest)
        tensors = self._tensors()
        if found.content is None:
            own = [list(group["params"]) for group in tensors["optimizer"]["param_groups"]]  # loading overwrites them
            course = self._store.load(disk[found.number], tensors)
            _name_own(tensors["optimizer"]["param_groups"], own)
        else:
            state = checkpoints.read(found.content)
            tensors, course = _fill(tensors, state["tensors"]), state["course"]
            self.loop.save_soon()  # it is in memory only
        set_state_dict(
            self.module, parts_of(self.optimizer), model_state_dict=tensors["model"], optim_state_dict=tensors["optimizer"]
        )
        self._restore_course(course)
        same = len(course["random"]) == self.agent.env.world and course.get("plan") == self._layout
        if not same:  # ranks that share layers draw the same numbers
            rank, world = rank // self.plan.tensor, world // self.plan.tensor
        checkpoints.set_random_state(course["random"] if same else [], rank, world, self._seed + self.loop.position)
        log.info("resuming after %d examples with %d replicas, each on %d ranks", self.loop.position, self.plan.data, self.plan.tensor * self.plan.pipeline)
        return True

    @property
    def _layout(self) -> list[int]:
        stages = [self.plan.pipeline] if self.plan.pipeline > 1 else []
        return [self.plan.data, self.plan.tensor, *stages]

    def _course(self) -> dict[str, Any]:
        return dict(super()._course(), plan=self._layout)


def _locals(item: Any) -> Any:
    """What this rank holds of a tree of tensors."""
    if isinstance(item, torch.Tensor):
        return local(item)
    if isinstance(item, dict):
        return {key: _locals(value) for key, value in item.items()}
    if isinstance(item, (list, tuple)):
        return type(item)(_locals(value) for value in item)
    return item


def _laid_out(item: Any, kept: Any) -> Any:
    """What _locals returned, or a copy of it, with the layout of the tree it was made from:
    neither is changed."""
    if hasattr(item, "to_local"):
        return type(item).from_local(kept, item.device_mesh, item.placements, run_check=False, shape=item.size(), stride=item.stride())
    if isinstance(item, dict):
        return {key: _laid_out(item[key], value) for key, value in kept.items()}
    if isinstance(item, (list, tuple)):
        return type(item)(_laid_out(old, value) for old, value in zip(item, kept))
    return kept


def _fill(item: Any, kept: Any) -> Any:
    """Puts back what _locals returned, in a tree that is laid out in the same way."""
    if isinstance(item, torch.Tensor):
        with torch.no_grad():
            local(item).copy_(kept)
        return item
    if isinstance(item, dict):
        return {key: _fill(item.get(key), value) for key, value in kept.items()}
    if isinstance(item, (list, tuple)):
        return type(item)(_fill(old, value) for old, value in zip(item, kept))
    return kept


def _name_own(groups: list[dict[str, Any]], own: list[list[str]]) -> None:
    """Puts the parameters that this rank has of each group in place of those that were saved,
    perhaps by another stage."""
    if len(groups) != len(own):
        raise ValueError(f"the checkpoint has {len(groups)} groups of parameters, and the optimiser here {len(own)}; make as many on every stage")
    for group, names in zip(groups, own):
        group["params"] = names


def _plan_of(env: Environment) -> Plan:
    """The plan of this attempt; without one, every rank is a replica."""
    plan = env.plan or Plan(data=env.world)
    if plan.ranks != env.world:
        raise ValueError(f"FAIRWAY_PLAN is for {plan.ranks} processes, and WORLD_SIZE is {env.world}")
    return plan


def _members_of_lists(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The members of all ModuleLists that are in no other, such as the blocks of a
    transformer. A ModuleDict whose members are all of one kind is such a list too."""
    found: list[torch.nn.Module] = []
    for part in model.children():
        alike = isinstance(part, torch.nn.ModuleDict) and len({type(member) for member in part.values()}) == 1
        if alike or isinstance(part, torch.nn.ModuleList):
            found.extend(part.children())
        else:
            found.extend(_members_of_lists(part))
    return found


def _as_on_rank_0(model: torch.nn.Module, device: torch.device) -> None:
    """Gives all ranks the model of rank 0, one tensor at a time."""
    if dist.get_world_size() == 1:
        return
    with torch.no_grad():
        for tensor in itertools.chain(model.parameters(), model.buffers()):
            moved = tensor.detach().to(device)
            dist.broadcast(moved, 0)
            tensor.copy_(moved)
