// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/api"
	fairway "github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/sched"
)

// patience is how long a test waits for something that is quick on an idle machine.
const patience = 3 * time.Minute

const team = "team"

// site is one cluster: a control plane with an operator, or a daemon.
type site struct {
	*fairway.Client
	name string
	kube *kubetest.Cluster // nil: a daemon
	op   *operator.Operator

	mu     sync.Mutex
	behind http.RoundTripper
	target *url.URL
}

// world is a user with contexts for all sites. Every request of the user's commands passes
// the guillotine.
type world struct {
	t                  *testing.T
	folder             string // of the user's configuration
	fairway, operators string // the programs
	sites              map[string]*site
	fronts             map[string]string // where the user finds each
	guillotine
}

// guillotine kills a command at one of its requests: before a cluster sees it, or after it
// has acted and before the command sees the answer.
type guillotine struct {
	mu     sync.Mutex
	cmd    *exec.Cmd
	at     string // the end of the request's path; empty: see number
	number int    // which request; 0: none
	before bool
	seen   []string
	fell   bool
}

func (g *guillotine) falls(r *http.Request, before bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	request := r.Method + " " + r.URL.Path
	if before {
		g.seen = append(g.seen, request)
	}
	here := g.at != "" && strings.HasSuffix(request, g.at) || g.number > 0 && len(g.seen) == g.number
	if g.cmd == nil || !here || g.before != before {
		return false
	}
	_ = g.cmd.Process.Kill()
	g.fell = true
	return true
}

// serve passes a request of a command on to the site.
func (s *site) serve(g *guillotine) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.falls(r, true) {
			panic(http.ErrAbortHandler)
		}
		s.mu.Lock()
		target, through := s.target, s.behind
		s.mu.Unlock()
		pass := httputil.NewSingleHostReverseProxy(target)
		pass.Transport = through
		pass.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
		pass.ModifyResponse = func(*http.Response) error {
			if g.falls(r, false) {
				return errors.New("cut off")
			}
			return nil
		}
		pass.ServeHTTP(w, r)
	})
}

// begin starts control planes and a daemon, all at once.
func begin(t *testing.T, kubes []string, daemon string) *world {
	t.Helper()
	w := &world{t: t, folder: t.TempDir(), sites: map[string]*site{}, fronts: map[string]string{}}
	var g sync.WaitGroup
	var fault error
	g.Go(func() { w.fairway, w.operators, fault = build(t.TempDir()) })
	for _, name := range kubes {
		w.sites[name] = &site{name: name}
	}
	w.sites[daemon] = &site{name: daemon}
	clusters := make([]*kubetest.Cluster, len(kubes))
	errs := make([]error, len(kubes)+1)
	small := kubetest.Options{Nodes: []kubetest.NodeSpec{{Count: 1, GPUs: 1, Type: "NVIDIA-H200"}}}
	if _, err := kubetest.Program("kwok"); err == nil {
		for i := range kubes[1:] {
			g.Go(func() { clusters[i+1], errs[i+1] = kubetest.Open(context.Background(), "", small) })
		}
	}
	clusters[0] = kubetest.Start(t, small) // or the test is skipped
	g.Wait()
	for _, c := range clusters[1:] {
		if c != nil {
			t.Cleanup(c.Close)
		}
	}
	if err := errors.Join(append(errs, fault)...); err != nil {
		t.Fatal(err)
	}
	for i, name := range kubes {
		s := w.sites[name]
		s.kube = clusters[i]
		g.Go(func() { errs[i] = w.install(s) })
	}
	g.Go(func() { errs[len(kubes)] = w.up(w.sites[daemon]) })
	g.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.sites {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		front := &http.Server{Handler: s.serve(&w.guillotine)}
		go front.Serve(l)
		t.Cleanup(func() { front.Close() })
		w.fronts[s.name] = "http://" + l.Addr().String()
		w.know(s)
	}
	return w
}

