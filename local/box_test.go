// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// boxedOrder is an order for a container on two GPUs.
func boxedOrder(t *testing.T, kind string) *order {
	dir := t.TempDir()
	return &order{
		Attempt: api.Attempt{
			AttemptID: api.AttemptID{Job: "resnet-1", Number: 2}, Spec: sched.Spec{Memory: 4 << 30, CPUs: 3},
			Task:      api.Task{Image: "torch:2", Command: []string{"python", "train.py", "--rm"}, Dir: dir},
			Placement: sched.Placement{{Milli: sched.WholeGPU, GPUs: 0b1100}},
		},
		Nonce: "0123456789abcdef", Slots: 2, Processes: 100, Checkpoint: "/data/machine/jobs/resnet-1/checkpoint", Work: "/data/machine/jobs/resnet-1/work",
		Box:     &boxOrder{Runtime: Runtime{Kind: kind, Program: "/usr/bin/" + kind, Init: "/init"}, Mounts: []string{"/sets"}, Socket: "/data", GPUs: []int{2, 3}},
		secrets: map[string]string{"WANDB_API_KEY": "hush"},
	}
}

var boxVars = map[string]string{"RANK": "1", "CUDA_VISIBLE_DEVICES": "2,3", "PATH": "/opt/bin", "WANDB_API_KEY": "hush", "LINES": "a\nb"}

// TestBoxCommand: what each runtime is told.
func TestBoxCommand(t *testing.T) {
	ada := boxUser{uid: 1000, gid: 100, groups: []uint32{100, 44}, name: "ada"}
	for kind, want := range map[string][]string{
		Podman: {"/usr/bin/podman --cgroup-manager cgroupfs run --rm --name fairway-resnet-1.2-01234567-1 --label fairway.attempt=fairway-resnet-1.2-01234567 ",
			" --network host --ipc host ", " --cgroups disabled ", " --userns keep-id ", " --init --init-path /init ", " --security-opt no-new-privileges ",
			" --device nvidia.com/gpu=2 --device nvidia.com/gpu=3 ", " --workdir DIR ",
			" --mount type=bind,source=/data,target=/data,readonly --mount type=bind,source=/data/machine/jobs/resnet-1/checkpoint,target=/data/machine/jobs/resnet-1/checkpoint --mount type=bind,source=/data/machine/jobs/resnet-1/work,target=/data/machine/jobs/resnet-1/work --mount type=bind,source=/sets,target=/sets --mount type=bind,source=DIR,target=DIR ",
			" --env CUDA_VISIBLE_DEVICES --env HOME=/data/machine/jobs/resnet-1/work --env LINES --env LOGNAME=ada --env PATH=/opt/bin --env RANK --env USER=ada --env WANDB_API_KEY torch:2 python train.py --rm"},
		Docker: {"/usr/bin/docker run --rm --name fairway-resnet-1.2-01234567-1 ", " --init --user 1000:100 --group-add 100 --group-add 44 ",
			" --memory 4294967296 --cpus 3 --pids-limit 50 ", ` --gpus "device=2,3" `, " torch:2 python train.py --rm"},
		Apptainer: {"/usr/bin/apptainer exec --cleanenv --no-home --pwd DIR --nv --bind /data:/data:ro --bind ", " --bind DIR:DIR docker://torch:2 python train.py --rm"},
	} {
		o := boxedOrder(t, kind)
		argv, env, err := o.boxed(1, ada, boxVars)
		if err != nil {
			t.Fatal(err)
		}
		line := strings.Join(argv, " ")
		for _, part := range want {
			if part = strings.ReplaceAll(part, "DIR", o.Task.Dir); !strings.Contains(line, part) {
				t.Errorf("%s: %s\nhas no %q", kind, line, part)
			}
		}
		if strings.Contains(line, "hush") || !strings.Contains(strings.Join(env, " "), "WANDB_API_KEY=hush") {
			t.Errorf("%s: the secret is on the command line, or not in the environment: %s, %q", kind, line, env)
		}
		visible := "CUDA_VISIBLE_DEVICES=0,1" // no others are inside
		if kind == Apptainer {
			visible = "APPTAINERENV_CUDA_VISIBLE_DEVICES=2,3"
		}
		if !strings.Contains("\n"+strings.Join(env, "\n")+"\n", "\n"+visible+"\n") {
			t.Errorf("%s: %q; want %s", kind, env, visible)
		}
	}
}

