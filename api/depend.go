// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
)

// maxDepends bounds the jobs that one job waits for. An array counts as one.
const maxDepends = 100

// Dependency is a job, or an array of jobs, that another waits for.
type Dependency struct {
	Job string // its id, or a name that only one job has
	Any bool   // any end will do; otherwise it has to finish
}

// anyEnd follows the name of a job whose end will do, however it ends.
const anyEnd = ":any"

// ParseDependency reads "JOB" or "JOB:any".
func ParseDependency(text string) (Dependency, error) {
	job, any := strings.CutSuffix(text, anyEnd)
	if job == "" || len(job) > maxName || strings.Contains(job, ":") || strings.ContainsFunc(job, unprintable) {
		return Dependency{}, Errorf(Invalid, "is %.60q", text).On("depends_on").Try("use the id or the name of a job, which has to finish, or add :any if any end of it will do")
	}
	return Dependency{Job: job, Any: any}, nil
}

func (d Dependency) String() string {
	if d.Any {
		return d.Job + anyEnd
	}
	return d.Job
}

// validateDepends checks the jobs that a job waits for, but not whether they exist.
func (t *Task) validateDepends() error {
	if n := len(t.DependsOn); n > maxDepends {
		return Errorf(Invalid, "has %d entries", n).On("depends_on").Try(fmt.Sprintf("use at most %d; an array counts as one", maxDepends))
	}
	for _, text := range t.DependsOn {
		if _, err := ParseDependency(text); err != nil {
			return err
		}
	}
	return nil
}
