// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
)

// Variables that identify processes. The first two are set on a supervisor, the
// others on the ranks and all that they start.
const (
	shimVar    = "FAIRWAY_SHIM" // nonce
	shimDirVar = "FAIRWAY_SHIM_DIR"
	nonceVar   = "FAIRWAY_NONCE"
	keepDirVar = "FAIRWAY_CHECKPOINT_DIR"
	memoryVar  = "FAIRWAY_MEMORY_DIR"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// kept are the daemon's variables that a job of another user gets; a job of the
// daemon's own user gets all but withheld.
var (
	kept     = []string{"PATH", "LANG", "LC_", "TZ", "LD_LIBRARY_PATH", "CUDA_", "NVIDIA_", "NCCL_"}
	withheld = []string{"FAIRWAY_", "NOTIFY_SOCKET=", "LISTEN_", "INVOCATION_ID=", "JOURNAL_STREAM=", "GOMAXPROCS=", "GOMEMLIMIT=", "GOCOVERDIR="}
)

// account is the operating-system user that ranks run as.
type account struct {
	credential *syscall.Credential // nil: the daemon's own user
	name, home string
}

func accountOf(o *order) account {
	if !o.Switch {
		return account{}
	}
	a := account{
		credential: &syscall.Credential{Uid: uint32(o.Owner.UID), Gid: uint32(o.Owner.GID)},
		name:       o.Owner.Name,
		home:       o.Work,
	}
	u, err := user.LookupId(strconv.Itoa(o.Owner.UID))
	if err != nil {
		return a // a user without a name may still run programs
	}
	a.name, a.home = u.Username, u.HomeDir
	ids, err := u.GroupIds()
	if err != nil {
		return a
	}
	for _, id := range ids {
		if g, err := strconv.ParseUint(id, 10, 32); err == nil {
			a.credential.Groups = append(a.credential.Groups, uint32(g))
		}
	}
	return a
}

// ownEnvironment returns the daemon's variables without those that mark the
// processes of an attempt, which it has if it runs as a job itself.
func ownEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "FAIRWAY_") })
}

// rankVars is where a rank is in its gang when it starts.
type rankVars struct {
	position
	world, port        int // of its role
	meet               int // port of all roles
	slots              []int
	generation, member int
	link               bool // the supervisor listens
}

// environment returns the variables of one rank; later ones win.
func environment(o *order, a account, s rankVars) []string {
	vars := hostVars(o, a)
	maps.Copy(vars, jobVars(o, s))
	return flatten(vars)
}

func flatten(vars map[string]string) []string {
	out := make([]string, 0, len(vars))
	for k, v := range vars {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// hostVars returns what a process has of the daemon's variables and of its user.
func hostVars(o *order, a account) map[string]string {
	vars := map[string]string{"PATH": defaultPath}
	for _, kv := range os.Environ() {
		has := func(prefix string) bool { return strings.HasPrefix(kv, prefix) }
		if slices.ContainsFunc(withheld, has) || (o.Switch && !slices.ContainsFunc(kept, has)) {
			continue
		}
		if k, v, ok := strings.Cut(kv, "="); ok {
			vars[k] = v
		}
	}
	if a.credential != nil {
		vars["HOME"], vars["USER"], vars["LOGNAME"] = a.home, a.name, a.name
	}
	return vars
}

// jobVars returns what a rank has of its job and its place in the gang, whether it runs in
// a container or not.
func jobVars(o *order, s rankVars) map[string]string {
	vars := map[string]string{}
	if o.CPU {
		vars["OMP_NUM_THREADS"] = "1"
	} else {
		vars["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID" // count GPUs as nvidia-smi does
	}
	maps.Copy(vars, o.Task.Env)
	maps.Copy(vars, o.secrets)
	world := strconv.Itoa(s.world)
	if s.link {
		vars["FAIRWAY_GANG"], vars["FAIRWAY_MEMBER"] = linkName(o.Nonce), strconv.Itoa(s.member)
		vars["FAIRWAY_GENERATION"] = strconv.Itoa(s.generation)
	}
	for k, v := range map[string]string{
		"RANK": strconv.Itoa(s.rank), "LOCAL_RANK": strconv.Itoa(max(0, slices.Index(s.slots, s.slot))),
		"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world,
		"GROUP_RANK": "0", "NODE_RANK": "0",
		"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": strconv.Itoa(s.port),
		"CUDA_VISIBLE_DEVICES": o.Visible,

		"FAIRWAY_API": o.API, "FAIRWAY_TOKEN": o.Token,
		keepDirVar: o.Checkpoint, nonceVar: o.Nonce,
		"FAIRWAY_NOTICE": api.SecondsVariable(o.GracePeriod.D()), "FAIRWAY_REPORT_SECONDS": api.SecondsVariable(o.Report.D()),
		"FAIRWAY_NODES": "1", "FAIRWAY_SLOTS": numbers(s.slots),
	} {
		vars[k] = v
	}
	if len(o.Task.Roles) > 0 {
		maps.Copy(vars, o.roleVars(s.role, s.meet))
	}
	if o.Memory != "" {
		vars[memoryVar] = o.Memory
	}
	maps.Copy(vars, o.Variables())
	if o.MPS != nil {
		maps.Copy(vars, o.MPS.variables(o.Slots))
	}
	return vars
}

// lookProgram finds the program of a command the way a shell in the job's own
// environment and folder would.
func lookProgram(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil // the kernel finds it, from the working folder
	}
	path := defaultPath
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	found := error(unix.ENOENT)
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		file := filepath.Join(folder, name)
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return file, nil
		}
		found = unix.EACCES
	}
	return "", found
}

// startFailure turns an error of starting a program into an exit. The codes are
// those of a shell; a failure that is not the job's fault is lost.
func startFailure(o *order, name, dir string, err error) api.Exit {
	e := api.Exit{AttemptID: o.AttemptID}
	if info, serr := os.Stat(dir); serr != nil {
		e.Code, e.Why = 126, fmt.Sprintf("working folder %.200s: %v", dir, unwrapPath(serr))
		return e
	} else if !info.IsDir() {
		e.Code, e.Why = 126, fmt.Sprintf("working folder %.200s is not a folder", dir)
		return e
	}
	var folder mountError
	if errors.As(err, &folder) {
		e.Code, e.Why = 126, err.Error()
		return e
	}
	if o.Box != nil {
		name = o.Box.Program
	}
	switch err {
	case unix.ENOENT, unix.ENOTDIR:
		e.Code, e.Why = 127, fmt.Sprintf("%.200s: program not found", name)
	case unix.EACCES, unix.EPERM, unix.ENOEXEC, unix.EISDIR, unix.E2BIG, unix.ELOOP, unix.ENAMETOOLONG:
		e.Code, e.Why = 126, fmt.Sprintf("%.200s: cannot be run in %.200s: %v", name, dir, err)
	default:
		return lostExit(o.AttemptID, fmt.Errorf("start %.200s: %w", name, err))
	}
	return e
}

// lostExit is the end of an attempt that could not be started, through no fault of
// the job.
func lostExit(id api.AttemptID, err error) api.Exit {
	if exhausted(err) {
		return heldBackExit(id, time.Now(), err.Error())
	}
	return api.Exit{AttemptID: id, Lost: true, Why: err.Error()}
}

func unwrapPath(err error) error {
	if p, ok := err.(*os.PathError); ok {
		return p.Err
	}
	return err
}

// freePort returns an unused TCP port of the loopback address.
func freePort() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return at.(*unix.SockaddrInet4).Port, nil
}
