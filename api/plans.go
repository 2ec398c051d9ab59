// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/fairway-gpu/fairway/sched"

// PlanVariable is the name of an attempt's execution plan in the environment of its
// processes.
const PlanVariable = "FAIRWAY_PLAN"

// validatePlans checks the execution plans, and that nothing else is asked for that they
// leave no room for.
func (s *Submission) validatePlans() error {
	if s.Plans == nil {
		return nil
	}
	if err := s.Plans.Validate(); err != nil {
		return Errorf(Invalid, "%w", err).On("plans")
	}
	switch {
	case s.Batch.Adapt:
		return Errorf(Invalid, "is true, and the job has plans").On("batch.adapt").Try("leave one of them out: plans are for the batch size of plans.model")
	case s.MilliGPU > 0 && s.MilliGPU < sched.WholeGPU:
		return Errorf(Invalid, "is %d, and the job has plans", s.MilliGPU).On("milli_gpu").Try("leave it out: plans are for whole GPUs")
	case s.Shareable:
		return Errorf(Invalid, "is true, and the job has plans").On("shareable").Try("leave it out: plans are for whole GPUs")
	}
	return nil
}

// sizeByPlans gives a job that does not say how many GPUs it takes the sizes of the plans
// that it lists. As with a range, the smallest stands for what its user would have guessed.
func (s *Submission) sizeByPlans() {
	if s.Plans == nil || len(s.Plans.Generate) > 0 || s.GPUs+s.MinGPUs+s.MaxGPUs > 0 || len(s.Sizes) > 0 {
		return
	}
	sizes := s.Plans.Sizes()
	if len(sizes) == 0 || sizes[0] < 1 { // refused later
		return
	}
	s.GPUs = sizes[0]
	if len(sizes) > 1 {
		s.MinGPUs, s.MaxGPUs, s.Sizes = sizes[0], sizes[len(sizes)-1], sizes
	}
}
