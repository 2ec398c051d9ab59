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
// "policy/*" stands for every policy, "policy/**" for all below policy.
var arrows = map[string][]string{
	"goodput":               {},
	"sched":                 {"goodput"},
	"place":                 {"sched", "goodput"},
	"policy/knob":           {"sched"},
	"auction":               {},
	"pairing":               {"interfere"},
	"policy/*":              {"place", "sched", "goodput", "auction", "policy/knob", "interfere", "pairing"},
	"layer/*":               {"place", "sched", "goodput", "policy/knob", "interfere", "pairing"},
	"policy":                {"sched", "policy/**", "layer/**"},
	"policy/policytest":     {"sched", "place", "goodput"},
	"zoo":                   {"sched", "goodput"},
	"profile":               {"sched", "goodput"},
	"experience":            {"goodput"},
	"autoscale":             {"sched", "goodput"},
	"search":                {},
	"interfere":             {},
	"interfere/learn":       {"interfere"},
	"tuner":                 {"search"},
	"sim":                   {"sched", "place", "goodput", "zoo", "profile", "experience", "autoscale", "search", "interfere", "diagnose"},
	"trace":                 {"sched", "sim", "zoo"},
	"report":                {"sched", "sim", "trace"},
	"repro":                 {"sched", "goodput", "sim", "trace", "policy", "zoo", "profile", "report", "experience", "autoscale", "predict", "interfere", "interfere/learn"},
	"guard":                 {"sched"},
	"live":                  {"sched", "goodput", "guard", "diagnose"},
	"bidding":               {"live", "sched", "auction"},
	"bidding/biddertest":    {"bidding", "live", "sched"},
	"live/backendtest":      {"live", "sched", "policy"},
	"hunt":                  {"live", "search", "tuner"},
	"store":                 {},
	"book":                  {"live", "sched", "goodput", "place", "experience", "policy", "diagnose"},
	"local":                 {"live", "sched", "diagnose"},
	"web":                   {},
	"server":                {"live", "sched", "goodput", "web"},
	"client":                {"live", "sched"},
	"onnx":                  {},
	"features":              {"onnx"},
	"predict":               {"features"},
	"diagnose":              {"sched"},
	"e2e":                   {}, // tests only
	"e2e/realnodes":         {}, // tests only
	"e2e/realnodes/trainer": {},
	"e2e/cluster":           {}, // tests only
	"replay":                {"live", "sched", "goodput", "sim", "policy", "zoo"},
	"engine":                {"book", "diagnose", "live", "sched", "guard", "hunt", "bidding", "policy", "server"},
	"kube/v1alpha1":         {},
	"kube/journal":          {"kube/v1alpha1"},
	"kube/kubetest":         {},
	"kube/kubetest/*":       {"kube/kubetest", "kube/v1alpha1"},
	"kube/informer":         {},
	"kube/constraint":       {},
	"kube/request":          {},
	"kube/nodes":            {"kube/constraint", "kube/informer", "kube/request", "kube/v1alpha1", "live", "sched"},
	"kube/pods":             {"kube/constraint", "kube/informer", "kube/request", "kube/v1alpha1", "live", "sched", "diagnose"},
	"kube/mirror":           {"book", "kube/constraint", "kube/informer", "kube/request", "kube/v1alpha1", "live", "sched"},
	"kube/access":           {"kube/v1alpha1", "live", "sched"},
	"tools/*":               {},
	"tools/cluster":         {"kube/kubetest", "kube/kubetest/operator", "kube/v1alpha1"},
	"bench/*":               {"kube/kubetest", "kube/v1alpha1", "repro"},
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
	switch {
	case dir == "policy/policytest":
		return false
	case dir == "policy" || strings.HasPrefix(dir, "policy/") || strings.HasPrefix(dir, "layer/"):
		return true
	}
	return slices.Contains([]string{"sched", "place", "goodput", "guard", "auction", "autoscale", "search", "tuner", "interfere", "pairing"}, dir)
}

// driver reports whether a package may do I/O, but has no clock of its own.
func driver(dir string) bool {
	return slices.Contains([]string{"sim", "trace", "profile", "zoo", "report", "repro", "experience", "replay", "interfere/learn"}, dir)
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
			if core(s.dir) {
				fail(n, "the core starts no goroutine")
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
		{"place/x.go", `import "github.com/fairway-gpu/fairway/sim"`, "may not import sim"},
		{"goodput/x.go", `import "github.com/fairway-gpu/fairway/sched"`, "may not import sched"},
		{"policy/las/x.go", `import "github.com/fairway-gpu/fairway/policy/fifo"`, "may not import policy/fifo"},
		{"policy/new/x.go", `import "net/http"`, "may not import net/http"},
		{"policy/las/x.go", `import "github.com/google/go-cmp/cmp"`, "may not import github.com/google/go-cmp/cmp"},
		{"trace/x.go", `import "github.com/fairway-gpu/fairway/report"`, "may not import report"},
		{"surprise/x.go", ``, "not in the arrows"},
		{"sched/x.go", `import "time"; var t = time.Now()`, "time.Now"},
		{"sched/x.go", `import clock "time"; var t = clock.Since`, "clock.Since"},
		{"sim/x.go", `import "time"; var t = time.Now()`, "time.Now"},
		{"place/x.go", `import "math/rand/v2"; var x = rand.IntN(3)`, "rand.IntN"},
		{"place/x.go", `import "fmt"; func f() { fmt.Println() }`, "fmt.Println"},
		{"policy/las/x.go", `func f() { go f() }`, "no goroutine"},
		{"report/x.go", `func init() {}`, "func init"},
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
		{"policy/las/x.go", `import ("time"; "github.com/fairway-gpu/fairway/place"); var d = time.Second; var _ = place.Seconds`},
		{"policy/x.go", `import "github.com/fairway-gpu/fairway/policy/las"; var _ = las.New`},
		{"sim/x.go", `import ("os"; "math/rand/v2"); var r = rand.New(rand.NewPCG(1, 2)); var _ = os.Open`},
		{"cmd/fairway/x.go", `import ("time"; "github.com/fairway-gpu/fairway/report"); var t = time.Now(); var _ = report.Page`},
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
