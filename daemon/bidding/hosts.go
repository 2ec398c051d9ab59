// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Hosts are the addresses that the daemon may call for an app: the machine itself,
// and those in its configuration. A user who registers an agent must not make the
// daemon call what the user could not reach.
type Hosts struct {
	names    []string // lower case; with or without a port
	prefixes []netip.Prefix
}

// NewHosts reads a list of host names, host:port, IP addresses and networks
// ("10.1.0.0/16"). Loopback addresses are always allowed.
func NewHosts(allowed []string) (Hosts, error) {
	var h Hosts
	for _, text := range allowed {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			h.prefixes = append(h.prefixes, prefix.Masked())
			continue
		}
		if addr, err := netip.ParseAddr(text); err == nil {
			h.prefixes = append(h.prefixes, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		name := strings.ToLower(text)
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			host, port = name, "1"
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsFunc(host, oddInHost) {
			return Hosts{}, fmt.Errorf("host %.80q: want a name, name:port, an address or a network such as 10.1.0.0/16", text)
		}
		h.names = append(h.names, name)
	}
	return h, nil
}

func oddInHost(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_:", r))
}

// Check returns what is wrong with the address of an agent, if anything.
func (h Hosts) Check(address string) error {
	_, err := h.parse(address)
	return err
}

// parse checks an address and returns it without a trailing slash.
func (h Hosts) parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%.100q is not a URL", address)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%.100q begins with %q; want http:// or https://", address, u.Scheme)
	case u.User != nil:
		return nil, errors.New("the URL contains a user; want none: the secret goes into a header")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("%.100q has a query or a fragment; want none", address)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%.100q names no host", address)
	case slices.Contains(strings.Split(u.Path, "/"), ".."):
		return nil, fmt.Errorf("%.100q contains ..; want a plain path", address)
	}
	if !h.allows(u) {
		return nil, fmt.Errorf("the daemon is not allowed to call %.100q; want an address of this machine, such as 127.0.0.1, or one that its configuration allows (bidders.hosts)", u.Host)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

// allows reports whether the host of a URL is on the list. The address it resolves
// to is checked again when it is called.
func (h Hosts) allows(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	if addr, err := netip.ParseAddr(host); err == nil {
		return h.allowsAddr(addr)
	}
	return host == "localhost" || h.named(u)
}

func (h Hosts) named(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	return slices.Contains(h.names, host) || slices.Contains(h.names, net.JoinHostPort(host, portOf(u)))
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

func (h Hosts) allowsAddr(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	return addr.IsLoopback() || slices.ContainsFunc(h.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// control returns a check of the resolved address, made before the connection. A
// name in the configuration may resolve to anything except the addresses where
// machines serve their own credentials; any other name must resolve to an allowed
// address.
func (h Hosts) control(u *url.URL) func(network, address string, _ syscall.RawConn) error {
	trusted := h.named(u)
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("address %q: %w", address, err)
		}
		addr := at.Addr().WithZone("").Unmap()
		if h.allowsAddr(addr) {
			return nil
		}
		if trusted && !addr.IsLinkLocalUnicast() && !addr.IsMulticast() && !addr.IsUnspecified() {
			return nil
		}
		return fmt.Errorf("%s leads to %s, which the daemon is not allowed to call", u.Host, addr)
	}
}
