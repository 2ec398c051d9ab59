// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// worker is the program of the jobs of the chaos tests: a training that counts its
// steps into a checkpoint. It holds a lock for its job and one for its slot while it
// runs; finding one taken is a violation, unless the other holder of the slot is
// suspended. It looks at the locks of others with shared locks, because a worker that
// is suspended while it looks keeps the lock. When asked to stop, it saves and exits
// with 75. Beside its checkpoint it notes outside of the data folder where each attempt
// began, what it tries to save and what was saved: the next attempt may not begin before
// what was saved, nor after what was tried.
const worker = `#!/bin/sh
steps=$1; out=$2; sync=$3
violation() { echo "$FAIRWAY_JOB.$FAIRWAY_ATTEMPT rank $RANK: $*" >> "$out/violations"; }
slot=$(echo "$FAIRWAY_SLOTS" | cut -d, -f$((LOCAL_RANK + 1)))
[ -n "$slot" ] || violation "no slot in '$FAIRWAY_SLOTS'"
suspended() { # or it was, and has been asked to stop since
  state=$(sed 's/.*) //' "/proc/$1/stat" | cut -c1); at=$(cat "$2")
  [ "$state" = T ] || [ "$state" = D ] || [ -e "$at/suspend.json" -a -e "$at/stop.json" ] ||
    grep -q 'frozen 1' "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$1/cgroup")/cgroup.events"
}
exec 8>"$out/slot-$slot.$$"; flock -n 8 || violation "its own lock is taken"
echo "${FAIRWAY_CHECKPOINT_DIR%/*}/$FAIRWAY_ATTEMPT" >&8
for other in "$out/slot-$slot."*; do
  [ "$other" = "$out/slot-$slot.$$" ] || flock -sn "$other" true 8>&- || suspended "${other##*.}" "$other" 2>/dev/null || violation "slot $slot is taken by ${other##*.}: $(cut -c1-40 "/proc/${other##*.}/stat" 2>&1), $(cat "$other"): $(ls "$(cat "$other")" 2>&1 | tr '\n' ' ')"
done
saved="$FAIRWAY_CHECKPOINT_DIR/steps"
files=$(ls "$FAIRWAY_CHECKPOINT_DIR" 8>&-) || exit 1 # the disk fails: this is no fresh start
n=0
if echo "$files" | grep -qx steps 8>&-; then n=$(cat "$saved" 8>&-) || exit 1; fi
if [ "$RANK" = 0 ]; then
  exec 9>"$out/$FAIRWAY_JOB.lock"; flock -n 9 || violation "the job runs twice"
  echo "begin $FAIRWAY_ATTEMPT $n" >> "$out/$FAIRWAY_JOB.steps"
fi
save() {
  [ "$RANK" = 0 ] || return 0
  echo "tries $FAIRWAY_ATTEMPT $n" >> "$out/$FAIRWAY_JOB.steps"
  { echo "$n" > "$saved.new" && $sync "$saved.new" && mv "$saved.new" "$saved" && $sync "$FAIRWAY_CHECKPOINT_DIR"; } 2>/dev/null 8>&- 9>&- &&
    echo "saved $FAIRWAY_ATTEMPT $n" >> "$out/$FAIRWAY_JOB.steps"
}
trap 'leave=1' TERM
while [ "$n" -lt "$steps" ]; do
  sleep 0.05 8>&- 9>&-
  n=$((n + 1))
  save; ok=$?
  if [ -n "$leave" ]; then [ "$ok" = 0 ] || exit 1; exit 75; fi
done
[ "$RANK" = 0 ] && echo "$n" > "$out/$FAIRWAY_JOB.done"
exit 0
`

// users simulates users of a daemon.
type users struct {
	t           *testing.T
	d           *daemon
	script, out string
	sync        string // the program that makes a checkpoint durable
	agent       string // a worker with the Python agent; empty: none
	hurry       bool   // does not wait for the back-offs of killed jobs
	stop        func()

	mu    sync.Mutex
	acked map[sched.JobID]bool
	ended map[sched.JobID]api.Job // as first seen after their end
	done  map[sched.JobID]int     // jobs that had finished before the journal lost its end: attempts begun
	keys  int
	// rewound is true if the journal has lost records, starts of attempts among them.
	rewound bool
	rand    *rand.Rand
}

// usersOf lets three users work with a daemon until account. Some of their jobs run the
// worker with the Python agent, if there is one.
func usersOf(t *testing.T, d *daemon, syncWith string, agent ...string) *users {
	t.Helper()
	u := &users{t: t, d: d, out: t.TempDir(), sync: syncWith, acked: map[sched.JobID]bool{}, ended: map[sched.JobID]api.Job{}, done: map[sched.JobID]int{}, rand: rand.New(rand.NewPCG(1, 2))}
	u.agent = strings.Join(agent, "")
	u.script = filepath.Join(u.out, "worker.sh")
	if err := os.WriteFile(u.script, []byte(worker), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { u.run(ctx, i) })
	}
	wg.Go(func() { u.watch(ctx) })
	u.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(u.stop)
	return u
}

