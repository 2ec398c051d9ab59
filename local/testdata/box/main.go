// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// The program of the image that the tests of containers make: it has no other files.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	switch os.Args[1] {
	case "show": // where it is, and the code to exit with
		dir, _ := os.Getwd()
		fmt.Println("pid", os.Getpid(), "user", os.Getuid(), "dir", dir, "rank", os.Getenv("RANK"), "of", os.Getenv("WORLD_SIZE"))
		fmt.Println("secret", len(os.Getenv("HIDDEN")), "path", os.Getenv("PATH"), "shell", os.Getenv("FROM_THE_DAEMON"))
		groups, _ := os.ReadFile("/proc/self/cgroup")
		fmt.Printf("%s", groups)
		for _, path := range []string{os.Getenv("FAIRWAY_CHECKPOINT_DIR") + "/kept", "made"} {
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				fmt.Println(err)
			}
		}
		code, _ := strconv.Atoi(os.Args[2])
		os.Exit(code)
	case "save": // when asked to stop; until then it beats
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		log, err := os.Create("log")
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		for {
			select {
			case <-stop:
				fmt.Println("saved")
				os.Exit(75)
			case <-time.After(10 * time.Millisecond):
				fmt.Fprintln(log, "beat")
			}
		}
	case "stay": // whatever it is asked
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		for {
			time.Sleep(time.Hour)
		}
	}
}
