// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/url"
	"strings"
)

// Link leads to what another tool knows of a job, such as its run in W&B or MLflow.
type Link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

const (
	maxLinks    = 8
	maxLinkName = 40
	maxLinkURL  = 500
)

func validateLinks(links []Link) error {
	if len(links) > maxLinks {
		return Errorf(Invalid, "has %d entries", len(links)).On("links").Try(fmt.Sprintf("send at most %d", maxLinks))
	}
	for i, l := range links {
		u, err := url.Parse(l.URL)
		hidden := func(r rune) bool { return r <= ' ' || r == 0x7f }
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || len(l.URL) > maxLinkURL || strings.ContainsFunc(l.URL, hidden) {
			return Errorf(Invalid, "is %.60q", l.URL).On(fmt.Sprintf("links[%d].url", i)).Try(fmt.Sprintf("send an address with http or https and without a password, at most %d bytes", maxLinkURL))
		}
		if l.Name == "" || len(l.Name) > maxLinkName {
			return Errorf(Invalid, "has %d bytes", len(l.Name)).On(fmt.Sprintf("links[%d].name", i)).Try(fmt.Sprintf("use 1 to %d", maxLinkName))
		}
	}
	return nil
}
