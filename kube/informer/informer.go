// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package informer adapts the events of a Kubernetes cache to functions for objects of
// one type.
package informer

import (
	toolscache "k8s.io/client-go/tools/cache"
)

// On returns a handler that calls set for an object that is new or has changed, and
// drop for one that is gone.
func On[T any](set, drop func(T)) toolscache.ResourceEventHandlerFuncs {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if v, ok := o.(T); ok {
				set(v)
			}
		},
		UpdateFunc: func(_, o any) {
			if v, ok := o.(T); ok {
				set(v)
			}
		},
		DeleteFunc: func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if v, ok := o.(T); ok {
				drop(v)
			}
		},
	}
}
