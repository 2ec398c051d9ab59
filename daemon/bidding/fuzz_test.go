// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding_test

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fairway-gpu/fairway/daemon/bidding"
)

func fuzzOffer() bidding.Offer {
	return bidding.Offer{Round: 1, Gang: 2, Task: 1, Demand: 6, App: bidding.App{ID: "a"}, Free: []bidding.Free{{Node: "n0", GPUs: 4}, {Node: "n1", GPUs: 3}}}
}

// FuzzBidTable: whatever an agent sends, a bid that passes keeps all the rules.
func FuzzBidTable(f *testing.F) {
	for _, seed := range []string{
		`{"round":1,"rows":[{"take":[],"rho":2},{"take":[{"node":"n0","gpus":2}],"rho":1}]}`,
		`{"round":1,"rows":[{"take":null,"rho":1e-7}]}`, `{"round":1,"rows":null}`, `{"round":-1}`, `{"round":1,"rows":[{"rho":NaN}]}`,
		`{"round":1,"rows":[{"take":[],"rho":2},{"take":[{"node":"n0","gpus":9223372036854775807},{"node":"n1","gpus":9223372036854775807}],"rho":1}]}`,
		`{"round":1,"rows":[{"take":[],"rho":2}]}{}`, "\xff", `[]`, `{"ROUND":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var table bidding.BidTable
		if bidding.DecodeReply(data, &table) != nil {
			return
		}
		o := fuzzOffer()
		if o.Check(table) != nil {
			return
		}
		present := 0
		for _, row := range table.Rows {
			if math.IsNaN(row.Rho) || row.Rho <= 0 || row.Rho > 1e9 {
				t.Errorf("rho %g passes", row.Rho)
			}
			total := 0
			for _, s := range row.Take {
				if most := map[string]int{"n0": 4, "n1": 3}[s.Node]; s.GPUs < 1 || s.GPUs > most {
					t.Errorf("%+v passes", s)
				}
				total += s.GPUs
			}
			if total%2 != 0 || total > 6 {
				t.Errorf("%d GPUs pass", total)
			}
			if total == 0 {
				present++
			}
		}
		if present != 1 || len(table.Rows) > bidding.MaxRows {
			t.Errorf("%d rows with %d presents pass", len(table.Rows), present)
		}
	})
}

// FuzzServe: no question makes an agent panic, or answer anything but JSON.
func FuzzServe(f *testing.F) {
	offer, err := json.Marshal(fuzzOffer())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(0), []byte(`{"round":1,"app":{"id":"a"}}`))
	f.Add(uint8(1), offer)
	f.Add(uint8(1), []byte(`{"gang":-1,"task":-5,"demand":9,"free":[{"gpus":-3}]}`))
	f.Add(uint8(2), []byte(`{"jobs":[{}]}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		path := []string{bidding.RhoPath, bidding.BidPath, bidding.WinPath}[which%3]
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		var none bidding.Agent = nobody{}
		bidding.Serve(none, secret).ServeHTTP(w, r)
		if w.Code != http.StatusNoContent && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %q: %d %q", path, body, w.Code, w.Body)
		}
	})
}
