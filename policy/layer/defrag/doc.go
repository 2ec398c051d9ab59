// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package defrag is a layer over a policy that moves running jobs when a move
// pays: to make room for a gang that waits although enough GPUs are free, and to
// bring a gang that is spread back together. It moves no job without such a gain.
//
// # Make room
//
// The policy below leaves a gang waiting because the free GPUs are not close enough
// together. For every node that could hold it the layer finds the cheapest running
// jobs that would have to leave; for a gang larger than a node, the cheapest nodes of
// every rack: as few as an empty cluster would need, and once the gang has waited
// through the first rung of a ladder (place.StandardPatience), any nodes of a rack.
// The jobs that leave go to free GPUs of the same type that are no farther apart than
// those they have, on no more nodes. The layer compares cost and gain of the cheapest
// trade for which all of them fit:
//
//   - cost: for each job that moves, the restart and the work since its last
//     checkpoint, times its GPUs; and what the gang itself loses, within the
//     horizon, if its placement is not the best possible (by the speeds below);
//   - gain: how long the gang would otherwise wait, times its GPUs. That follows
//     from when the running jobs are expected to end (place.Forecast), and is at
//     most horizon.
//
// It makes the trade if the gain is more than margin times the cost. One plan then
// moves the jobs and starts the gang: all of them or none.
//
// # Move back
//
// A running gang that spans racks or nodes moves to free GPUs that are closer
// together when the time it would save on its remaining work is worth more than
// margin times the cost. Its speed by level is what its agent reports, or else the
// knobs: by default, Philly's measurements (ATC'19, table 4) of one server, two
// servers, and two servers with neighbours; more nodes than it needs slow it down
// further (table 5). It moves to fewer nodes of a rack by the same rule.
//
// # What a stop costs
//
// A job that saves its work when it is told to stop loses only the restart. With
// saves=known these are jobs that have written a checkpoint or have an agent, and
// elastic ones; with saves=all every job, as in the simulator; with saves=none no
// job. The others lose all work since their last checkpoint, or since their start if
// they never wrote one.
//
// # Which jobs move
//
// Only jobs that may be preempted, hold whole GPUs, are not being screened, have
// run for settle where they are, and were moved fewer than moves times in their
// life, by any policy or layer; at most most jobs in one decision. Jobs therefore
// do not move back and forth.
//
// # The ledger
//
// Plan.Ledger has every trade that was made and, once an hour for each job, every one
// that was refused. The times of refusals are a cache; a restart only repeats entries.
//
// With the layer reserve, this one goes below it (policy@defrag@reserve), so that
// reserved GPUs do not count as free.
package defrag
