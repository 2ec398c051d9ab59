// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// The tests of this file enforce the rules of the house: which package may
// import which, what the core may not do, and how a file begins. They parse the
// sources in the test process, because a test that asks the go command about
// other packages is cached and passes over a violation.
package fairway_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/fairway-gpu/fairway"

// arrows says which packages of the module a package may import, tests aside.
// "policy/*" stands for every package directly below policy, "policy/**" for all
// below it. docs/architecture.md draws the rooms, which are the top folders.
var arrows = map[string][]string{
	// sched: the core. Nouns, State, Decide, and the mathematics beneath them.
	"sched/num":      {},
	"sched/suggest":  {},
	"sched/plan":     {},
	"sched/goodput":  {"sched/num", "sched/plan"},
	"sched":          {"sched/goodput"},
	"sched/fairness": {"sched/num", "sched", "sched/goodput"},
	"sched/place":    {"sched", "sched/goodput"},
	"sched/guard":    {"sched"},
	"sched/forecast": {"sched", "sched/goodput"},
	"sched/federate": {},

	// policy: one folder for each policy, and what several of them share.
	"policy":                 {"sched", "sched/place", "sched/suggest", "policy/**"},
	"policy/*":               {"sched/num", "sched", "sched/fairness", "sched/place", "sched/goodput", "policy/auction", "policy/division", "policy/filling", "policy/flow", "policy/knob", "policy/interfere", "policy/pairing"},
	"policy/fairway":         {"sched", "sched/place", "policy/division", "policy/layer/share"},
	"policy/layer/*":         {"sched", "sched/place", "sched/goodput", "policy/knob", "policy/interfere", "policy/pairing"},
	"policy/knob":            {"sched", "sched/suggest"},
	"policy/flow":            {},
	"policy/filling":         {"sched", "sched/place"},
	"policy/auction":         {},
	"policy/division":        {"sched", "sched/goodput", "sched/place"},
	"policy/interfere":       {},
	"policy/interfere/learn": {"sched/num", "policy/interfere"},
	"policy/pairing":         {"sched", "policy/interfere"},
	"policy/policytest":      {"sched", "policy/knob", "sched/place", "sched/goodput"},

	// api: the nouns that travel between daemon, server, client and journal.
	"api":         {"sched", "sched/goodput", "sched/plan", "diagnose"},
	"api/apitest": {},
	"client":      {"api", "sched"},
	"diagnose":    {"sched"},
	"store":       {},

	// daemon: what decides, and keeps what must survive a crash.
	"daemon":                       {"daemon/*", "api", "sched", "sched/guard", "diagnose", "tune/runner", "policy", "server"},
	"daemon/loop":                  {"sched", "sched/guard"},
	"daemon/strictyaml":            {"sched/suggest"},
	"daemon/executor":              {"api"},
	"daemon/otel":                  {"api", "sched"},
	"daemon/proc":                  {},
	"daemon/suspend":               {"daemon/proc"},
	"daemon/suspend/suspendtest":   {"daemon/suspend"},
	"daemon/executor/executortest": {"daemon/executor", "daemon/loop", "api", "sched", "policy"},
	"daemon/state":                 {"daemon/executor", "daemon/loop", "api", "sched", "sched/fairness", "sched/goodput", "sched/plan", "sched/place", "sched/forecast", "sched/guard", "predict/experience", "policy", "diagnose"},
	"daemon/bidding":               {"daemon/loop", "api", "sched", "policy/auction"},
	"daemon/bidding/biddertest":    {"daemon/bidding", "api", "sched"},
	"daemon/notify":                {"api", "sched"},

	// tune: hyper-parameter searches.
	"tune/search": {},
	"tune":        {"tune/search"},
	"tune/runner": {"api", "tune", "tune/search"},

	// predict: what is known of a job before it runs.
	"predict/onnx":       {},
	"predict/features":   {"predict/onnx"},
	"predict":            {"sched/num", "predict/features", "predict/onnx"},
	"predict/experience": {"sched/num", "sched/goodput"},

	// local, kube: the two executors and what surrounds them.
	"local":           {"daemon/executor", "daemon/proc", "daemon/suspend", "api", "sched", "diagnose"},
	"kube/v1alpha1":   {},
	"kube/v1beta1":    {"kube/v1alpha1"},
	"kube/journal":    {"kube/v1alpha1"},
	"kube/kubetest":   {},
	"kube/kubetest/*": {"kube/kubetest", "kube/v1alpha1"},
	"kube/informer":   {},
	"kube/volumes":    {"kube/informer"},
	"kube/constraint": {"kube/request", "kube/volumes"},
	"kube/request":    {},
	"kube/workload":   {"api"},
	"kube/nodeagent":  {"daemon/proc", "daemon/suspend", "api", "sched"},
	"kube/nodepool":   {"sched"},
	"kube/nodes":      {"kube/constraint", "kube/informer", "kube/request", "kube/v1alpha1", "api", "sched"},
	"kube/pods":       {"kube/constraint", "kube/informer", "kube/nodeagent", "kube/request", "kube/v1alpha1", "kube/volumes", "kube/workload", "daemon/executor", "api", "sched", "diagnose"},
	"kube/mirror":     {"daemon/state", "kube/constraint", "kube/informer", "kube/request", "kube/v1alpha1", "kube/workload", "api", "sched"},
	"kube/access":     {"kube/v1alpha1", "api", "sched"},

	// server: the API and the dashboard.
	"server":     {"api", "sched", "sched/goodput", "server/web"},
	"server/web": {},

	// sim: virtual time, and where its workloads and truths come from.
	"sim/zoo":        {"sched", "sched/goodput"},
	"sim/profile":    {"sched", "sched/goodput", "sched/plan"},
	"sim/autoscale":  {"sched/num", "sched", "sched/goodput"},
	"sim":            {"sched/num", "sim/zoo", "sim/profile", "sim/autoscale", "sched", "sched/fairness", "sched/place", "sched/goodput", "sched/plan", "predict/experience", "tune", "tune/search", "policy/interfere", "policy/interfere/learn", "diagnose"},
	"sim/trace":      {"sched/num", "sim", "sim/zoo", "sched", "tune/search"},
	"sim/federation": {"sched/federate"},
	"sim/replay":     {"sched/num", "sim", "sim/zoo", "api", "sched", "sched/goodput", "policy"},

	// lab: reproductions, reports, benchmarks, measurements.
	"lab/report":   {"sim", "sim/trace", "sched"},
	"lab/repro":    {"lab/report", "sim", "sim/**", "tune", "tune/search", "sched", "sched/num", "sched/goodput", "sched/plan", "sched/federate", "sched/forecast", "policy", "policy/layer/spare", "policy/interfere", "policy/interfere/learn", "predict", "predict/experience"},
	"lab/progress": {},
	"lab/curves":   {"tune/search"},
	"lab/bench/*":  {"lab/progress", "sched/num", "lab/repro", "kube/kubetest", "kube/v1alpha1"},

	".":                     {}, // the files that the program carries
	"e2e":                   {}, // tests only
	"e2e/realnodes":         {}, // tests only
	"e2e/realnodes/trainer": {},
	"e2e/cluster":           {}, // tests only
	"e2e/jumpy":             {},
	"tools/*":               {},
	"tools/cluster":         {"kube/kubetest", "kube/kubetest/operator", "kube/v1alpha1"},
	"tools/trimcrds":        {"kube/v1alpha1"},
	"cmd/*":                 nil, // everything: it wires
}

