#!/usr/bin/env python3
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The worker of the chaos tests with the Python agent: agent.py STEPS OUT SYNC. It holds
a lock for its job and one for its slot, counts its steps into a checkpoint of the
agent, and notes in OUT where each attempt began and what was saved, as the shell
script of users_test.go does."""

import fcntl
import os
import sys
import time

import fairway

steps, out = int(sys.argv[1]), sys.argv[2]
job, attempt = os.environ["FAIRWAY_JOB"], os.environ["FAIRWAY_ATTEMPT"]


def write(name, text, mode="a"):
    with open(os.path.join(out, name), mode) as file:
        file.write(text + "\n")


def lock(name, text):
    file = open(os.path.join(out, name), "a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        write("violations", f"{job}.{attempt}: {text}")
    return file


def suspended(name):
    """Whether the holder of a lock of a slot is suspended, or was and has been asked to stop."""
    pid = name.rpartition(".")[2]
    try:
        with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cgroup") as groups, open(os.path.join(out, name)) as at:
            state, group, folder = stat.read().rpartition(")")[2].split()[0], groups.read(), at.read().strip()
        if state in "TD" or all(os.path.exists(os.path.join(folder, f)) for f in ("suspend.json", "stop.json")):
            return True
        unified = next(line[3:] for line in group.splitlines() if line.startswith("0::"))
        with open(f"/sys/fs/cgroup{unified}/cgroup.events") as events:
            return "frozen 1" in events.read()
    except FileNotFoundError:
        return not os.path.exists(f"/proc/{pid}")
    except StopIteration:
        return False


def lock_slot(slot):
    own = f"slot-{slot}.{os.getpid()}"
    file = lock(own, "its own lock is taken")
    file.write(os.path.join(os.path.dirname(os.environ["FAIRWAY_CHECKPOINT_DIR"]), attempt))
    file.flush()
    for name in os.listdir(out):
        if name.startswith(f"slot-{slot}.") and name != own:
            with open(os.path.join(out, name)) as other:
                try:
                    fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    if not suspended(name):
                        write("violations", f"{job}.{attempt}: slot {slot} is taken by {name}")
    return file


slot = os.environ["FAIRWAY_SLOTS"].split(",")[int(os.environ["LOCAL_RANK"])]
locks = [lock_slot(slot), lock(f"{job}.lock", "the job runs twice")]
agent = fairway.init()
done = int(agent.store.load() or 0)
write(f"{job}.steps", f"begin {attempt} {done}")
fairway.restored(done, steps)
while done < steps:
    time.sleep(0.05)
    done += 1
    fairway.progress(done, steps)
    fairway.report(loss=1 / done)
    saved = agent.save(str(done).encode())
    if saved:
        write(f"{job}.steps", f"saved {attempt} {done}")
    if agent.should_stop() and saved:
        agent.leave()
write(f"{job}.done", str(done), "w")
fairway.complete()
