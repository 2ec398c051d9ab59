// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// each calls do n times on so many workers, and starts no further call after a failure.
// show, if set, is told how many are done; its calls never overlap.
func each(part string, workers, n int, show func(part string, done, all int), do func(int) error) error {
	errs := make([]error, n)
	next := make(chan int)
	var wait sync.WaitGroup
	var progress sync.Mutex
	var failed atomic.Bool
	done := 0
	report := func() {
		if show != nil {
			show(part, done, n)
		}
	}
	report()
	for range max(1, workers) {
		wait.Go(func() {
			for i := range next {
				if errs[i] = do(i); errs[i] != nil {
					failed.Store(true)
				}
				progress.Lock()
				done++
				report()
				progress.Unlock()
			}
		})
	}
	for i := 0; i < n && !failed.Load(); i++ {
		next <- i
	}
	close(next)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}
