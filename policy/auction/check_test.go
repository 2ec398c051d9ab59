// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/policy/auction"
)

func TestCheck(t *testing.T) {
	ok := auction.Row{Rho: 4}
	rows := func(r ...auction.Row) []auction.Row { return append([]auction.Row{ok}, r...) }
	for _, c := range []struct {
		name string
		bid  auction.Bid
		want auction.Fault // 0: none
		text string
	}{
		{"good", auction.Bid{App: "x", Gang: 4, Task: 2, Rows: rows(auction.Row{Take: take(0, 2, 1, 2), Rho: 1})}, 0, ""},
		{"rho that rises is left out, not refused", auction.Bid{App: "x", Rows: rows(auction.Row{Take: take(0, 1), Rho: 9})}, 0, ""},
		{"no name", auction.Bid{Rows: rows()}, auction.NoName, "needs a name"},
		{"negative gang", auction.Bid{App: "x", Gang: -1, Rows: rows()}, auction.BadGang, "gang = -1"},
		{"task does not divide", auction.Bid{App: "x", Gang: 3, Task: 2, Rows: rows()}, auction.BadGang, "task = 2"},
		{"too many rows", auction.Bid{App: "x", Rows: make([]auction.Row, 2000)}, auction.TooManyRows, "2000 rows; want at most 1024"},
		{"no rows", auction.Bid{App: "x"}, auction.NoPresent, "what rho is now"},
		{"no present", auction.Bid{App: "x", Rows: []auction.Row{{Take: take(0, 1), Rho: 1}}}, auction.NoPresent, "what rho is now"},
		{"two presents", auction.Bid{App: "x", Rows: rows(ok)}, auction.TwoPresents, "2 rows"},
		{"not a number", auction.Bid{App: "x", Rows: rows(auction.Row{Take: take(0, 1), Rho: math.NaN()})}, auction.BadRho, "row 1: rho = NaN"},
		{"infinite", auction.Bid{App: "x", Rows: []auction.Row{{Rho: math.Inf(1)}}}, auction.BadRho, "row 0: rho = +Inf"},
		{"zero", auction.Bid{App: "x", Rows: []auction.Row{{Rho: 0}}}, auction.BadRho, "rho = 0"},
		{"negative", auction.Bid{App: "x", Rows: []auction.Row{{Rho: -1}}}, auction.BadRho, "rho = -1"},
		{"tiny", auction.Bid{App: "x", Rows: []auction.Row{{Rho: 1e-300}}}, auction.BadRho, "rho = 1e-300"},
		{"no machine", auction.Bid{App: "x", Rows: rows(auction.Row{Take: take(4, 1), Rho: 1})}, auction.BadShare, "machine 4 does not exist; there are 4"},
		{"negative machine", auction.Bid{App: "x", Rows: rows(auction.Row{Take: take(-1, 1), Rho: 1})}, auction.BadShare, "machine -1"},
		{"no GPUs", auction.Bid{App: "x", Rows: rows(auction.Row{Take: take(0, 0), Rho: 1})}, auction.BadShare, "takes 0 GPUs"},
		{"machine twice", auction.Bid{App: "x", Rows: rows(auction.Row{Take: take(0, 1, 0, 1), Rho: 1})}, auction.SameMachine, "machine 0 twice"},
		{"more than offered", auction.Bid{App: "x", Rows: rows(auction.Row{Take: take(0, 5), Rho: 1})}, auction.MoreThanOffer, "5 GPUs of machine 0, which offers 4"},
		{"not offered", auction.Bid{App: "x", Rows: rows(auction.Row{Take: take(3, 1), Rho: 1})}, auction.MoreThanOffer, "which offers 0"},
		{"half a gang", auction.Bid{App: "x", Gang: 4, Rows: rows(auction.Row{Take: take(0, 4, 1, 2), Rho: 1})}, auction.NotWhole, "takes 6 GPUs; want a multiple of the gang, 4"},
		{"half a task", auction.Bid{App: "x", Gang: 4, Task: 2, Rows: rows(auction.Row{Take: take(0, 3, 1, 1), Rho: 1})}, auction.NotWhole, "takes 3 GPUs of machine 0"},
		{"holds of no machine", auction.Bid{App: "x", Rows: rows(), Holds: take(7, 1)}, auction.BadShare, "machine 7"},
		{"same name", auction.Bid{App: "good", Rows: rows()}, auction.SameName, "2 bids"},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := auction.Bid{App: "good", Rows: rows(auction.Row{Take: take(0, 4), Rho: 1})}
			other := auction.Bid{App: "other", Rows: rows(auction.Row{Take: take(1, 4), Rho: 1})}
			alone := mustRun(t, twoRacks(), []auction.Bid{other}, auction.Options{})
			if diff := cmp.Diff(take(1, 4), alone.Outcomes[0].Got); diff != "" {
				t.Fatalf("alone (-want +got):\n%s", diff)
			}
			res := mustRun(t, twoRacks(), []auction.Bid{good, c.bid, other}, auction.Options{})
			if c.want == 0 {
				if len(res.Refused) > 0 {
					t.Fatalf("refused: %v", res.Refused)
				}
				return
			}
			if len(res.Refused) == 0 {
				t.Fatalf("not refused; want %s with %q", c.want, c.text)
			}
			r := res.Refused[0]
			if text := fmt.Sprintf("row %d: %s", r.Row, r.Text); r.Fault != c.want || !strings.Contains(text, c.text) {
				t.Fatalf("refused: %s: %s; want %s with %q", r.Fault, text, c.want, c.text)
			}
			last := res.Outcomes[len(res.Outcomes)-1]
			if diff := cmp.Diff(alone.Outcomes[0].Got, last.Got); diff != "" {
				t.Errorf("another bidder is harmed (-alone +beside):\n%s", diff)
			}
		})
	}
}

