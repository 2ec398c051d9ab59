// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// boxLabel is on all containers of an attempt; its value names the attempt.
const boxLabel = "fairway.attempt"

// boxFor returns how an order runs in containers; nil: it does not.
func (m *Machine) boxFor(o *order) *boxOrder {
	if o.Task.Image == "" {
		return nil
	}
	b := &boxOrder{Runtime: m.cfg.Runtime, Mounts: m.cfg.Mounts}
	if path, ok := strings.CutPrefix(m.cfg.API, "unix://"); ok {
		b.Socket = filepath.Dir(path)
	}
	for _, slot := range o.slots() {
		if d := m.cfg.Devices[slot]; d.Index >= 0 {
			b.GPUs = append(b.GPUs, d.Index)
		}
	}
	return b
}

// boxUser is whom a container runs as.
type boxUser struct {
	uid, gid int
	groups   []uint32
	name     string
}

func boxUserOf(a account) boxUser {
	if a.credential == nil {
		return boxUser{uid: os.Geteuid(), gid: os.Getegid()}
	}
	return boxUser{uid: int(a.credential.Uid), gid: int(a.credential.Gid), groups: a.credential.Groups, name: a.name}
}

// boxed returns the command that runs a rank in a container, and what it adds to the
// environment of the runtime. Values of variables are not on the command line, where all
// users of the machine see them.
func (o *order) boxed(member int, who boxUser, vars map[string]string) (argv, env []string, err error) {
	b := o.Box
	vars = maps.Clone(vars)
	if who.uid != 0 { // the image knows nothing of this user
		own := map[string]string{"HOME": o.Work}
		if who.name != "" {
			own["USER"], own["LOGNAME"] = who.name, who.name
		}
		maps.Copy(own, vars)
		vars = own
	}
	dir, mounts, err := o.mounts()
	if err != nil {
		return nil, nil, err
	}
	if b.Kind == Apptainer {
		argv, env = o.apptainer(dir, mounts, vars)
		return argv, env, nil
	}
	if len(b.GPUs) > 0 {
		vars["CUDA_VISIBLE_DEVICES"] = strings.Join(firstNumbers(len(b.GPUs)), ",") // no others are inside
	}
	attempt := groupName(o.AttemptID, o.Nonce)
	argv = []string{b.Program}
	if b.Kind == Podman {
		argv = append(argv, "--cgroup-manager", "cgroupfs") // with systemd's it would move itself to another group
	}
	argv = append(argv, "run", "--rm", "--name", fmt.Sprintf("%s-%d", attempt, member), "--label", boxLabel+"="+attempt,
		"--network", "host", "--ipc", "host", "--log-driver", "none", "--entrypoint", "", "--workdir", dir,
		"--security-opt", "label=disable") // SELinux would keep it from what is mounted
	if !o.NewPrivileges {
		argv = append(argv, "--security-opt", "no-new-privileges")
	}
	if b.Kind == Podman {
		argv = append(argv, o.podman(who)...)
	} else {
		argv = append(argv, o.docker(who)...)
	}
	for _, m := range mounts {
		text := "type=bind,source=" + m.path + ",target=" + m.path
		if m.readOnly {
			text += ",readonly"
		}
		argv = append(argv, "--mount", text)
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if _, secret := o.secrets[name]; ofRuntime(name) && !secret {
			argv = append(argv, "--env", name+"="+vars[name])
			continue
		}
		argv = append(argv, "--env", name)
		env = append(env, name+"="+vars[name])
	}
	return append(append(argv, o.Task.Image), o.Task.Command...), env, nil
}

// podman returns its own options. Without control groups of its own, the container stays
// in the group of the attempt.
func (o *order) podman(who boxUser) []string {
	out := []string{"--cgroups", "disabled"}
	for _, l := range []struct {
		name  string
		which int
		most  uint64
	}{{"nofile", unix.RLIMIT_NOFILE, 0}, {"nproc", unix.RLIMIT_NPROC, pidMax()}} {
		// Podman would ask for more than it may have where it is not all-powerful.
		var r unix.Rlimit
		if unix.Getrlimit(l.which, &r) != nil {
			continue
		}
		if l.most > 0 {
			r.Cur, r.Max = min(r.Cur, l.most), min(r.Max, l.most)
		}
		if r.Max != unix.RLIM_INFINITY {
			out = append(out, "--ulimit", fmt.Sprintf("%s=%d:%d", l.name, r.Cur, r.Max))
		}
	}
	if who.uid != 0 {
		out = append(out, "--userns", "keep-id")
	}
	if o.Box.Init != "" {
		out = append(out, "--init", "--init-path", o.Box.Init)
	}
	for _, gpu := range o.Box.GPUs {
		out = append(out, "--device", fmt.Sprintf("nvidia.com/gpu=%d", gpu))
	}
	return out
}

