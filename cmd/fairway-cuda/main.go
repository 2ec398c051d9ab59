// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command fairway-cuda takes processes off their GPUs and puts them back, through the
// checkpoint calls of the CUDA driver (from 570 on). Only the daemon starts it, for one
// suspension at a time: a driver that hangs or crashes takes this program with it and
// nothing else. It is a program of its own because it has to be linked to the C library
// to load the driver, and the others are static.
//
// It reads requests from its input, a line each, and answers each with a line: "ok" and
// a number, or "error" and why. The requests are "version", and "state", "lock",
// "checkpoint", "restore" and "unlock" with the number of a process.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// driver is what the program needs of CUDA.
type driver interface {
	version() (int, error)
	call(verb string, pid int) (int, error)
}

func main() {
	if err := serve(os.Stdin, os.Stdout, open); err != nil {
		fmt.Fprintln(os.Stderr, "fairway-cuda:", err)
		os.Exit(1)
	}
}

// serve answers requests until the input ends. A driver that cannot be opened is the
// answer to every request.
func serve(in io.Reader, out io.Writer, open func() (driver, error)) error {
	d, fault := open()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := 0, fault
		if err == nil {
			n, err = answer(d, strings.Fields(lines.Text()))
		}
		text := fmt.Sprintf("ok %d\n", n)
		if err != nil {
			text = "error " + strings.ReplaceAll(err.Error(), "\n", " ") + "\n"
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	return lines.Err()
}

func answer(d driver, words []string) (int, error) {
	switch {
	case len(words) == 1 && words[0] == "version":
		return d.version()
	case len(words) == 2:
		pid, err := strconv.Atoi(words[1])
		if err == nil && pid > 1 {
			return d.call(words[0], pid)
		}
	}
	return 0, fmt.Errorf("request %q: want a verb and the number of a process", strings.Join(words, " "))
}