// TestBoxFolders: the working folder may be one of the image, and what cannot be mounted is
// the job's fault.
func TestBoxFolders(t *testing.T) {
	o := boxedOrder(t, Podman)
	o.Task.Dir = "/workspace-of-the-image"
	dir, mounts, err := o.mounts()
	if err != nil || dir != o.Task.Dir || len(mounts) != 4 {
		t.Errorf("%s, %v, %v; want the folder of the image, and four mounts", dir, mounts, err)
	}
	o.Task.Dir = filepath.Join(t.TempDir(), "a,b")
	if err := os.Mkdir(o.Task.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err = o.mounts(); err == nil {
		t.Fatal("a folder with a comma can be mounted")
	}
	if e := startFailure(o, o.Task.Command[0], "/", err); e.Lost || e.Code != 126 || !strings.Contains(e.Why, "comma") {
		t.Errorf("%s; want code 126 and why", show(e))
	}
}

// fakePodman is a runtime that runs the command itself, and says what it was asked.
func fakePodman(t *testing.T, change string) (r Runtime, asked func() string) {
	t.Helper()
	dir := t.TempDir()
	r = Runtime{Kind: Podman, Program: filepath.Join(dir, "podman")}
	log := filepath.Join(dir, "asked")
	writeProgram(t, r.Program, `#!/bin/sh
echo "$*" >> `+log+`
[ "$1" = --cgroup-manager ] && shift 2
verb=$1; shift
`+change+`
case $verb in
version) echo 5.4.2;;
run) while :; do case $1 in --rm|--init) shift;; --*) shift 2;; *) break;; esac; done; shift; exec "$@";;
ps) echo 123abc;;
esac
`)
	return r, func() string { return read(t, log) }
}

// TestBoxRuns: ranks run in containers, which are removed whatever comes of them.
func TestBoxRuns(t *testing.T) {
	runtime, asked := fakePodman(t, "")
	r := newRig(t, func(c *Config) { c.Runtime = runtime })
	a := attempt("boxed", 1, 0b11, `
		f=$FAIRWAY_CHECKPOINT_DIR/up
		[ $RANK = 0 ] && touch $f && exec sleep 1000
		while [ ! -e $f ]; do sleep 0.05; done
		echo "rank $RANK of $WORLD_SIZE" >&2; exit 9`)
	a.Task.Image = "torch:2"
	r.orders.set(a)
	if e := r.exit(a.AttemptID); e.Code != 9 || e.Lost {
		t.Errorf("%s; want code 9", show(e))
	}
	if log := read(t, r.m.attemptDir(a.AttemptID), rankLog(1)); !strings.Contains(log, "rank 1 of 2") {
		t.Errorf("log %q", log)
	}
	said := asked()
	if n := strings.Count(said, "run --rm "); n != 2 {
		t.Errorf("%d containers were started; want 2:\n%s", n, said)
	}
	if !strings.HasSuffix(strings.TrimSpace(said), "rm --force --volumes 123abc") {
		t.Errorf("what was left was not removed:\n%s", said)
	}
	// A process that a signal has ended inside has a code of its own outside.
	b := attempt("boxed", 2, 0b1, "exit 143")
	b.Task.Image = "torch:2"
	r.orders.set(b)
	if e := r.exit(b.AttemptID); e.Signal != "SIGTERM" {
		t.Errorf("%s; want SIGTERM", show(e))
	}
	// Without a runtime, the attempt fails and says why.
	r.m.cfg.Runtime = Runtime{}
	c := attempt("boxed", 3, 0b1, "true")
	c.Task.Image = "torch:2"
	r.orders.set(c)
	if e := r.exit(c.AttemptID); e.Code != 126 || e.Lost || !strings.Contains(e.Why, "containers") {
		t.Errorf("%s; want code 126 and why", show(e))
	}
}

// TestBoxBeside: where a service runs the containers, an attempt is not over before that
// service has removed them; nor is one whose supervisor was killed.
func TestBoxBeside(t *testing.T) {
	for name, killed := range map[string]bool{"ended": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			gate := filepath.Join(t.TempDir(), "up")
			runtime, asked := fakePodman(t, `[ $verb != run ] && [ ! -e `+gate+` ] && { echo "cannot connect" >&2; exit 1; }`)
			runtime.Kind = Docker
			r := newRig(t, func(c *Config) { c.Runtime = runtime })
			script := "exit 3"
			if killed {
				script = "exec sleep 1000"
			}
			a := attempt("beside", 1, 0b1, script)
			a.Task.Image = "torch:2"
			r.orders.set(a)
			r.started(a.AttemptID)
			if killed {
				r.killShim(a.AttemptID)
			}
			eventually(t, "it was tried again", func() bool { return strings.Count(asked(), "ps --all") > 1 })
			if n := len(r.orders.exitsOf(a.AttemptID)); n > 0 {
				t.Fatal("the attempt has ended, and its container may be running")
			}
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if e := r.exit(a.AttemptID); e.Lost != killed || !killed && e.Code != 3 {
				t.Errorf("%s", show(e))
			}
		})
	}
}