func build(folder string) (command, operators string, err error) {
	root, err := kubetest.ModuleRoot()
	if err != nil {
		return "", "", err
	}
	command = filepath.Join(folder, "fairway")
	cmd := exec.Command("go", "build", "-o", command, "./cmd/fairway")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("build fairway: %w\n%s", err, out)
	}
	operators, err = operator.Build(context.Background(), folder)
	return command, operators, err
}

// know gives the user a context for a site.
func (w *world) know(s *site, more ...string) {
	w.t.Helper()
	args := append([]string{"context", "add", s.name, "--address", w.fronts[s.name]}, more...)
	if s.kube != nil {
		args = append(args, "--token-file", w.tokenFile(s))
	}
	w.must(args...)
}

func (w *world) tokenFile(s *site) string { return filepath.Join(w.folder, s.name+".token") }

// install makes a control plane a cluster with Fairway, a team, and a token of its account.
func (w *world) install(s *site) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := operator.Install(ctx, s.kube); err != nil {
		return err
	}
	if err := s.kube.Namespace(ctx, team); err != nil {
		return err
	}
	admin, err := operator.Client(s.kube)
	if err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "default"}}
	err = admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "users"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fairway-user"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: team, Name: account.Name}},
	})
	if err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"fairway"}}}
	if err := admin.SubResource("token").Create(ctx, account, request); err != nil {
		return err
	}
	if err := os.WriteFile(w.tokenFile(s), []byte(request.Status.Token), 0o600); err != nil {
		return err
	}
	return w.lead(ctx, s, request.Status.Token)
}

// lead starts the operator of a site and waits until it leads.
func (w *world) lead(ctx context.Context, s *site, token string) error {
	var err error
	if s.op, err = operator.Start(ctx, s.kube, operator.Options{Program: w.operators, Config: map[string]any{"policy": "fifo"}}); err != nil {
		return err
	}
	if err := s.op.WaitLeads(ctx); err != nil {
		return err
	}
	return s.at(s.op.API, fairway.Options{Address: s.op.API, Token: token}, http.DefaultTransport)
}

// at says where a site is.
func (s *site) at(address string, o fairway.Options, through http.RoundTripper) error {
	target, err := url.Parse(address)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target, s.behind = target, through
	s.Client, err = fairway.New(o)
	return err
}

// up starts a daemon with one slot. What it takes for podman records nothing and runs until it
// is killed: that containers run as they should is tested elsewhere.
func (w *world) up(s *site) error {
	data, err := os.MkdirTemp("", "fw") // the path of a socket must be short
	if err != nil {
		return err
	}
	bin := filepath.Join(data, "bin")
	script := "#!/bin/sh\ncase \" $* \" in\n*' version '*) echo 5.0.0 ;;\n*' run '*) exec sleep 1000 ;;\nesac\n"
	if err := errors.Join(os.Mkdir(bin, 0o700), os.WriteFile(filepath.Join(bin, "podman"), []byte(script), 0o700)); err != nil {
		return err
	}
	cmd := exec.Command(w.fairway, "up", "--data", filepath.Join(data, "d"), "--listen=", "--slots=1", "--policy=fifo")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return err
	}
	w.t.Cleanup(func() {
		for j, err := range s.List(context.Background(), api.JobFilter{States: []string{api.Running, api.Starting, api.Waiting, api.Paused}}) {
			if err == nil {
				_, _ = s.Command(context.Background(), j.ID, api.Cancel) // it would outlive the daemon
			}
		}
		_ = eventually(func() error { return s.idle() })
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		os.RemoveAll(data)
		if w.t.Failed() {
			w.t.Logf("the daemon said: %s", log.String())
		}
	})
	socket := filepath.Join(data, "d", "fairway.sock")
	through := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	if err := s.at("http://daemon", fairway.Options{Address: "unix://" + socket}, through); err != nil {
		return err
	}
	return eventually(func() error { _, err := s.Overview(context.Background()); return err })
}

