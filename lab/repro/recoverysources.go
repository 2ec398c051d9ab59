// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

// recoverySources says where the figures come from, and what Fairway does so far.
const recoverySources = `
## Where the figures come from

*Read*: we have read the figure in the source or in a text about it. *Recalled*: it is from the
source as we remember it, not read again. *Assumed*: no public figure is known to us.

| figure | value | source | how sure |
|---|---|---|---|
| ranks lost | 2e-5 per GPU-hour | Llama 3 (arXiv 2407.21783): 419 unexpected interruptions in 54 days on 16,384 H100s are 1.97e-5. On Meta's RSC-1 cluster (A100, HPCA'25) 6.5 failures in 1,000 node-days would be 3.4e-5 (recalled) | read |
| of these, nodes to be repaired | 78 % | Llama 3: interruptions with a confirmed or suspected hardware cause | recalled |
| hangs | 2e-6 per GPU-hour | a tenth of the losses, as in ByteRobust's table of incidents (arXiv 2509.16293) | recalled |
| a hang is detected | 10 min | default timeout of NCCL collectives in PyTorch; ByteRobust raises an alarm after 10 min without RDMA traffic | read |
| slow nodes: speed, duration | 0.75, 10 h | Greyhound (ATC'25), formerly Falcon (arXiv 2410.12588): large jobs are delayed by 1.34 x on average; slow phases last up to nearly ten hours | read; the mean is assumed |
| slow nodes: rate | 2e-6 per GPU-hour | as often as hangs | assumed |
| repair of a node | 1 h | other times are in the section about spares | assumed |
| a lost rank is detected | 1 min | | assumed |
| start of the processes | 3 min, warm 30 s | MegaScale (NSDI'24): the process groups of 2,048 GPUs took 1,047 s before and 5 s after tuning, of more than 10,000 below 30 s | read; the rest is assumed |
| loading, checkpoints, saves | 2 min, every 30 min, 20 s | | assumed |
| hangs detected, stragglers found | 200 s, 2 min | [the rules](../failures.md#hung-jobs) of the agent for steps of 10 s: 20 slow steps; 8 windows of at least one step | the rules hold; the steps are assumed |
| recovery in place | 35 s and two steps | Fairway's goal for gangs of a few ranks is two steps and 10 s; thousands of ranks need longer to form their groups | assumed |
| checkpoints in memory | every 2 min, 0.5 s, 10 s; on a second node every 4 min, 1 s | the agent lets them stop the training for at most 0.4 % of its time; how long each takes is a guess (` + "`python/bench/checkpoints.py`" + ` measures it) | the rule holds; the rest is assumed |

## What Fairway does of this

- Hangs and stragglers: in gangs that use ` + "`fairway.torch`" + `; hangs where the ranks share the checkpoint folder.
  A slow node is taken out if the clock of its GPU shows it, or if the GPU was slow before; else it is only named ([stragglers](../failures.md#stragglers)).
- [Checkpoints in memory](../../python/README.md#checkpoints), on a second node too: in gangs that use
  ` + "`fairway.torch`" + `, whether their ranks are replicas or have parts of the model (` + "`fairway.torch.fsdp`" + `), where the job has
  a folder in the memory of its nodes. Checkpoints on the disk are written behind the training by both.
- Warm starts and recovery in place: on one machine. Above they work across nodes.
- Spares: the layer [` + "`@spare`" + `](../failures.md#spares) keeps as many nodes free as pay, by the outages that the scheduler has seen.
`

// recoveryLimits says what the simulation leaves out.
const recoveryLimits = `
## What the simulation leaves out

- Failures are independent and have constant rates. In reality a switch, a power supply or a
  cooling loop takes many nodes along, new nodes fail more often, and a repaired node may fail
  again at once. Correlated failures also lose checkpoints in memory, which here never happens.
- Networks do not flap or congest; stragglers are nodes that are slow all the time.
- A restart takes as long on 8 GPUs as on 9,600, and storage serves all ranks at once.
- Detection has no false alarms, and finds the right node.
- Changes of the code, bad data, loss spikes and silent corruption, which people answer by rolling
  a training back, do not occur. They are part of the 3 % that ByteRobust loses.
- A spare is healthy and at hand. While the job stands still, its nodes do not fail.
`
