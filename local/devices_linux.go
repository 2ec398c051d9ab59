// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CUDA_VISIBLE_DEVICES only asks a program to keep to its GPUs. Where control
// groups can be made, the kernel refuses it the device files of the others. All
// other devices stay as they are: jobs use /dev/fuse, InfiniBand and more.

// driverGPUs is where NVIDIA's driver lists its GPUs.
const driverGPUs = "/proc/driver/nvidia/gpus"

// deviceFiles returns the device file of each GPU, by UUID. The index of
// nvidia-smi need not be the number of the file.
func deviceFiles(root string) map[string]string {
	out := map[string]string{}
	lists, _ := filepath.Glob(filepath.Join(root, "*", "information"))
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		fields := map[string]string{}
		for line := range strings.SplitSeq(string(text), "\n") {
			name, value, _ := strings.Cut(line, ":")
			fields[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
		if uuid, minor := fields["GPU UUID"], fields["Device Minor"]; uuid != "" && minor != "" {
			out[uuid] = "/dev/nvidia" + minor
		}
	}
	return out
}

// device is a character device by its numbers.
type device struct{ major, minor uint32 }

// deviceOf returns the device behind a file.
func deviceOf(path string) (device, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return device{}, fmt.Errorf("look at %s: %w", path, err)
	}
	if s.Mode&unix.S_IFMT != unix.S_IFCHR {
		return device{}, fmt.Errorf("%s is not a device", path)
	}
	return device{unix.Major(s.Rdev), unix.Minor(s.Rdev)}, nil
}

// deny refuses devices to the processes of a control group, in place of those that it
// is refused.
func (g *group) deny(dir string, denied []device) error {
	if g.unified {
		program, err := attachDenial(dir, denied)
		if err != nil {
			return err
		}
		if g.denial > 0 { // both refuse until here
			err = detachDenial(dir, g.denial)
			unix.Close(g.denial)
		}
		g.denial, g.denied = program, denied
		return err
	}
	set := func(file string, d device) error {
		rule := fmt.Sprintf("c %d:%d rwm", d.major, d.minor)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(rule), 0); err != nil {
			return fmt.Errorf("write %s for device %d:%d: %w", file, d.major, d.minor, err)
		}
		return nil
	}
	for _, d := range denied {
		if err := set("devices.deny", d); err != nil {
			return err
		}
	}
	for _, d := range g.denied {
		if !slices.Contains(denied, d) {
			if err := set("devices.allow", d); err != nil {
				return err
			}
		}
	}
	g.denied = denied
	return nil
}

// denial returns a BPF program that refuses character devices and allows all
// others. Its context is {access and type, major, minor}, 32 bits each.
func denial(denied []device) []byte {
	var code []byte
	add := func(op, registers byte, offset int16, value uint32) {
		code = append(code, op, registers)
		code = binary.NativeEndian.AppendUint16(code, uint16(offset))
		code = binary.NativeEndian.AppendUint32(code, value)
	}
	const (
		load, and, unequal, move, exit = 0x61, 0x57, 0x55, 0xb7, 0x95
		kind, major, minor             = 0x12, 0x13, 0x14 // r2, r3, r4 from r1, the context
	)
	add(load, kind, 0, 0)
	add(load, major, 4, 0)
	add(load, minor, 8, 0)
	add(and, 0x02, 0, 0xffff)
	for _, d := range denied {
		add(unequal, 0x02, 4, unix.BPF_DEVCG_DEV_CHAR)
		add(unequal, 0x03, 3, d.major)
		add(unequal, 0x04, 2, d.minor)
		add(move, 0, 0, 0)
		add(exit, 0, 0, 0)
	}
	add(move, 0, 0, 1)
	add(exit, 0, 0, 0)
	return code
}

// attachDenial attaches the program to a group of cgroup v2, where it stays for as
// long as the group exists, and returns it.
func attachDenial(dir string, denied []device) (program int, err error) {
	code, licence := denial(denied), []byte("Apache-2.0\x00")
	load := struct {
		kind, count    uint32
		code, licence  uint64
		level, logSize uint32
		log            uint64
	}{kind: unix.BPF_PROG_TYPE_CGROUP_DEVICE, count: uint32(len(code) / 8), code: address(code), licence: address(licence)}
	program, err = bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&load), unsafe.Sizeof(load))
	runtime.KeepAlive(code)
	runtime.KeepAlive(licence)
	if err != nil {
		return 0, fmt.Errorf("load the program that refuses devices: %w", err)
	}
	unix.CloseOnExec(program)
	if err := onGroup(unix.BPF_PROG_ATTACH, dir, program, unix.BPF_F_ALLOW_MULTI); err != nil {
		unix.Close(program)
		return 0, fmt.Errorf("attach the program that refuses devices: %w", err)
	}
	return program, nil
}

func detachDenial(dir string, program int) error {
	if err := onGroup(unix.BPF_PROG_DETACH, dir, program, 0); err != nil {
		return fmt.Errorf("detach the program that refused devices: %w", err)
	}
	return nil
}

// onGroup attaches a program to a group, or detaches it.
func onGroup(command uintptr, dir string, program int, flags uint32) error {
	group, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer group.Close()
	attr := struct{ group, program, kind, flags uint32 }{uint32(group.Fd()), uint32(program), unix.BPF_CGROUP_DEVICE, flags}
	_, err = bpf(command, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return err
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func bpf(command uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