// docker returns its own options. Its containers are not in the group of the attempt, so
// each gets its share of the limits.
func (o *order) docker(who boxUser) []string {
	out := []string{"--init", "--user", fmt.Sprintf("%d:%d", who.uid, who.gid)}
	for _, g := range who.groups {
		out = append(out, "--group-add", strconv.Itoa(int(g)))
	}
	each := o.Slots / o.ranks()
	if n := o.Spec.Memory * int64(each); n > 0 {
		out = append(out, "--memory", strconv.FormatInt(n, 10))
	}
	if n := o.Spec.CPUs * each; n > 0 {
		out = append(out, "--cpus", strconv.Itoa(n))
	}
	if n := o.Processes / o.ranks(); n > 0 {
		out = append(out, "--pids-limit", strconv.Itoa(n))
	}
	if len(o.Box.GPUs) > 0 {
		out = append(out, "--gpus", `"device=`+numbers(o.Box.GPUs)+`"`)
	}
	return out
}

// apptainer returns the command for a runtime that is no more than a parent of the rank.
func (o *order) apptainer(dir string, mounts []mount, vars map[string]string) (argv, env []string) {
	argv = []string{o.Box.Program, "exec", "--cleanenv", "--no-home", "--pwd", dir}
	if len(o.Box.GPUs) > 0 {
		argv = append(argv, "--nv")
	}
	for _, m := range mounts {
		text := m.path + ":" + m.path
		if m.readOnly {
			text += ":ro"
		}
		argv = append(argv, "--bind", text)
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, "APPTAINERENV_"+name+"="+vars[name])
	}
	image := o.Task.Image
	if !strings.Contains(image, "://") && !filepath.IsAbs(image) {
		image = "docker://" + image
	}
	return append(append(argv, image), o.Task.Command...), env
}

// mount is a folder that a container sees at the same path.
type mount struct {
	path     string
	readOnly bool
}

// mounts returns the working folder of a container and all that it sees of the machine,
// folders before what is in them. A working folder that the machine does not have is one
// of the image.
func (o *order) mounts() (dir string, out []mount, err error) {
	b := o.Box
	modes := map[string]bool{} // path -> read-only
	if b.Socket != "" && b.Socket != "/" {
		modes[b.Socket] = true // one can connect to a socket there all the same
	}
	for _, path := range append(slices.Clone(b.Mounts), o.Checkpoint, o.Work, o.Memory) {
		if path != "" {
			modes[filepath.Clean(path)] = false
		}
	}
	dir = o.Work
	if o.Task.Dir != "" {
		dir = filepath.Clean(o.Task.Dir)
		if info, err := os.Stat(dir); err == nil && info.IsDir() && dir != "/" {
			modes[dir] = false
		}
	}
	for _, path := range slices.Sorted(maps.Keys(modes)) {
		if strings.ContainsAny(path, ",:\"\n") {
			return "", nil, mountError(path)
		}
		out = append(out, mount{path, modes[path]})
	}
	return dir, out, nil
}

// ofRuntime reports whether a runtime itself would act on a variable.
func ofRuntime(name string) bool {
	return slices.ContainsFunc([]string{"PATH=", "HOME=", "USER=", "LOGNAME=", "TMPDIR=", "LD_", "XDG_", "DBUS_", "DOCKER_", "CONTAINER", "PODMAN", "STORAGE_", "REGISTR", "GODEBUG=", "GOTRACEBACK="},
		func(begin string) bool { return strings.HasPrefix(name+"=", begin) })
}

// mountError is a folder that no runtime can mount: the job is at fault, not the machine.
type mountError string

func (e mountError) Error() string {
	return fmt.Sprintf("folder %.200q cannot be mounted in a container: its name has a comma, a colon or a quote", string(e))
}

func numbers(list []int) string {
	var out []string
	for _, n := range list {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}

// pidMax returns the most processes that the kernel can have; podman lowers its own limit
// to it. 0: not known.
func pidMax() uint64 {
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n
}
