// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
	"go.uber.org/goleak"
)

// TestMain: nothing is left running. Connections take a moment to end, and longer
// than goleak waits on a machine with little time to spare.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long such a machine may take for what takes a moment.
const patience = 2 * time.Minute

// eventually waits until a check succeeds.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	err := check()
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); err = check() {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// logBuffer collects a log that several goroutines write.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// config is a server of a fake.
func config(f *fake) Config {
	return Config{
		Jobs: f, Feed: f, Cluster: f, Access: f, Agents: f, Logs: f, Searches: f, Bidders: f, Version: "test", URL: "http://fairway.example",
		Policies: []api.PolicyEntry{filled[api.PolicyEntry]()},
		ReadJobs: func(text []byte) ([]api.Submission, error) {
			if string(text) == "gpu: 2" {
				return nil, errors.New("the job file:1: gpu: is not a field of a job")
			}
			return []api.Submission{{Spec: sched.Spec{GPUs: 2}, Task: api.Task{Name: string(text)}}}, nil
		},
	}
}

func newServer(t testing.TB, c Config) *Server {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// running is a server with a listener of each kind.
type running struct {
	*Server
	socket, plain, secure string // addresses
	ca                    string // file
	log                   *logBuffer
	stop                  func()
	done                  chan error
}

func start(t *testing.T, c Config, change ...func(*Server)) *running {
	t.Helper()
	r := &running{log: &logBuffer{}, done: make(chan error, 1)}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(r.log, nil))
	}
	r.Server = newServer(t, c)
	for _, f := range change {
		f(r.Server)
	}
	dir := t.TempDir()
	cert, key := selfSigned(t, dir)
	r.ca = cert
	var listeners []*Listener
	for _, e := range []ListenConfig{
		{Address: "unix://" + filepath.Join(dir, "f.sock")},
		{Address: "127.0.0.1:0"},
		{Address: "127.0.0.1:0", Cert: cert, Key: key},
	} {
		l, err := Listen(e)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	r.socket, r.plain, r.secure = listeners[0].URL(), listeners[1].URL(), listeners[2].URL()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.done <- r.Serve(ctx, listeners...) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-r.done:
				if err != nil {
					t.Errorf("serve: %v", err)
				}
			case <-time.After(patience):
				t.Error("the server does not stop")
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

func (r *running) client(t *testing.T, address, token string) *client.Client {
	t.Helper()
	o := client.Options{Address: address, Token: token}
	if strings.HasPrefix(address, "https") {
		o.CA = r.ca
	}
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func selfSigned(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fairway"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// answer is what came back for a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// refused returns the error of an answer.
func (a answer) refused() api.Error {
	var b api.ErrorBody
	if err := json.Unmarshal([]byte(a.body), &b); err != nil || b.Error == nil {
		return api.Error{}
	}
	return *b.Error
}

// ask makes a request by hand.
func ask(t *testing.T, method, address, body string, header ...string) answer {
	t.Helper()
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, address, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

const asAdmin, asUser, asViewer = "Bearer fw_admin", "Bearer fw_user", "Bearer fw_viewer"
