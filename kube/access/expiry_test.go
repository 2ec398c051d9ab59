// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestExpiry(t *testing.T) {
	for token, want := range map[string]int64{
		jwt(`{"exp": 1700000000}`): 1700000000, jwt(`{"exp": "soon"}`): 0, jwt(`{}`): 0, jwt(`{"exp": -1}`): 0, "a.b": 0, "": 0, "a.%.c": 0,
	} {
		at, ok := expiry(token)
		if ok != (want > 0) || ok && at.Unix() != want {
			t.Errorf("%s: %v, %v; want %d", token, at, ok, want)
		}
	}
}

func FuzzExpiry(f *testing.F) {
	f.Add(jwt(`{"exp": 1}`))
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		if at, ok := expiry(token); ok && at.Unix() <= 0 {
			t.Errorf("%q ends at %v", token, at)
		}
	})
}

// TestAnswersAreBounded: however many invalid tokens come, valid ones stay cached and
// memory does not grow.
func TestAnswersAreBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	a := newAnswers[int](func() time.Time { return now })
	asked := 0
	good := func() (int, error) { asked++; return 7, nil }
	if _, err := a.find("good", good); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxAnswers {
		_, _ = a.find(fmt.Sprint("wrong", i), func() (int, error) { return 0, api.Errorf(api.Denied, "no") })
	}
	if len(a.kept) > maxAnswers {
		t.Errorf("%d answers are kept; want at most %d", len(a.kept), maxAnswers)
	}
	if v, err := a.find("good", good); v != 7 || err != nil || asked != 1 {
		t.Errorf("got %d, %v after asking %d times; want 7 and no second question", v, err, asked)
	}
	// A token that expires before its cached answer is reviewed again.
	short := jwt(fmt.Sprintf(`{"exp": %d}`, now.Add(10*time.Second).Unix()))
	times := 0
	ask := func() (int, error) { times++; return 1, nil }
	for range 3 {
		_, _ = a.find(short, ask)
		now = now.Add(6 * time.Second)
	}
	if times != 2 {
		t.Errorf("asked %d times within 12 seconds; want 2: the token ended after 10", times)
	}
}
