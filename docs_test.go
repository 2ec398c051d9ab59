// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns the Markdown files of the repository, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "bin", "out", "build"}, d.Name())) {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	code    = regexp.MustCompile("`[^`\n]+`|(?m)^    .+$")
	inRepo  = regexp.MustCompile(`(?:^|[\s"'=(,\x60])(?:\./)?((?:api|sched|policy|daemon|tune|predict|diagnose|store|local|kube|server|client|sim|lab|cmd|e2e|tools|python|deploy|docs|examples)(?:/[\w.*-]+)+)`)
	command = regexp.MustCompile(`go (?:test|run|build) [^\n]*`)
	inCall  = regexp.MustCompile(`\./[a-z][\w./-]*`)
	inGo    = regexp.MustCompile("[Pp]ackage `([a-z0-9/]+)`")
)

// TestDocs: every path, package and link that a document names exists.
func TestDocs(t *testing.T) {
	packages := map[string]bool{}
	for _, s := range sources(t) {
		packages[s.dir], packages[path.Base(s.dir)] = true, true
	}
	for name, text := range pages(t) {
		for _, fault := range pageFaults(name, text, packages) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

// pageFaults returns what a page names that does not exist.
func pageFaults(name, text string, packages map[string]bool) []string {
	var faults []string
	for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		if fault := linkFault(name, m[1]); fault != "" {
			faults = append(faults, fault)
		}
	}
	var named []string
	for _, span := range slices.Concat(fence.FindAllString(text, -1), code.FindAllString(text, -1)) {
		for _, m := range inRepo.FindAllStringSubmatch(span, -1) {
			named = append(named, m[1])
		}
		for _, call := range command.FindAllString(span, -1) {
			named = append(named, inCall.FindAllString(call, -1)...)
		}
	}
	for _, p := range named {
		p = path.Clean(strings.TrimRight(strings.TrimSuffix(p, "/..."), "."))
		if found, err := fs.Glob(os.DirFS("."), p); err != nil || len(found) == 0 && strings.ToLower(p) == p {
			faults = append(faults, "there is no "+p)
		}
	}
	for _, m := range inGo.FindAllStringSubmatch(text, -1) {
		if !packages[m[1]] {
			faults = append(faults, "there is no package "+m[1])
		}
	}
	return faults
}

// linkFault returns what is wrong with a link of a page, if anything.
func linkFault(page, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	if file == "" {
		file = path.Base(page)
	}
	file = path.Join(path.Dir(page), file)
	text, err := os.ReadFile(file)
	if info, serr := os.Stat(file); serr == nil && info.IsDir() {
		return ""
	}
	if err != nil {
		return "dead link " + target
	}
	if anchor == "" {
		return ""
	}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		if slug(m[1]) == anchor {
			return ""
		}
	}
	return "link to a heading that does not exist: " + target
}

// slug is the anchor that GitHub gives a heading.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(heading))
}

// TestDocsCatches shows that the checks of TestDocs can fail.
func TestDocsCatches(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"see [this](nowhere.md)", "dead link nowhere.md"},
		{"see [this](architecture.md#no-such-heading)", "link to a heading"},
		{"the file `sched/nothing.go`", "there is no sched/nothing.go"},
		{"    go test ./layer/share\n", "there is no layer/share"},
		{"```\ngo run ./bench/cluster --nodes 3\n```", "there is no bench/cluster"},
		{"package `hunt` does it", "there is no package hunt"},
	} {
		faults := pageFaults("docs/x.md", c.text, map[string]bool{"sched": true})
		if len(faults) != 1 || !strings.Contains(faults[0], c.want) {
			t.Errorf("%q: %v; want one fault with %q", c.text, faults, c.want)
		}
	}
	ok := "[a](architecture.md#the-rooms), [b](adr), `sched/job.go`, `policy/NAME`, package `sched`\n\n    go test -run X ./sched/...\n"
	if faults := pageFaults("docs/x.md", ok, map[string]bool{"sched": true}); len(faults) > 0 {
		t.Errorf("%q: %v; want none", ok, faults)
	}
}

// TestRooms: the table of docs/architecture.md names every room, what it may
// import by house_test.go, and only rooms that stand above it in the table.
func TestRooms(t *testing.T) {
	imports := map[string][]string{}
	for dir, allowed := range arrows {
		room, _, _ := strings.Cut(dir, "/")
		for _, a := range allowed {
			if other, _, _ := strings.Cut(a, "/"); other != room && !slices.Contains(imports[room], other) {
				imports[room] = append(imports[room], other)
			}
		}
		if _, ok := imports[room]; !ok {
			imports[room] = nil
		}
	}
	for _, beside := range []string{".", "e2e", "tools"} {
		delete(imports, beside)
	}
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var above []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| .* \\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1) {
		room, listed := m[1], regexp.MustCompile(`\w+`).FindAllString(m[2], -1)
		want := imports[room]
		switch {
		case m[2] == "everything":
			want = listed
		case m[2] == "nothing":
			listed = nil
		}
		slices.Sort(want)
		slices.Sort(listed)
		if !slices.Equal(want, listed) {
			t.Errorf("docs/architecture.md: %s imports %v; house_test.go allows %v", room, listed, want)
		}
		for _, other := range imports[room] {
			if !slices.Contains(above, other) {
				t.Errorf("docs/architecture.md: %s imports %s, which must stand above it", room, other)
			}
		}
		above = append(above, room)
		delete(imports, room)
	}
	for room := range imports {
		t.Errorf("docs/architecture.md: the table has no row for %s", room)
	}
}
