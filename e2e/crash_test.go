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

// worker is the program of the jobs of this test: a training that counts its steps into
// a checkpoint. It holds a lock for its job and one for its slot while it runs; finding
// one taken is a violation. When asked to stop, it saves and exits with 75; sometimes
// it ignores the request, or fails.
const worker = `#!/bin/sh
steps=$1; out=$2
violation() { echo "$FAIRWAY_JOB.$FAIRWAY_ATTEMPT rank $RANK: $*" >> "$out/violations"; }
slot=$(echo "$FAIRWAY_SLOTS" | cut -d, -f$((LOCAL_RANK + 1)))
[ -n "$slot" ] || violation "no slot in '$FAIRWAY_SLOTS'"
exec 8>"$out/slot-$slot"; flock -n 8 || violation "slot $slot is taken"
if [ "$RANK" = 0 ]; then
  exec 9>"$out/$FAIRWAY_JOB.lock"; flock -n 9 || violation "the job runs twice"
  echo "$FAIRWAY_ATTEMPT" >> "$out/$FAIRWAY_JOB.attempts"
fi
saved="$FAIRWAY_CHECKPOINT_DIR/steps"
n=$(cat "$saved" 2>/dev/null || echo 0)
save() { echo "$n" > "$saved.new" && mv "$saved.new" "$saved"; }
trap 'leave=1' TERM
while [ "$n" -lt "$steps" ]; do
  sleep 0.05 8>&- 9>&-
  n=$((n + 1))
  if [ "$RANK" = 0 ]; then save; fi
  if [ -n "$leave" ]; then [ "$RANK" = 0 ] && echo "$n" >> "$out/$FAIRWAY_JOB.yields"; exit 75; fi
done
[ "$RANK" = 0 ] && echo "$n" > "$out/$FAIRWAY_JOB.done"
exit 0
`

// TestCrash kills the daemon at random moments while jobs are submitted,
// cancelled, paused, resized and finish, and then accounts for every job.
// FAIRWAY_CHAOS_KILLS says how often.
func TestCrash(t *testing.T) {
	kills := scale("FAIRWAY_CHAOS_KILLS", 40)
	out := t.TempDir()
	script := filepath.Join(out, "worker.sh")
	if err := os.WriteFile(script, []byte(worker), 0o755); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(out, "fairway.yaml")
	// Short leases and small snapshots, so that preemption and compaction are in
	// flight when the daemon is killed.
	text := "policy: las:lease=1s\nslots: 6\nnotice: 2s\nkeep: {compact: 200}\nguard: {bound: 0, window: 0s, margin: 2}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, shortDir(t), "--config", config)
	l := &load{d: d, script: script, out: out, acked: map[sched.JobID]bool{}, rand: rand.New(rand.NewPCG(1, 2))}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Add(1)
		go func() { defer wg.Done(); l.run(ctx, i) }()
	}
	moments := rand.New(rand.NewPCG(3, 4))
	begin := time.Now()
	for range kills {
		time.Sleep(time.Duration(moments.IntN(300)) * time.Millisecond)
		d.kill()
		if moments.IntN(4) == 0 {
			time.Sleep(time.Duration(moments.IntN(300)) * time.Millisecond) // jobs end while no daemon runs
		}
		d.start()
	}
	took := time.Since(begin)
	cancel()
	wg.Wait()
	jobs := l.drain()
	l.check(jobs)
	t.Logf("%d kills in %.0f s: %s", kills, took.Seconds(), l.summary(jobs))
}

// load simulates users.
type load struct {
	d           *daemon
	script, out string
	mu          sync.Mutex
	acked       map[sched.JobID]bool
	keys        int
	rand        *rand.Rand
}

func (l *load) intn(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rand.IntN(n)
}

func (l *load) run(ctx context.Context, who int) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(10+l.intn(60)) * time.Millisecond)
		switch l.intn(6) {
		case 0, 1:
			l.submit(ctx)
		case 2:
			l.command(ctx, api.Cancel, 5)
		case 3:
			l.command(ctx, api.Pause, 1)
		case 4:
			l.command(ctx, api.Resume, 1)
		case 5:
			if who == 0 && l.intn(10) == 0 {
				specs := []string{"las:lease=1s", "fifo", "srtf", "pollux", "tiresias"}
				_, _ = l.d.SetPolicy(ctx, specs[l.intn(len(specs))], false) // the daemon may be down
			}
		}
	}
}

// openJobs is the number of open jobs beyond which the users wait.
const openJobs = 40

