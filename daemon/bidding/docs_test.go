// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/fairway-gpu/fairway/daemon/bidding"
)

// TestDocs: the examples of the manual are messages, and the bid is one on the
// offer.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/bidding.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(text, -1)
	var offer bidding.Offer
	var table bidding.BidTable
	messages := []any{&bidding.RhoQuery{}, &bidding.RhoReply{}, &offer, &table, &bidding.Win{}}
	if len(blocks) != len(messages) {
		t.Fatalf("%d examples; want %d", len(blocks), len(messages))
	}
	for i, m := range messages {
		if err := bidding.DecodeReply(blocks[i][1], m); err != nil {
			t.Errorf("example %d, a %T: %v", i, m, err)
		}
	}
	if err := offer.Check(table); err != nil {
		t.Errorf("the bid: %v", err)
	}
}