// coreImports is what the core may use of the standard library.
var coreImports = []string{
	"cmp", "container/heap", "embed", "encoding", "encoding/json", "errors", "fmt", "iter", "maps", "math", "math/bits",
	"math/rand/v2", "reflect", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
}

// banned names what the pure packages may not call, by package.
var banned = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Local", "LoadLocation"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

// seeded is all that may be used of math/rand/v2: what needs a seed.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Zipf", "Source"}

// source is one parsed file.
type source struct {
	name string // path in the module
	dir  string
	test bool
	text string
	file *ast.File
	set  *token.FileSet
}

// core reports whether a package is pure: the same input, the same output.
func core(dir string) bool {
	if dir == "policy/policytest" || dir == "policy/interfere/learn" {
		return false
	}
	room, _, _ := strings.Cut(dir, "/")
	return room == "sched" || room == "policy" || slices.Contains([]string{"sim/autoscale", "tune", "tune/search"}, dir)
}

// driver reports whether a package may do I/O, but has no clock of its own.
func driver(dir string) bool {
	room, _, _ := strings.Cut(dir, "/")
	return room == "sim" || room == "predict" || dir == "lab/report" || dir == "lab/repro" || dir == "policy/interfere/learn"
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	module := os.DirFS(".")
	err := fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "bin", "out"}, d.Name())) {
			return fs.SkipDir
		}
		if _, err := fs.Stat(module, path.Join(name, "go.mod")); d.IsDir() && name != "." && err == nil {
			return fs.SkipDir // a module of its own
		}
		if d.IsDir() || path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		s, err := parse(name, string(text))
		out = append(out, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parse(name, text string) (source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return source{name: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), text: text, file: file, set: set}, err
}

