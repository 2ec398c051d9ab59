// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// orphanage makes the test binary start a child and wait to be killed.
const orphanage = "KUBETEST_ORPHANAGE"

func runOrphanage() {
	s := newSpawner()
	p, err := s.start(os.Getenv(orphanage), "sleep", exec.Command("sleep", "600"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	select {}
}

// TestOrphans: processes die with the test process, even if that has no chance to clean
// up.
func TestOrphans(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends children with their parent")
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphanage+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, 0); err != nil {
		t.Fatalf("the child does not run: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	if err := poll(inTime(t), func(context.Context) error { return ended(child) }); err != nil {
		t.Error(err)
	}
}

// ended returns an error while a process runs. A zombie has ended.
func ended(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || strings.Contains(string(stat), ") Z ") {
		return nil
	}
	return fmt.Errorf("process %d outlived its parent", pid)
}

func TestProcess(t *testing.T) {
	folder := t.TempDir()
	s := newSpawner()
	defer s.close()
	p, err := s.start(folder, "sh", exec.Command("sh", "-c", "echo one; echo two; echo three; exec sleep 600"))
	if err != nil {
		t.Fatal(err)
	}
	waitForLog(t, p, "three")
	if got, want := p.Tail(2), "two\nthree"; got != want {
		t.Errorf("tail %q; want %q", got, want)
	}
	if !p.Running() {
		t.Error("it does not run; want it to")
	}
	p.Stop(5 * time.Second)
	if p.Running() {
		t.Error("it runs after stop")
	}
	failing, err := s.start(folder, "sh", exec.Command("sh", "-c", "echo no port left; exit 1"))
	if err != nil {
		t.Fatal(err)
	}
	err = failing.until(t.Context(), func(context.Context) error { return errors.New("not ready") })
	if err == nil || !strings.Contains(err.Error(), "no port left") {
		t.Errorf("wait for a process that ends: %v; want its last words", err)
	}
}

func TestFindPrograms(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(envFolder, folder)
	t.Setenv(envMust, "")
	_, err := findPrograms("etcd")
	if !errors.Is(err, ErrAbsent) || !strings.Contains(err.Error(), "make controlplane") {
		t.Errorf("no etcd: %v; want it absent and how to build it", err)
	}
	if _, err := findPrograms("kubelet"); err == nil || !strings.Contains(err.Error(), "--real") {
		t.Errorf("no kubelet: %v; want build.sh --real named", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "etcd"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := findPrograms("etcd"); got != folder || err != nil {
		t.Errorf("found %q, %v; want %q", got, err, folder)
	}
}

// TestCacheFolder: this package and the build script agree on the folder.
func TestCacheFolder(t *testing.T) {
	root, err := ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	want, err := exec.Command(filepath.Join(root, toolFolder, "build.sh"), "--where").Output()
	if err != nil {
		t.Skip("build.sh cannot run here: ", err)
	}
	got, err := cacheFolder()
	if err != nil {
		t.Fatal(err)
	}
	if got != strings.TrimSpace(string(want)) {
		t.Errorf("cache folder %s; build.sh says %s", got, want)
	}
}

func TestAuthority(t *testing.T) {
	a, err := newAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.issue("server", identity{name: "someone", groups: []string{"people"}, ips: []net.IP{net.ParseIP("127.0.0.1")}})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.pem)
	cert := parseCertificate(t, p.cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: "127.0.0.1"}); err != nil {
		t.Errorf("verify: %v", err)
	}
	if cert.Subject.CommonName != "someone" || cert.Subject.Organization[0] != "people" {
		t.Errorf("subject %v; want someone of people", cert.Subject)
	}
	other, err := newAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(other.pem)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool}); err == nil {
		t.Error("another authority vouches for the certificate")
	}
}

func parseCertificate(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestRun: a program of the test ends with the cluster, and its successor continues its
// log.
func TestRun(t *testing.T) {
	c := &Cluster{Folder: t.TempDir(), spawner: newSpawner()}
	first, err := c.Run("operator", exec.Command("sh", "-c", "echo first; exec sleep 600"))
	if err != nil {
		t.Fatal(err)
	}
	waitForLog(t, first, "first")
	first.Kill()
	second, err := c.Run("operator", exec.Command("sh", "-c", "echo second; exec sleep 600"))
	if err != nil {
		t.Fatal(err)
	}
	waitForLog(t, second, "second")
	if got, want := c.Logs(5), "--- operator (running: true)\nfirst\nsecond\n"; got != want {
		t.Errorf("logs %q; want %q", got, want)
	}
	c.Close()
	if second.Running() {
		t.Error("it outlives the cluster")
	}
}

// TestFolder: a cluster does not write into a folder with other files, and removes only
// its own folder.
func TestFolder(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := new(Cluster).makeFolder(full); err == nil || !strings.Contains(err.Error(), full) {
		t.Errorf("a folder that is not empty: %v; want an error that names it", err)
	}
	for name, test := range map[string]struct {
		folder string
		stays  bool
	}{
		"named":     {folder: filepath.Join(t.TempDir(), "a", "b"), stays: true},
		"temporary": {},
	} {
		c := &Cluster{spawner: newSpawner()}
		if err := c.makeFolder(test.folder); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(c.Folder); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
		if _, err := os.Stat(c.Folder); (err == nil) != test.stays {
			t.Errorf("%s after the end: %v; want it there: %v", name, err, test.stays)
		}
	}
}

func waitForLog(t *testing.T, p *Process, text string) {
	t.Helper()
	if err := poll(inTime(t), func(context.Context) error {
		if log := p.Tail(9); !strings.Contains(log, text) {
			return fmt.Errorf("log %q; want %q in it", log, text)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestLeftovers(t *testing.T) {
	folder := t.TempDir()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	left := fmt.Sprintf("%s%d-1", ownPrefix, ended.Process.Pid)
	for _, name := range []string{left, fmt.Sprintf("%s%d-1", ownPrefix, os.Getpid()), ownPrefix + "x", ownPrefix + "0-1", ownPrefix + "-1-1", "other"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := leftovers(folder); len(got) != 1 || filepath.Base(got[0]) != left {
		t.Errorf("leftovers %v; want only %s", got, left)
	}
}

func TestFreeAddresses(t *testing.T) {
	got, err := FreeAddresses("127.0.0.1", 20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range got {
		if seen[a] {
			t.Errorf("%s was found twice", a)
		}
		seen[a] = true
	}
}
