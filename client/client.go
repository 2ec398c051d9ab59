// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package client is the Go client of the API. The command line uses nothing else
// to talk to a daemon, and Go programs should use it too. It imports only api and
// sched.
//
//	c, err := client.New(client.Options{Address: "unix:///run/fairway/fairway.sock"})
//	job, err := c.Submit(ctx, api.Submission{...})
//
// Errors of the daemon, and an unreachable daemon, are returned as *api.Error;
// api.CodeOf returns their kind.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Options is where the daemon is and how to authenticate.
type Options struct {
	// Address is unix:///path/of.sock, http://host:port or https://host:port.
	Address string
	// Token is for the network; a Unix socket needs none.
	Token string
	// CA is a file with certificates, in PEM form, to trust besides the system's.
	CA string
	// ServerName is the host name the certificate must have, if it is not that of
	// the address: through a tunnel. Empty: that of the address.
	ServerName string
	// TLS replaces all TLS settings; CA and ServerName are then not used.
	TLS *tls.Config
	// Timeout bounds a request that is not a stream; 0: 30 s.
	Timeout time.Duration
	// OnClose is called by Close, to close a tunnel to the daemon; may be nil.
	OnClose func()
}

// Client talks to one daemon. It is safe for concurrent use.
type Client struct {
	base    string // of all requests: scheme and host
	address string // as given, for people
	token   string
	timeout time.Duration
	http    *http.Client
	onClose func()
}

// New makes a client. It does not connect.
func New(o Options) (*Client, error) {
	c := &Client{address: o.Address, token: o.Token, timeout: cmp.Or(o.Timeout, 30*time.Second), onClose: o.OnClose}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        time.Minute,
		MaxIdleConnsPerHost:    4,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
	u, err := url.Parse(o.Address)
	switch {
	case err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, badAddress(o.Address)
	case u.Scheme == "unix" && u.Host == "" && filepath.IsAbs(u.Path):
		c.base = "http://fairway"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", u.Path)
		}
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && strings.Trim(u.Path, "/") == "":
		c.base = u.Scheme + "://" + u.Host
		transport.Proxy = http.ProxyFromEnvironment
	default:
		return nil, badAddress(o.Address)
	}
	if transport.TLSClientConfig, err = trust(o); err != nil {
		return nil, fmt.Errorf("client of %s: %w", o.Address, err)
	}
	c.http = &http.Client{
		Transport: transport,
		// The API does not redirect, and a token must not follow a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

func badAddress(address string) error {
	return fmt.Errorf("address = %q; want unix:///path/of.sock, http://host:port or https://host:port", address)
}

// trust returns the TLS settings.
func trust(o Options) (*tls.Config, error) {
	if o.TLS != nil {
		return o.TLS.Clone(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if o.CA == "" {
		return config, nil
	}
	pem, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	if config.RootCAs, err = x509.SystemCertPool(); err != nil {
		config.RootCAs = x509.NewCertPool()
	}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("read certificates: no certificate in " + o.CA)
	}
	return config, nil
}

// Address returns the daemon's address as it was given.
func (c *Client) Address() string { return c.address }

// Close closes connections that are not in use.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	if c.onClose != nil {
		c.onClose()
	}
}
