// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

// CanSuspend reports whether jobs can be suspended on this machine; if not, why.
func CanSuspend(c Config) (ok bool, why string) {
	c = c.withDefaults()
	if c.NoSuspend {
		return false, "it is turned off (suspend: false)"
	}
	if len(c.Devices) == 0 || c.Devices[0].Index < 0 {
		return true, ""
	}
	if err := c.Suspend.Able(); err != nil {
		return false, err.Error()
	}
	return true, ""
}
