// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command trainer is a real training program without dependencies, for pods of tests:
// gradient descent on a small network, with the gradients of all ranks exchanged over
// TCP. It saves its work when asked to stop and resumes on any number of ranks, with
// results that are the same to the last bit: every step consists of the same parts,
// added in the same order, whichever rank computes them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// hurryName is a file that makes the rest of the training run at full speed.
const hurryName = "hurry"

// yield is the exit code of a program that saved its work and stopped on request.
const yield = 75

// settings are the flags.
type settings struct {
	folder string        // of checkpoints and of the ledger
	steps  int           // in all
	every  int           // steps between periodic checkpoints
	pace   time.Duration // of one part of a step, at least
}

func main() {
	var s settings
	flag.StringVar(&s.folder, "folder", os.Getenv("FAIRWAY_CHECKPOINT_DIR"), "where checkpoints and the ledger are")
	flag.IntVar(&s.steps, "steps", 200, "of the training")
	flag.IntVar(&s.every, "every", 20, "steps between checkpoints")
	flag.DurationVar(&s.pace, "pace", 0, "least time for one part of a step")
	flag.Parse()
	code, err := run(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "trainer:", err)
		code = 1
	}
	os.Exit(code)
}

// errAsked means that the training ends early because it was asked to.
var errAsked = errors.New("asked to stop")

func run(s settings) (int, error) {
	e, err := readEnvironment()
	if err != nil {
		return 0, err
	}
	var asked atomic.Bool
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		asked.Store(true)
	}()
	state, err := load(s.folder)
	if err != nil {
		return 0, err
	}
	g, err := meet(e)
	if err != nil {
		return 0, err
	}
	defer g.close()
	fmt.Printf("rank %d of %d begins at step %d\n", e.rank, e.world, state.Step)
	t := &training{settings: s, environment: e, gang: g, state: state, asked: &asked}
	if e.rank == 0 {
		t.agent = newAgent(e, s)
	}
	err = t.train()
	switch {
	case errors.Is(err, errAsked):
		fmt.Printf("rank %d leaves at step %d\n", e.rank, t.state.Step)
		return yield, nil
	case err != nil:
		return 0, err
	}
	if e.rank == 0 {
		t.agent.tell(report{Done: float64(t.state.Step), Work: float64(s.steps), Complete: true})
		fmt.Printf("done: %d steps, loss %s\n", t.state.Step, bits(t.state.Loss))
	}
	return 0, nil
}

// training is one run of a rank.
type training struct {
	settings
	environment
	gang  *gang
	agent *agent
	state checkpoint
	asked *atomic.Bool
}

func (t *training) train() error {
	for t.state.Step < t.steps {
		began := time.Now()
		mine := t.compute()
		waits := time.Now()
		total, stop, err := t.gang.reduce(mine, t.asked.Load())
		if err != nil {
			return err
		}
		t.state.take(total)
		if t.rank == 0 {
			t.agent.measured(t.state.Step, time.Since(began), time.Since(waits))
			if err := t.note(); err != nil {
				return err
			}
		}
		if stop || t.state.Step%t.every == 0 || t.state.Step == t.steps {
			if err := t.save(); err != nil {
				return err
			}
		}
		if stop && t.state.Step < t.steps {
			return errAsked
		}
	}
	return nil
}

// compute returns the gradients of this rank's parts.
func (t *training) compute() []part {
	var out []part
	pace := t.pace
	if _, err := os.Stat(filepath.Join(t.folder, hurryName)); err == nil {
		pace = 0
	}
	for i := t.rank; i < partsOfStep; i += t.world {
		began := time.Now()
		out = append(out, t.state.part(i))
		time.Sleep(pace - time.Since(began)) // simulates the work of a larger model
	}
	return out
}

// save writes a checkpoint, and all ranks wait until it is safe.
func (t *training) save() error {
	if t.rank == 0 {
		if err := t.state.save(t.folder); err != nil {
			return err
		}
		t.agent.tell(report{Done: float64(t.state.Step), Work: float64(t.steps), Checkpoint: true})
	}
	return t.gang.barrier()
}

// note appends a step to the ledger, which records what was computed, by which attempt,
// and on how many ranks.
func (t *training) note() error {
	line := fmt.Sprintf("attempt %d world %d step %d loss %s\n", t.attempt, t.world, t.state.Step, bits(t.state.Loss))
	return appendFile(t.folder, ledgerName, line)
}

// bits prints a number exactly.
func bits(x float64) string { return fmt.Sprintf("%016x", math.Float64bits(x)) }
