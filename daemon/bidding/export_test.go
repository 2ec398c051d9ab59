// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding

import "net/url"

// MayDial says whether a host of a URL may lead to an address.
func MayDial(h Hosts, address, resolved string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	return h.control(u)("tcp", resolved, nil)
}

// DecodeReply reads an answer.
func DecodeReply(data []byte, v any) error { return decode(data, v, true) }