// killShim kills the supervisor of an attempt.
func (r *rig) killShim(id api.AttemptID) {
	r.t.Helper()
	eventually(r.t, "a supervisor", func() bool {
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		run := r.m.runs[id]
		if run == nil || run.shim.PID == 0 {
			return false
		}
		run.signalShim(sigKill)
		return true
	})
}

// TestFindRuntime: the first runtime that works is taken; without one, why not.
func TestFindRuntime(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	find := func(want string, c Config) (string, string) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		r, why := FindRuntime(ctx, c, want)
		return r.String(), why
	}
	check := func(want string, c Config, runtime, why string) {
		t.Helper()
		if r, w := find(want, c); r != runtime || !regexp.MustCompile(why).MatchString(w) {
			t.Errorf("%s: %q, %q; want %q, %q", want, r, w, runtime, why)
		}
	}
	check(RuntimeAuto, Config{}, "", "^neither podman nor apptainer nor docker is installed$")
	check(Docker, Config{}, "", "^docker is not installed")
	check(RuntimeOff, Config{}, "", "off")
	writeProgram(t, filepath.Join(dir, "docker"), "#!/bin/sh\necho cannot connect >&2; exit 1\n")
	check(RuntimeAuto, Config{}, "", "docker does not answer.*cannot connect")
	writeProgram(t, filepath.Join(dir, "apptainer"), "#!/bin/sh\necho apptainer version 1.3.4\n")
	check(RuntimeAuto, Config{}, "apptainer 1.3.4", "^$")
	writeProgram(t, filepath.Join(dir, "podman"), "#!/bin/sh\necho 5.4.2\n")
	check(RuntimeAuto, Config{}, "podman 5.4.2", "^$")
	check(Apptainer, Config{}, "apptainer 1.3.4", "^$")
	if !hasCDI("/etc/cdi", "/var/run/cdi") {
		gpu := Config{Devices: []Device{{Index: 0}}}
		check(Podman, gpu, "", "nvidia-ctk cdi generate")
		check(RuntimeAuto, gpu, "apptainer 1.3.4", "^$")
	}
}