func TestPure(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, fault := range slices.Concat(importFaults(s), codeFaults(s)) {
			t.Error(fault)
		}
	}
}

// importFaults returns what a file imports that it may not.
func importFaults(s source) []string {
	allowed, known := allowedFor(s.dir)
	if !known {
		return []string{fmt.Sprintf("%s: package %s is not in the arrows of house_test.go", s.name, s.dir)}
	}
	var faults []string
	for _, spec := range s.file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		ours, isOurs := strings.CutPrefix(p, module+"/")
		switch {
		case isOurs && allowed != nil && !slices.ContainsFunc(allowed, func(pattern string) bool { return matches(pattern, ours) }):
			faults = append(faults, fmt.Sprintf("%s: package %s may not import %s; it may import %v", s.name, s.dir, ours, allowed))
		case !isOurs && core(s.dir) && !slices.Contains(coreImports, p):
			faults = append(faults, fmt.Sprintf("%s: the core may not import %s; it may import %v", s.name, p, coreImports))
		}
	}
	return faults
}

// allowedFor returns the arrows of a package, the most particular ones.
func allowedFor(dir string) (allowed []string, known bool) {
	if allowed, known = arrows[dir]; known {
		return allowed, true
	}
	allowed, known = arrows[path.Dir(dir)+"/*"]
	return allowed, known
}

func matches(pattern, dir string) bool {
	if below, ok := strings.CutSuffix(pattern, "/**"); ok {
		return strings.HasPrefix(dir, below+"/")
	}
	if above, ok := strings.CutSuffix(pattern, "/*"); ok {
		return path.Dir(dir) == above
	}
	return pattern == dir
}

// codeFaults returns what a file of the core or of a driver does that it may
// not.
func codeFaults(s source) []string {
	var faults []string
	fail := func(n ast.Node, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: ", s.set.Position(n.Pos()))+fmt.Sprintf(format, args...))
	}
	names := map[string]string{} // local name -> import path
	for _, spec := range s.file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(p)
		if p == "math/rand/v2" {
			name = "rand"
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	pure := core(s.dir) || driver(s.dir)
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				fail(n, "func init: nothing happens behind the caller's back here")
			}
		case *ast.GoStmt:
			if pure && s.dir != "lab/repro" {
				fail(n, "this package starts no goroutine: its tests run without the race detector")
			}
		case *ast.SelectorExpr:
			id, ok := n.X.(*ast.Ident)
			if !ok || !pure {
				return true
			}
			p := names[id.Name]
			switch {
			case slices.Contains(banned[p], n.Sel.Name) && (p != "fmt" || core(s.dir)):
				fail(n, "%s.%s: time and output come from and go to the caller", id.Name, n.Sel.Name)
			case p == "math/rand", p == "math/rand/v2" && !slices.Contains(seeded, n.Sel.Name):
				fail(n, "%s.%s: randomness comes from a seed", id.Name, n.Sel.Name)
			}
		}
		return true
	})
	return faults
}

