# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Uses the generated client: use.py ADDRESS TOKEN submits a job, waits for its end, and reads
why it ended so, its log and what is refused."""

import sys
import time

from fairway_api import AuthenticatedClient
from fairway_api.api.default import get_jobs_id, get_jobs_id_explain, get_jobs_id_logs, get_overview, get_whoami, post_jobs
from fairway_api.models import ErrorBody, Job
from fairway_api.models import SubmissionInput as Submission

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
who = get_whoami.sync(client=client)
print(f"I am {who.user}, tenant {who.tenant}; the daemon is of version {get_overview.sync(client=client).version}")

refused = post_jobs.sync(client=client, body=Submission(command=["true"], gpus=1000))
assert isinstance(refused, ErrorBody), refused
print("1000 GPUs are refused:", refused.error.message)

job = post_jobs.sync(client=client, body=Submission(command=["sh", "-c", "echo bye; exit 3"], gpus=1, name="generated"))
assert isinstance(job, Job), job
deadline = time.monotonic() + 120
while job.state not in ("finished", "failed", "killed"):
    assert time.monotonic() < deadline, job.state
    time.sleep(0.2)
    job = get_jobs_id.sync(job.id, client=client)
assert job.state == "failed" and job.exit_.code == 3, job
print(job.id, job.state + ":", get_jobs_id_explain.sync(job.id, client=client).summary)
log = get_jobs_id_logs.sync(job.id, client=client)
assert log == "bye\n", log
print("its log:", log.strip())
