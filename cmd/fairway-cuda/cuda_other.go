// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "errors"

func open() (driver, error) { return nil, errors.New("jobs run on Linux only") }
