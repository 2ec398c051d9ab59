// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cudaProgram is beside the daemon's own program, or in PATH.
const cudaProgram = "fairway-cuda"

// callPatience is how long a call of the driver may take: 69 GB took 29 s.
const callPatience = 5 * time.Minute

// cudaHelper is the driver in a process of its own, cmd/fairway-cuda.
type cudaHelper struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan string
}

// open returns the driver for one suspension.
func (h *Host) open() (Driver, error) {
	if h.Open != nil {
		return h.Open()
	}
	return startCUDA()
}

// startCUDA starts the helper.
func startCUDA() (Driver, error) {
	program, err := exec.LookPath(cudaProgram)
	if own, e := os.Executable(); e == nil {
		beside := filepath.Join(filepath.Dir(own), cudaProgram)
		if _, e := os.Stat(beside); e == nil {
			program, err = beside, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the program %s is not installed beside this one", cudaProgram)
	}
	h := &cudaHelper{cmd: exec.Command(program), answers: make(chan string)}
	h.cmd.Stderr = os.Stderr
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cudaProgram, err)
	}
	go func() { // ends with the helper
		defer close(h.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.answers <- lines.Text()
		}
	}()
	return h, nil
}

// Close ends the helper. One that the driver does not let go is left to it.
func (h *cudaHelper) Close() error {
	h.in.Close()
	go func() {
		for range h.answers {
		}
		_ = h.cmd.Wait()
	}()
	return nil
}

func (h *cudaHelper) ask(request string) (int, error) {
	if _, err := io.WriteString(h.in, request+"\n"); err != nil {
		return 0, fmt.Errorf("%s has ended: %w", cudaProgram, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callPatience)
	defer cancel()
	select {
	case <-ctx.Done():
		_ = h.cmd.Process.Kill()
		return 0, fmt.Errorf("the driver does not answer within %s", callPatience)
	case line, ok := <-h.answers:
		if !ok {
			return 0, fmt.Errorf("%s has ended", cudaProgram)
		}
		if n, ok := strings.CutPrefix(line, "ok "); ok {
			return strconv.Atoi(n)
		}
		return 0, errors.New(strings.TrimPrefix(line, "error "))
	}
}

func (h *cudaHelper) tell(verb string, pid int) error {
	_, err := h.ask(fmt.Sprintf("%s %d", verb, pid))
	return err
}

func (h *cudaHelper) State(pid int) (GPUState, error) {
	n, err := h.ask(fmt.Sprintf("state %d", pid))
	return GPUState(n), err
}
func (h *cudaHelper) Lock(pid int) error       { return h.tell("lock", pid) }
func (h *cudaHelper) Checkpoint(pid int) error { return h.tell("checkpoint", pid) }
func (h *cudaHelper) Restore(pid int) error    { return h.tell("restore", pid) }
func (h *cudaHelper) Unlock(pid int) error     { return h.tell("unlock", pid) }

// leastCUDA is the version of the driver's interface that has the calls.
const leastCUDA = 12080

// Able returns why processes that use GPUs cannot be suspended here; nil: they can.
func (h *Host) Able() error {
	d, err := h.open()
	if err != nil {
		return err
	}
	defer d.Close()
	if c, ok := d.(*cudaHelper); ok {
		switch v, err := c.ask("version"); {
		case err != nil:
			return err
		case v < leastCUDA:
			return fmt.Errorf("the driver is for CUDA %d.%d; want one for 12.8 or later (570)", v/1000, v%1000/10)
		}
	}
	return nil
}
