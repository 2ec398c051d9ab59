// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
)

func TestLeaseOf(t *testing.T) {
	for spec, want := range map[string]time.Duration{"themis": 10 * time.Minute, "themis:f=0.5:lease=90s": 90 * time.Second, "las": 0, "pollux": 0} {
		p, err := policy.Builtin().New(spec)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := leaseOf(p, spec); got != want || ok != (want > 0) {
			t.Errorf("%s: lease %s, %v; want %s", spec, got, ok, want)
		}
	}
}

func TestBiddersConfig(t *testing.T) {
	for text, want := range map[string]string{
		"bidders: {deadline: 1ms}":            "bidders.deadline = 1ms",
		"bidders: {every: 10ms}":              "bidders.every = 10ms",
		"bidders: {hosts: ['http://a']}":      "bidders.hosts: host \"http://a\"",
		"bidders: {host: []}":                 "host",
		"bidders: {hosts: [a, '10.0.0.0/8']}": "",
	} {
		c := defaultConfig()
		err := parseConfig([]byte(text), &c)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: error %v; want one with %q", text, err, want)
		}
	}
	d := &daemon{config: defaultConfig()}
	d.config.Bidders.Hosts = []string{"trainer.example"}
	for url, want := range map[string]bool{"http://127.0.0.1:1": true, "https://trainer.example": true, "http://10.0.0.1": false} {
		if err := d.checkBidder(url); (err == nil) != want {
			t.Errorf("%s: %v; want allowed %v", url, err, want)
		}
	}
}