// submit submits one job, and repeats the request with the same key until the daemon
// answers. It must not become two jobs.
func (l *load) submit(ctx context.Context) {
	if o, err := l.d.Overview(ctx); err != nil || o.Running+o.Waiting+o.Paused > openJobs {
		return
	}
	l.mu.Lock()
	l.keys++
	key := fmt.Sprintf("key-%d", l.keys)
	l.mu.Unlock()
	s := api.Submission{Key: key}
	s.Name = "w"
	s.Command = []string{l.script, strconv.Itoa(2 + l.intn(50)), l.out}
	s.GPUs = 1
	switch l.intn(3) {
	case 0:
		s.GPUs, s.MinGPUs, s.MaxGPUs = 1, 1, 1+l.intn(4)
	case 1:
		s.GPUs = 1 + l.intn(3)
	}
	s.Retries = 3
	for ctx.Err() == nil {
		j, err := l.d.Submit(ctx, s)
		if err == nil {
			l.mu.Lock()
			l.acked[j.ID] = true
			l.mu.Unlock()
			return
		}
		if c := api.CodeOf(err); c == api.Invalid || c == api.Denied {
			l.d.t.Errorf("submit: %v", err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *load) command(ctx context.Context, c api.Command, rarely int) {
	if l.intn(rarely) > 0 {
		return
	}
	l.mu.Lock()
	var id sched.JobID
	for id = range l.acked {
		break
	}
	l.mu.Unlock()
	if id != "" {
		_, _ = l.d.Command(ctx, id, c) // the daemon may be down, or the job may have ended
	}
}

// drain waits until every job has ended, and returns the jobs.
func (l *load) drain() []api.Job {
	t, ctx := l.d.t, context.Background()
	if _, err := l.d.SetPolicy(ctx, "fifo", false); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(3 * patience)
	for {
		var all []api.Job
		open := 0
		for j, err := range l.d.List(ctx, api.JobFilter{Limit: 1000}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, j)
			if j.Status.Phase.Ended() {
				continue
			}
			open++
			if j.State == api.Paused {
				// Its processes may have finished before they were stopped.
				if _, err := l.d.Command(ctx, j.ID, api.Resume); err != nil && api.CodeOf(err) != api.Conflict {
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

// check accounts for every job.
func (l *load) check(jobs []api.Job) {
	t := l.d.t
	if v, err := os.ReadFile(filepath.Join(l.out, "violations")); err == nil {
		t.Errorf("violations:\n%s", v)
	}
	seen, keys := map[sched.JobID]api.Job{}, map[string]bool{}
	for _, j := range jobs {
		if _, twice := seen[j.ID]; twice {
			t.Errorf("job %s is listed twice", j.ID)
		}
		seen[j.ID] = j
	}
	_ = keys
	for id := range l.acked {
		if _, ok := seen[id]; !ok {
			t.Errorf("job %s was acknowledged and is lost", id)
		}
	}
	for id, j := range seen {
		steps, _ := strconv.Atoi(j.Command[1])
		done := l.number(string(id) + ".done")
		switch j.Status.Phase {
		case sched.Finished:
			if done != steps {
				t.Errorf("job %s is finished with %d of %d steps", id, done, steps)
			}
		case sched.Failed:
			t.Errorf("job %s failed: %+v", id, j.Exit)
		}
		l.checkAttempts(j)
	}
}

// checkAttempts: no attempt ran twice, and none ran that was not started.
func (l *load) checkAttempts(j api.Job) {
	text, err := os.ReadFile(filepath.Join(l.out, string(j.ID)+".attempts"))
	if err != nil {
		return // never ran
	}
	last := 0
	for _, line := range strings.Fields(string(text)) {
		n, _ := strconv.Atoi(line)
		if n <= last || n > j.Status.Starts {
			l.d.t.Errorf("job %s: attempts %v ran; want ascending numbers up to %d", j.ID, strings.Fields(string(text)), j.Status.Starts)
			return
		}
		last = n
	}
}

func (l *load) number(name string) int {
	text, err := os.ReadFile(filepath.Join(l.out, name))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

func (l *load) summary(jobs []api.Job) string {
	phases := map[string]int{}
	var starts, preempted, moved int
	for _, j := range jobs {
		phases[j.Status.Phase.String()]++
		starts += j.Status.Starts
		preempted += j.Status.Preemptions
		moved += j.Status.Moves
	}
	return fmt.Sprintf("%d jobs acknowledged, %d known (%v), %d starts, %d preemptions, %d moves", len(l.acked), len(jobs), phases, starts, preempted, moved)
}
