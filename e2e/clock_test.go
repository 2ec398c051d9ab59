// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// jumped is a file of package time in a program whose clock a test moves: the file
// that CHAOS_CLOCK names has the seconds by which it is off. It is mapped, because the
// runtime asks for the time where no system call is allowed.
const jumped = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var jump = func() *int64 {
	path, _ := syscall.Getenv("CHAOS_CLOCK")
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("CHAOS_CLOCK: " + err.Error())
	}
	defer syscall.Close(fd)
	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("CHAOS_CLOCK: " + err.Error())
	}
	return (*int64)(unsafe.Pointer(&page[0]))
}()

func jumped() int64 {
	if jump == nil {
		return 0
	}
	return atomic.LoadInt64(jump)
}
`

// jumpyProgram builds the fairway command with a clock that a test moves, in the
// daemon and in its supervisors alike.
func jumpyProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if !strings.Contains(string(source), now) {
		t.Fatalf("package time of %s is not as this test knows it: change the test", root)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(std, "time.go"):   write("time.go", strings.Replace(string(source), now, now+"\tsec += jumped()\n", 1)),
		filepath.Join(std, "jumped.go"): write("jumped.go", jumped),
	}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "fairway")
	out, err := exec.Command("go", "build", "-overlay", write("overlay.json", string(replaced)), "-o", path, "../cmd/fairway").CombinedOutput()
	if err != nil {
		t.Fatalf("build fairway with another clock: %v\n%s", err, out)
	}
	return path
}

// TestClockJumps moves the machine's clock by up to a month, to and fro, while users
// work and the daemon is killed. FAIRWAY_CHAOS_JUMPS says how often. The program takes
// minutes to compile, so that only "make chaos" runs it; TestClockJumps of daemon/state
// is the small dose.
func TestClockJumps(t *testing.T) {
	jumps := scale("FAIRWAY_CHAOS_JUMPS", 0)
	if jumps == 0 {
		t.Skip(`run by "make chaos"`)
	}
	clock, err := os.Create(filepath.Join(t.TempDir(), "clock"))
	if err != nil {
		t.Fatal(err)
	}
	defer clock.Close()
	set := func(off time.Duration) {
		t.Helper()
		if _, err := clock.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(off.Seconds()))), 0); err != nil {
			t.Fatal(err)
		}
	}
	const first = 2 * time.Hour
	set(first)
	t.Setenv("CHAOS_CLOCK", clock.Name())
	d := (&daemon{path: jumpyProgram(t)}).on(t, shortDir(t), "--config", chaosConfig(t))
	if o := d.overview(); (time.Until(o.Now) - first).Abs() > time.Minute {
		t.Fatalf("the daemon's clock is at %s; want %s off", o.Now, first)
	}
	u := usersOf(t, d, "true")
	moments := rand.New(rand.NewPCG(7, 8))
	kills := 0
	for range jumps {
		time.Sleep(time.Duration(500+moments.IntN(1500)) * time.Millisecond)
		span := []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour}[moments.IntN(4)]
		set(time.Duration(moments.Int64N(int64(2*span))) - span)
		switch moments.IntN(3) {
		case 0:
			kills++
			d.kill()
			d.start()
		case 1: // its job is started again after a back-off, which must end
			killOne(d.data, moments)
		}
	}
	set(-time.Hour)
	killOne(d.data, moments)
	u.account("clock jump", fmt.Sprintf("%d by up to a month, %d of them with a kill -9 of the daemon", jumps, kills))
}
