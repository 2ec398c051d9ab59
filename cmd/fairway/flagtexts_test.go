// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/sched"
)

func TestBoundsOf(t *testing.T) {
	got, err := boundsOf("h100=8,t4=0")
	if err != nil || len(got) != 2 || got["h100"] != 8 || got["t4"] != 0 {
		t.Errorf("bounds %v, %v; want 8 of h100 and none of t4", got, err)
	}
	for _, text := range []string{"h100", "h100=", "=8", "h100=8,", "h100=8,h100=9", "h100=99999999999999999999"} {
		if _, err := boundsOf(text); err == nil || !strings.Contains(err.Error(), "each once, such as h100=8,t4=32") {
			t.Errorf("%q: %v; want what would be right", text, err)
		}
	}
}

// FuzzFlagTexts: the small languages of flags. What is read says the same when it is
// written and read again.
func FuzzFlagTexts(f *testing.F) {
	for _, seed := range []string{"h100=8,t4=32", "a=1,a=2", "=", "35@2.7", "0x1p-2@1e6", "NaN", "64MiB", "9223372036854775807", "4194304TiB", "10m", "7d", "-1s", "2026-03-01", "2026-03-01T12:00:00Z"} {
		f.Add(seed)
	}
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if bounds, err := boundsOf(text); err == nil && text != "" {
			var parts []string
			for gpu, n := range bounds {
				parts = append(parts, string(gpu)+"="+strconv.Itoa(n))
			}
			again, err := boundsOf(strings.Join(parts, ","))
			if len(bounds) != strings.Count(text, ",")+1 || len(again) != len(bounds) || err != nil {
				t.Errorf("%q gives %v, and that %v, %v", text, bounds, again, err)
			}
		}
		if load, err := parseLoad(text); err == nil && !(load.Util > 0 && load.Util <= 1 && load.Step >= 0 && load.Step <= 1000) {
			t.Errorf("%q is a load of %+v", text, load)
		}
		if at, err := parseSince(text, noon); err == nil && text != "" && at.IsZero() && !strings.HasPrefix(text, "0001-01-01") {
			t.Errorf("%q is no time", text)
		}
		var size, again daemon.Size
		if size.UnmarshalText([]byte(text)) == nil {
			if err := again.UnmarshalText([]byte(size.String())); err != nil || again != size || size < 0 {
				t.Errorf("%q is %d bytes, and %s is %d, %v", text, size, size, again, err)
			}
		}
		var d, same sched.Duration
		if d.UnmarshalText([]byte(text)) == nil {
			if err := same.UnmarshalText([]byte(d.String())); err != nil {
				t.Errorf("%q is %s, and that cannot be read: %v", text, d, err)
			}
		}
	})
}
