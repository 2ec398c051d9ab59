// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package suggest_test

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched/suggest"
)

func TestAmong(t *testing.T) {
	names := []string{"tiresias", "fifo", "las"}
	for _, c := range []struct{ word, want string }{
		{"fifi", `"fifi"; did you mean "fifo"? there are: fifo, las, tiresias`},
		{"tirsias", `"tirsias"; did you mean "tiresias"? there are: fifo, las, tiresias`},
		{"pollux", `"pollux"; there are: fifo, las, tiresias`},
		{strings.Repeat("é", 60), `"` + strings.Repeat("é", 20) + `..."; there are: fifo, las, tiresias`},
	} {
		if got := suggest.Among(c.word, names); got != c.want {
			t.Errorf("Among(%q) = %s; want %s", c.word, got, c.want)
		}
	}
}
