// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/daemon/bidding"
)

func hosts(t *testing.T, allowed ...string) bidding.Hosts {
	t.Helper()
	h, err := bidding.NewHosts(allowed)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHosts(t *testing.T) {
	h := hosts(t, "Trainer.example", "search.example:9000", "10.1.0.0/16", "192.168.7.7", "fd00::/8")
	for _, url := range []string{
		"http://127.0.0.1:9000", "http://127.9.9.9", "http://[::1]:80/base/", "https://localhost", "http://LOCALHOST:1", "http://[::ffff:127.0.0.1]",
		"http://trainer.example", "https://TRAINER.example:1234/x", "http://search.example:9000", "http://10.1.2.3", "http://192.168.7.7:1", "http://[fd00::1]",
	} {
		if err := h.Check(url); err != nil {
			t.Errorf("%s: %v; want it to be allowed", url, err)
		}
	}
	for _, url := range []string{
		"", "127.0.0.1:9000", "//127.0.0.1", "http://", "http:///x", "ftp://127.0.0.1", "file:///etc/passwd", "gopher://127.0.0.1", "unix:///run/docker.sock",
		"http://169.254.169.254/latest/meta-data", "http://[fe80::1]", "http://metadata.google.internal", "http://0.0.0.0", "http://[::]", "http://224.0.0.1",
		"http://10.2.0.1", "http://192.168.7.8", "http://example.com", "http://search.example:9001", "http://search.example",
		"http://127.0.0.1.example.com", "http://localhost.example", "http://localhost.", "http://2130706433", "http://0x7f.1", "http://127.1",
		"http://user:pw@127.0.0.1", "http://127.0.0.1@example.com", "http://127.0.0.1#@example.com", "http://127.0.0.1?x=1", "http://127.0.0.1/?", "http://127.0.0.1/a/../b",
		"http://127.0.0.1\r\nX: y", "http://trainer.example.evil", "http://eviltrainer.example",
	} {
		if err := h.Check(url); err == nil {
			t.Errorf("%q is allowed", url)
		}
	}
	for _, bad := range []string{"", "http://x", "a b", "x:0", "x:70000", "*", "*.example", "10.0.0.0/40"} {
		if _, err := bidding.NewHosts([]string{bad}); err == nil {
			t.Errorf("NewHosts(%q) works", bad)
		}
	}
}

// TestNamesAreResolvedLate: a name that is allowed as such may not lead to where
// an address would not be.
func TestNamesAreResolvedLate(t *testing.T) {
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "localhost"); err != nil {
		t.Skip("no localhost")
	}
	var asked atomic.Int32
	url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	a, err := bidding.NewHTTPAgent("http://localhost:"+port, bidding.HTTPOptions{Deadline: ample})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Win(t.Context(), bidding.Win{}); err != nil || asked.Load() != 1 {
		t.Errorf("localhost: %v; want it to be reached", err)
	}
	for _, c := range []struct {
		address string
		trusted bool
		want    bool
	}{
		{"127.0.0.1:80", false, true}, {"[::1]:80", false, true}, {"10.0.0.1:80", false, false}, {"10.0.0.1:80", true, true},
		{"169.254.169.254:80", true, false}, {"[fe80::1%eth0]:80", true, false}, {"0.0.0.0:80", true, false}, {"224.0.0.1:80", true, false},
		{"[::ffff:169.254.169.254]:80", true, false}, {"nonsense", true, false},
	} {
		var allowed []string
		if c.trusted {
			allowed = []string{"localhost"}
		}
		if err := bidding.MayDial(hosts(t, allowed...), "http://localhost", c.address); (err == nil) != c.want {
			t.Errorf("localhost, trusted %v, leads to %s: %v; want allowed %v", c.trusted, c.address, err, c.want)
		}
	}
}

// TestNoRedirect: nobody is called because an agent says so.
func TestNoRedirect(t *testing.T) {
	var reached atomic.Int32
	there := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	for _, status := range []int{301, 302, 303, 307, 308} {
		a, err := bidding.NewHTTPAgent(serve(t, http.RedirectHandler(there, status)), bidding.HTTPOptions{Deadline: ample})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Rho(t.Context(), bidding.RhoQuery{}); err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("%d: %v", status, err)
		}
		a.Close()
	}
	if reached.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// TestWhatIsSent: the secret goes into the header, and an agent that is slow
// costs no more than the deadline.
func TestWhatIsSent(t *testing.T) {
	var got atomic.Pointer[http.Request]
	inner := bidding.Serve(good(), secret)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got.Store(r); inner.ServeHTTP(w, r) }))
	a, err := bidding.NewHTTPAgent(url+"/", bidding.HTTPOptions{Secret: secret, Deadline: ample})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Rho(t.Context(), bidding.RhoQuery{App: bidding.App{ClusterGPUs: 4}}); err != nil {
		t.Fatal(err)
	}
	r := got.Load()
	if r.URL.Path != bidding.RhoPath || r.Method != "POST" || r.Header.Get("Authorization") != "Bearer "+secret || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	slow, err := bidding.NewHTTPAgent(serve(t, hanging()), bidding.HTTPOptions{Deadline: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	begin := time.Now()
	_, err = slow.Bid(context.Background(), bidding.Offer{})
	if took := time.Since(begin); err == nil || !strings.HasPrefix(err.Error(), "slow") || took > ample { // it would never answer
		t.Errorf("%v after %s", err, took)
	}
}
