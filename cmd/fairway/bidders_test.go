// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

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
	b := defaultConfig().Bidders
	b.Hosts = []string{"trainer.example"}
	for url, want := range map[string]bool{"http://127.0.0.1:1": true, "https://trainer.example": true, "http://10.0.0.1": false} {
		if err := b.Check(url); (err == nil) != want {
			t.Errorf("%s: %v; want allowed %v", url, err, want)
		}
	}
}
