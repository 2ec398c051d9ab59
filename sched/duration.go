// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that is text in JSON and on the command line:
// "90s", "10m", "16h", "7d".
type Duration time.Duration

// D returns the duration as the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String prints the duration the way ParseDuration reads it.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	s := time.Duration(d).String()
	// "10m0s" and "16h0m0s" are what the standard library prints.
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// UnmarshalJSON accepts text only: a bare number would leave its unit open.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("duration %s: want text with a unit, such as \"10m\"", b)
	}
	return d.UnmarshalText([]byte(s))
}

// ParseDuration reads what time.ParseDuration reads, and a leading number of
// days: "7d", "1d12h".
func ParseDuration(s string) (time.Duration, error) {
	const longest = 100 // bytes
	if len(s) <= longest {
		if d, ok := parseDays(s); ok {
			return d, nil
		}
	}
	return 0, fmt.Errorf("duration %.40q: want a number with a unit, such as 90s, 10m, 16h, 7d or 1d12h", s)
}

// parseDays reads the days before the first "d", and then the rest. A sign
// stands before all of it.
func parseDays(s string) (time.Duration, bool) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		d, err := time.ParseDuration(s)
		return d, err == nil
	}
	days, negative := strings.CutPrefix(days, "-")
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || strings.Trim(days, "0123456789.") != "" || n > maxDays {
		return 0, false
	}
	d := time.Duration(n * float64(24*time.Hour))
	if rest != "" {
		tail, err := time.ParseDuration(rest)
		if err != nil || strings.ContainsAny(rest[:1], "+-") || tail > math.MaxInt64-d {
			return 0, false
		}
		d += tail
	}
	if negative {
		d = -d
	}
	return d, true
}

// maxDays keeps days far from the end of time.Duration.
const maxDays = 100_000

// Brief prints a duration for people, to its two largest units: "2m47s", "3h05m".
func Brief(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
