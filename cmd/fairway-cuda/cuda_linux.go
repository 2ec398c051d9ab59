// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

const library = "libcuda.so.1"

// lockPatience is how long the driver waits for a process to finish what it has given
// to its GPUs, in milliseconds.
const lockPatience = 20_000

// lockArgs is CUcheckpointLockArgs. The other calls take no arguments yet.
type lockArgs struct {
	timeoutMS uint32
	_         uint32
	_         [7]uint64
}

// cuda is the driver's library. Its functions return 0 or the number of an error.
type cuda struct {
	getVersion                            func(*int32) int32
	errorName                             func(int32, *unsafe.Pointer) int32
	state                                 func(int32, *int32) int32
	lock, checkpoint, restoreGPUs, unlock func(int32, unsafe.Pointer) int32
}

// open loads the driver's library, and says what is missing.
func open() (driver, error) {
	lib, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be loaded: %v", library, err)
	}
	c := &cuda{}
	var start func(uint32) int32
	for _, f := range []struct {
		to   any
		name string
	}{
		{&start, "cuInit"}, {&c.getVersion, "cuDriverGetVersion"}, {&c.errorName, "cuGetErrorName"},
		{&c.state, "cuCheckpointProcessGetState"}, {&c.lock, "cuCheckpointProcessLock"}, {&c.checkpoint, "cuCheckpointProcessCheckpoint"},
		{&c.restoreGPUs, "cuCheckpointProcessRestore"}, {&c.unlock, "cuCheckpointProcessUnlock"},
	} {
		at, err := purego.Dlsym(lib, f.name)
		if err != nil || at == 0 {
			return nil, fmt.Errorf("the driver has no %s; drivers from 570 on have it", f.name)
		}
		purego.RegisterFunc(f.to, at)
	}
	if code := start(0); code != 0 {
		return nil, fmt.Errorf("cuInit: %w", c.fault(code))
	}
	return c, nil
}

// fault returns the error of a number; nil: it is none.
func (c *cuda) fault(code int32) error {
	if code == 0 {
		return nil
	}
	var name unsafe.Pointer
	text := "CUDA error"
	if c.errorName(code, &name) == 0 && name != nil {
		text = cString(name)
	}
	return fmt.Errorf("%s (%d)", text, code)
}

// cString reads a name of the driver, which ends with a zero.
func cString(at unsafe.Pointer) string {
	var out []byte
	for i := 0; i < 100; i++ {
		b := *(*byte)(unsafe.Add(at, i))
		if b == 0 {
			break
		}
		out = append(out, b)
	}
	return string(out)
}

func (c *cuda) version() (int, error) {
	var v int32
	err := c.fault(c.getVersion(&v))
	return int(v), err
}

func (c *cuda) call(verb string, pid int) (int, error) {
	p := int32(pid)
	switch verb {
	case "state":
		var s int32
		err := c.fault(c.state(p, &s))
		return int(s), err
	case "lock":
		args := lockArgs{timeoutMS: lockPatience}
		return 0, c.fault(c.lock(p, unsafe.Pointer(&args)))
	case "checkpoint":
		return 0, c.fault(c.checkpoint(p, nil))
	case "restore":
		return 0, c.fault(c.restoreGPUs(p, nil))
	case "unlock":
		return 0, c.fault(c.unlock(p, nil))
	}
	return 0, fmt.Errorf("verb %q: want state, lock, checkpoint, restore or unlock", verb)
}