// FuzzCheck: whatever a bid says, it is refused or takes part in an auction
// that gives nothing twice; a good bid beside it always takes part.
func FuzzCheck(f *testing.F) {
	f.Add(uint8(1), uint8(1), []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 1, 0, 1})
	f.Add(uint8(2), uint8(0), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 2, 0, 9, 0, 9})
	f.Add(uint8(0), uint8(3), []byte("some bytes of no meaning at all, but enough for rows"))
	f.Fuzz(func(t *testing.T, gang, task uint8, data []byte) {
		bid := auction.Bid{App: "fuzz", Gang: int(gang) - 1, Task: int(task) - 1, Rows: []auction.Row{{Rho: 2}}}
		for len(data) >= 9 {
			row := auction.Row{Rho: math.Float64frombits(binary.LittleEndian.Uint64(data))}
			n := int(data[8] % 4)
			data = data[9:]
			for ; n > 0 && len(data) >= 2; n-- {
				row.Take = append(row.Take, auction.Share{Machine: int(int8(data[0])), GPUs: int(int8(data[1]))})
				data = data[2:]
			}
			bid.Rows = append(bid.Rows, row)
		}
		good := auction.Bid{App: "good", Rows: []auction.Row{{Rho: 4}, {Take: take(2, 4), Rho: 1}}}
		o := twoRacks()
		res := mustRun(t, o, []auction.Bid{bid, good}, auction.Options{})
		if len(res.Outcomes)+len(res.Refused) != 2 || res.Outcomes[len(res.Outcomes)-1].App != "good" {
			t.Fatalf("outcomes %+v, refused %v", res.Outcomes, res.Refused)
		}
		left := 12 - auction.Total(res.Withheld) - auction.Total(res.Unsold)
		for _, out := range res.Outcomes {
			left -= auction.Total(out.Got)
			if !(out.Keep > 0 && out.Keep <= 1) {
				t.Fatalf("app %s keeps %g", out.App, out.Keep)
			}
		}
		if left != 0 {
			t.Fatalf("%d GPUs are lost", left)
		}
	})
}