// eventually waits until a check succeeds.
func eventually(check func() error) (err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("not after %v: %w", patience, err)
}

// idle reports whether nothing waits or runs on a site.
func (s *site) idle() error {
	o, err := s.Overview(context.Background())
	if err == nil && o.Running+o.Waiting > 0 {
		err = fmt.Errorf("%s has %d jobs that run and %d that wait", s.name, o.Running, o.Waiting)
	}
	return err
}

// command prepares a command of the user.
func (w *world) command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(w.fairway, args...)
	cmd.Dir, cmd.Env = w.folder, append(os.Environ(), "XDG_CONFIG_HOME="+w.folder)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

func (w *world) run(args ...string) (said string, err error) {
	cmd, out := w.command(args...)
	err = cmd.Run()
	return out.String(), err
}

func (w *world) must(args ...string) string {
	w.t.Helper()
	said, err := w.run(args...)
	if err != nil {
		w.t.Fatalf("fairway %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return said
}

// rebalance runs the command between two sites and kills it as the guillotine is set.
func (w *world) rebalance(from, to *site) (said string, killed bool) {
	w.t.Helper()
	cmd, out := w.command("rebalance", "--cluster", from.name+","+to.name)
	w.mu.Lock()
	w.seen, w.fell, w.cmd = nil, false, cmd
	err := cmd.Start()
	w.mu.Unlock()
	if err != nil {
		w.t.Fatal(err)
	}
	_ = cmd.Wait() // what it says tells more
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cmd = nil
	return out.String(), w.fell
}

// job submits a job to a site by its API, and waits until the site says when it starts.
func (w *world) job(s *site, name string, estimate time.Duration, want string) api.Job {
	w.t.Helper()
	j, err := s.Submit(w.t.Context(), api.Submission{Spec: sched.Spec{GPUs: 1, Estimate: sched.Duration(estimate)},
		Task: api.Task{Name: name, Image: "trainer:1", Command: []string{"train", "$HOME"}, Env: map[string]string{"LR": "0.1"}}, Key: "test-" + name})
	if err != nil {
		w.t.Fatalf("submit %s to %s: %v", name, s.name, err)
	}
	err = eventually(func() error {
		e, err := s.Explain(w.t.Context(), j.ID)
		switch {
		case err != nil:
			return err
		case e.Job.State != want || want == api.Waiting && (e.Job.Reason == nil || e.Job.Reason.Until.IsZero()):
			return fmt.Errorf("%s is %s: %+v", j.ID, e.Job.State, e.Job.Reason)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// end cancels a job and waits until its site is idle.
func (w *world) end(s *site, id sched.JobID) {
	w.t.Helper()
	if _, err := s.Command(w.t.Context(), id, api.Cancel); err != nil {
		w.t.Fatal(err)
	}
	if err := eventually(s.idle); err != nil {
		w.t.Fatal(err)
	}
}

// found is a job with a name, on a site. On Kubernetes its name has an end.
type found struct {
	at *site
	api.Job
}

func (w *world) find(name string, sites ...*site) (out []found) {
	w.t.Helper()
	for _, s := range sites {
		for j, err := range s.List(w.t.Context(), api.JobFilter{Search: name}) {
			if err != nil {
				w.t.Fatalf("%s: %v", s.name, err)
			}
			if j.Name == name || strings.HasPrefix(j.Name, name+"-") {
				out = append(out, found{s, j})
			}
		}
	}
	return out
}

// tell describes jobs.
func tell(all []found) string {
	var parts []string
	for _, f := range all {
		parts = append(parts, fmt.Sprintf("%s/%s %s, started %d times, moved from %q to %q", f.at.name, f.ID, f.State, f.Status.Starts, f.MovedFrom, f.MovedTo))
	}
	return strings.Join(parts, "; ")
}