func (u *users) intn(n int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rand.IntN(n)
}

func (u *users) run(ctx context.Context, who int) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(10+u.intn(60)) * time.Millisecond)
		switch u.intn(6) {
		case 0, 1:
			u.submit(ctx)
		case 2:
			u.command(ctx, api.Cancel, 5)
		case 3:
			u.command(ctx, api.Pause, 1)
		case 4:
			u.command(ctx, api.Resume, 1)
		case 5:
			if who == 0 && u.intn(10) == 0 {
				specs := []string{"las:lease=1s", "fifo", "srtf", "pollux", "tiresias"}
				_, _ = u.d.SetPolicy(ctx, specs[u.intn(len(specs))], false) // the daemon may be down
			}
		}
	}
}

// watch notes which jobs have ended: they must not run again.
func (u *users) watch(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(300 * time.Millisecond)
		for j, err := range u.d.List(ctx, api.JobFilter{Limit: 1000}) {
			if err != nil {
				break // the daemon may be down
			}
			u.mu.Lock()
			if _, known := u.ended[j.ID]; !known && j.Status.Phase.Ended() {
				u.ended[j.ID] = j
			}
			u.mu.Unlock()
		}
	}
}

// agentJob is the name of jobs with the Python agent.
const agentJob = "agent"

// openJobs is the number of open jobs beyond which the users wait.
const openJobs = 20

// submit submits one job, and repeats the request with the same key until the daemon
// answers. It must not become two jobs.
func (u *users) submit(ctx context.Context) {
	if o, err := u.d.Overview(ctx); err != nil || o.Running+o.Waiting+o.Paused > openJobs {
		return
	}
	u.mu.Lock()
	u.keys++
	key := fmt.Sprintf("key-%d", u.keys)
	u.mu.Unlock()
	s := api.Submission{Key: key}
	s.Name = "w"
	s.Command = []string{u.script, strconv.Itoa(2 + u.intn(50)), u.out, u.sync}
	s.GPUs = 1
	switch u.intn(4) {
	case 0:
		s.GPUs, s.MinGPUs, s.MaxGPUs = 1, 1, 1+u.intn(4)
	case 1:
		s.GPUs = 1 + u.intn(3)
	case 2:
		if u.agent != "" {
			s.Name, s.Command[0], s.Env = agentJob, u.agent, map[string]string{"PYTHONPATH": absolute(u.t, "../python/src")}
		}
	}
	s.Retries, s.Retry = api.MaxRetries, api.RetryAlways // its processes are killed, too
	if u.intn(4) > 0 {                                   // the others keep their GPUs
		s.Preemptible = new(true)
	}
	for ctx.Err() == nil {
		j, err := u.d.Submit(ctx, s)
		if err == nil {
			u.mu.Lock()
			u.acked[j.ID] = true
			u.mu.Unlock()
			return
		}
		if c := api.CodeOf(err); c == api.Invalid || c == api.Denied {
			u.t.Errorf("submit: %v", err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (u *users) command(ctx context.Context, c api.Command, rarely int) {
	if u.intn(rarely) > 0 {
		return
	}
	u.mu.Lock()
	var id sched.JobID
	for id = range u.acked {
		break
	}
	u.mu.Unlock()
	if id != "" {
		_, _ = u.d.Command(ctx, id, c) // the daemon may be down, or the job may have ended
	}
}

// drain waits until every job has ended, and returns the jobs.
func (u *users) drain() []api.Job {
	t, ctx := u.t, context.Background()
	if _, err := u.d.SetPolicy(ctx, "fifo", false); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(3 * patience)
	for {
		var all []api.Job
		open := 0
		for j, err := range u.d.List(ctx, api.JobFilter{Limit: 1000}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, j)
			if j.Status.Phase.Ended() {
				continue
			}
			open++
			if u.hurry && j.State == api.Waiting && j.Status.NotBefore.After(time.Now()) {
				_, _ = u.d.Command(ctx, j.ID, api.Pause) // when it is resumed, it may start at once
			}
			if j.State == api.Paused {
				// Its processes may have finished before they were stopped.
				if _, err := u.d.Command(ctx, j.ID, api.Resume); err != nil && api.CodeOf(err) != api.Conflict {
					t.Fatal(err)
				}
			}
		}
		if open == 0 {
			return all
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d jobs do not come to an end; the first: %+v", open, all[0])
		}
		time.Sleep(100 * time.Millisecond)
	}
}
