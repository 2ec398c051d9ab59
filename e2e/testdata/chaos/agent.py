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


slot = os.environ["FAIRWAY_SLOTS"].split(",")[int(os.environ["LOCAL_RANK"])]
locks = [lock(f"slot-{slot}", f"slot {slot} is taken"), lock(f"{job}.lock", "the job runs twice")]
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
