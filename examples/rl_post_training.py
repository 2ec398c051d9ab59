# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Reinforcement learning on answers that can be checked, in miniature: a small policy
learns to add digits modulo ten by the rewards of its own answers (GRPO: of a group of
answers to one question, those better than their mean are made likelier).

The job has two roles. The trainer has one process. Rollout workers ask it for the newest
weights, answer questions with them and send it the rewards; they come and go while it
trains on. "fairway submit -f examples/rl_post_training.yaml" starts both; without Fairway,
run "python3 examples/rl_post_training.py trainer" and, in other shells, "... rollout"."""

from __future__ import annotations

import argparse
import io
import logging
import os
import queue
import sys
import threading
import time
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import torch

try:
    import fairway
except ImportError:  # not installed: use the checkout
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "src"))
    import fairway

DIGITS, GROUP, CLIP = 10, 16, 0.2
PATIENCE = 60.0  # seconds for the other role to come up

log = logging.getLogger("rl")


def make_policy() -> torch.nn.Module:
    """Two digits in, the odds of each answer out."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Embedding(DIGITS * DIGITS, 32), torch.nn.Tanh(), torch.nn.Linear(32, DIGITS))


def odds_of(policy: torch.nn.Module, questions: torch.Tensor) -> torch.distributions.Categorical:
    return torch.distributions.Categorical(logits=policy(questions[:, 0] * DIGITS + questions[:, 1]))


def pack(content: object) -> bytes:
    data = io.BytesIO()
    torch.save(content, data)
    return data.getvalue()


class Trainer:
    """Learns from what the workers send, whoever and how many they are."""

    def __init__(self, args: argparse.Namespace, agent: fairway.Agent) -> None:
        self.args, self.agent = args, agent
        self.policy = make_policy()
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=args.lr)
        self.step = 0
        # Short, so that workers wait for the trainer: answers of old weights teach little.
        self.answers: queue.Queue[dict[str, torch.Tensor]] = queue.Queue(maxsize=4)
        self.workers = 0
        self.lock = threading.Lock()

    def run(self) -> None:
        saved = self.agent.store.load() if self.agent.store else None
        if saved:
            state = torch.load(io.BytesIO(saved))
            self.step = state["step"]
            self.policy.load_state_dict(state["policy"])
            self.optimizer.load_state_dict(state["optimizer"])
        self.weights = pack(self.policy.state_dict())
        self.agent.able("in_place")  # workers may come and go while this process runs
        fairway.restored(self.step, self.args.steps)
        threading.Thread(target=self.listen, daemon=True).start()
        while self.step < self.args.steps:
            if self.agent.should_stop() and self.save():
                self.agent.leave()
            try:
                batch = self.answers.get(timeout=0.2)
            except queue.Empty:
                continue
            loss = self.learn(batch)
            self.step += 1
            fairway.progress(self.step, self.args.steps)
            reward = float(batch["rewards"].mean())
            fairway.report(loss=loss, reward=reward, workers=self.workers)
            if self.step % 20 == 0:
                print(f"step {self.step} reward {reward:.3f} workers {self.workers} process {os.getpid()}", flush=True)
        self.save()
        fairway.complete()

    def learn(self, batch: dict[str, torch.Tensor]) -> float:
        """One step of policy gradient, with ratios clipped as in PPO."""
        rewards = batch["rewards"].view(-1, GROUP)
        advantage = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)).flatten()
        ratio = torch.exp(odds_of(self.policy, batch["questions"]).log_prob(batch["answers"]) - batch["logs"])
        loss = -torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.weights = pack(self.policy.state_dict())
        return float(loss)

    def save(self) -> bool:
        state = {"step": self.step, "policy": self.policy.state_dict(), "optimizer": self.optimizer.state_dict()}
        return self.agent.store is None or self.agent.save(pack(state)) is not None

    def listen(self) -> None:
        with Listener(self.args.meet, authkey=self.args.key) as door:
            while True:
                try:
                    worker = door.accept()
                except (OSError, EOFError) as err:  # it left at the door, or is none of ours
                    log.warning("a worker was not let in: %s", err)
                    continue
                threading.Thread(target=self.serve, args=(worker,), daemon=True).start()

    def serve(self, worker: Connection) -> None:
        """Gives one worker the newest weights for each batch of its answers."""
        with self.lock:
            self.workers += 1
        try:
            while True:
                worker.send_bytes(self.weights)
                self.answers.put(torch.load(io.BytesIO(worker.recv_bytes())))
        except (OSError, EOFError):
            pass  # it has left
        finally:
            with self.lock:
                self.workers -= 1
            worker.close()


def rollout(args: argparse.Namespace, agent: fairway.Agent) -> None:
    """Answers questions with the newest weights until it is asked to leave, or the
    trainer is gone."""
    policy = make_policy()
    random = torch.Generator().manual_seed(os.getpid())
    trainer = connect(args, agent)
    try:
        while trainer is not None and not agent.should_stop():
            policy.load_state_dict(torch.load(io.BytesIO(trainer.recv_bytes())))
            questions = torch.randint(DIGITS, (args.questions, 2), generator=random).repeat_interleave(GROUP, 0)
            with torch.no_grad():
                odds = odds_of(policy, questions)
                answers = torch.multinomial(odds.probs, 1, generator=random).squeeze(1)
                rewards = (answers == questions.sum(1) % DIGITS).float()
                batch = {"questions": questions, "answers": answers, "logs": odds.log_prob(answers), "rewards": rewards}
            time.sleep(args.sleep)  # a large model takes its time
            trainer.send_bytes(pack(batch))
    except (OSError, EOFError):
        log.info("the trainer is gone")


def connect(args: argparse.Namespace, agent: fairway.Agent) -> Connection | None:
    deadline = time.monotonic() + PATIENCE
    while not agent.should_stop():
        try:
            return Client(args.meet, authkey=args.key)
        except (OSError, EOFError):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=["trainer", "rollout"])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--questions", type=int, default=32, help="of one batch; each is answered %d times" % GROUP)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--sleep", type=float, default=0.05, help="seconds that a batch of answers takes a worker, besides")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    agent = fairway.init()
    host, port = (agent.env.meet or "127.0.0.1:29610").rsplit(":", 1)
    args.meet, args.key = (host, int(port)), (agent.env.token or "local").encode()
    if args.role == "trainer":
        Trainer(args, agent).run()
    else:
        rollout(args, agent)


if __name__ == "__main__":
    main()