// TestPureCatches shows the checks of TestPure that they can fail.
func TestPureCatches(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"sched/x.go", `import "os"`, "may not import os"},
		{"sched/place/x.go", `import "github.com/fairway-gpu/fairway/sim"`, "may not import sim"},
		{"sched/goodput/x.go", `import "github.com/fairway-gpu/fairway/sched"`, "may not import sched"},
		{"policy/las/x.go", `import "github.com/fairway-gpu/fairway/policy/fifo"`, "may not import policy/fifo"},
		{"policy/new/x.go", `import "net/http"`, "may not import net/http"},
		{"policy/las/x.go", `import "github.com/google/go-cmp/cmp"`, "may not import github.com/google/go-cmp/cmp"},
		{"sim/trace/x.go", `import "github.com/fairway-gpu/fairway/lab/report"`, "may not import lab/report"},
		{"surprise/x.go", ``, "not in the arrows"},
		{"sched/x.go", `import "time"; var t = time.Now()`, "time.Now"},
		{"sched/x.go", `import clock "time"; var t = clock.Since`, "clock.Since"},
		{"sim/x.go", `import "time"; var t = time.Now()`, "time.Now"},
		{"sched/place/x.go", `import "math/rand/v2"; var x = rand.IntN(3)`, "rand.IntN"},
		{"sched/place/x.go", `import "fmt"; func f() { fmt.Println() }`, "fmt.Println"},
		{"policy/las/x.go", `func f() { go f() }`, "starts no goroutine"},
		{"lab/report/x.go", `func init() {}`, "func init"},
	} {
		s, err := parse(c.name, "package x\n"+c.text)
		if err != nil {
			t.Fatal(err)
		}
		faults := slices.Concat(importFaults(s), codeFaults(s))
		if len(faults) != 1 || !strings.Contains(faults[0], c.want) {
			t.Errorf("%s %s: %v; want one fault with %q", c.name, c.text, faults, c.want)
		}
	}
	for _, c := range []struct{ name, text string }{
		{"policy/las/x.go", `import ("time"; "github.com/fairway-gpu/fairway/sched/place"); var d = time.Second; var _ = place.Seconds`},
		{"policy/x.go", `import "github.com/fairway-gpu/fairway/policy/las"; var _ = las.New`},
		{"sim/x.go", `import ("os"; "math/rand/v2"); var r = rand.New(rand.NewPCG(1, 2)); var _ = os.Open`},
		{"cmd/fairway/x.go", `import ("time"; "github.com/fairway-gpu/fairway/lab/report"); var t = time.Now(); var _ = report.Page`},
	} {
		s, err := parse(c.name, "package x\n"+c.text)
		if err != nil {
			t.Fatal(err)
		}
		if faults := slices.Concat(importFaults(s), codeFaults(s)); len(faults) > 0 {
			t.Errorf("%s %s: %v; want none", c.name, c.text, faults)
		}
	}
}

func TestHeaders(t *testing.T) {
	const header = "// Copyright The Fairway Authors\n// SPDX-License-Identifier: Apache-2.0\n\n"
	for _, s := range sources(t) {
		if strings.Contains(path.Base(s.name), "zz_generated") {
			continue // the generator has its own order of lines
		}
		if !strings.HasPrefix(s.text, header) {
			t.Errorf("%s: want the file to begin with\n%s", s.name, header)
		}
	}
}

// TestPackageComments: exactly one file of each package says what it is.
func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		files := comments[s.dir]
		if s.file.Doc != nil {
			files = append(files, s.name)
			want := "// Package " + s.file.Name.Name + " "
			if s.file.Name.Name == "main" {
				want = "// Command " + path.Base(s.dir) + " "
			}
			if first := s.file.Doc.List[0].Text; !strings.HasPrefix(first, want) {
				t.Errorf("%s: the package comment begins %q; want %q", s.name, first, want)
			}
		}
		comments[s.dir] = files
	}
	for dir, files := range comments {
		if len(files) != 1 {
			t.Errorf("package %s has %d package comments, in %v; want one", dir, len(files), files)
		}
	}
}
