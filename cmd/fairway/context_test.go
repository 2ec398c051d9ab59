// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/daemon/strictyaml"
)

// fakeKubectl is the kubectl of the scripts. It writes what it was called with to
// $KUBECTL_LOG, prints a token, and forwards a port to the socket $KUBECTL_SOCKET until
// it is interrupted.
func fakeKubectl() {
	note := func(text string) {
		f, err := os.OpenFile(os.Getenv("KUBECTL_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, text)
			f.Close()
		}
	}
	args := os.Args[1:]
	switch {
	case os.Getenv("KUBECTL_FAILS") != "":
		fmt.Fprintln(os.Stderr, "error: "+os.Getenv("KUBECTL_FAILS"))
		os.Exit(1)
	case slices.Contains(args, "token"):
		note(strings.Join(args, " "))
		fmt.Println("token-1")
	case slices.Contains(args, "port-forward"):
		port, _, _ := strings.Cut(args[len(args)-1], ":")
		note(strings.ReplaceAll(strings.Join(args, " "), port+":", "PORT:"))
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, os.Interrupt) // it may come as soon as the port answers
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go forward(l, strings.TrimPrefix(os.Getenv("KUBECTL_SOCKET"), "unix://"))
		<-asked
		note("port-forward ended")
	}
}

func forward(l net.Listener, socket string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("unix", socket)
		if err != nil {
			in.Close()
			continue
		}
		go func() { io.Copy(out, in); out.Close() }()
		go func() { io.Copy(in, out); in.Close() }()
	}
}

func TestContextsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fairway", "contexts.yaml")
	want := contexts{Current: "kube", Contexts: map[string]place{
		"kube": {Address: "http://127.0.0.1:{port}", Tunnel: []string{"kubectl", "{port}:8460"}, TokenCommand: []string{"kubectl", "create", "token"}},
		"lab":  {Address: "https://lab:8460", TokenFile: "/token", CA: "/ca.pem"},
	}}
	if err := want.write(path); err != nil {
		t.Fatal(err)
	}
	got, err := readContexts(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600: it may name secrets", info.Mode(), err)
	}
	for text, want := range map[string]string{
		"current: a": "current = \"a\"",
		"contexts: {local: {address: 'unix:///a'}}":                                 "not local",
		"contexts: {'../x': {address: 'unix:///'}}":                                 "\"../x\"",
		"contexts: {a: {}}":                                                         "address is empty",
		"contexts: {a: {adress: x}}":                                                "adress",
		"contexts: {a: {address: 'http://127.0.0.1:1', tunnel: [x]}}":               "must contain {port}",
		"contexts: {a: {address: 'http://127.0.0.1:{port}', tunnel: [x]}}":          "tunnel = ",
		"contexts: {a: {address: 'http://a:1', token_command: [x], token_file: y}}": "want one",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readContexts(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want one with %q", text, err, want)
		}
	}
}

func FuzzContexts(f *testing.F) {
	f.Add([]byte("current: kube\ncontexts: {kube: {address: 'http://127.0.0.1:{port}', tunnel: [kubectl, '{port}:8460']}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := contexts{Contexts: map[string]place{}}
		if strictyaml.Unmarshal(text, &c) != nil || c.validate() != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "contexts.yaml")
		if err := c.write(path); err != nil {
			t.Fatal(err)
		}
		if again, err := readContexts(path); err != nil || len(again.Contexts) != len(c.Contexts) {
			t.Errorf("read back %+v, %v; want %+v", again, err, c)
		}
	})
}

// TestTunnelChecksTheName: at the end of a tunnel the daemon has to show the
// certificate of its own name, not of this machine's.
func TestTunnelChecksTheName(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"gpus": 3}`) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"example.com": true, "fairway.other.svc": false} {
		c, err := place{Address: s.URL, CA: ca, ServerName: name}.dial(&remote{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Overview(t.Context())
		c.Close()
		if (err == nil) != want {
			t.Errorf("a certificate for example.com as that of %s: %v; want it taken: %v", name, err, want)
		}
	}
}
