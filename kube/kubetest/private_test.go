// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPrivateFolders: two nodes at once have private folders, whether or not the
// machine has such folders, and leave the machine unchanged.
func TestPrivateFolders(t *testing.T) {
	if err := canRunReal(); err != nil {
		t.Skip(err)
	}
	root := t.TempDir()
	for name, text := range map[string]string{"lib/other/file": "1", "lib/file": "2", "lib/.hidden": "3", "log/machine": "4", "etc/hosts": "5"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"lib/link": "other/file", "etc/dangling": "nowhere/resolv.conf"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	before := tree(t, root)

	// Each node writes into its folders while the other does, and lists what it sees.
	const script = `set -eu
. "$FOLDER/private.sh"
private "$ROOT/lib/kubelet"; private "$ROOT/lib/cni"; private "$ROOT/log"; private "$ROOT/run/deep/containerd"
present "$ROOT/etc/hosts" 6; present "$ROOT/etc/dangling" 7; present "$ROOT/etc/absent" 8
for folder in lib/kubelet lib/cni log run/deep/containerd; do echo "$NODE" >"$ROOT/$folder/$NODE"; done
: >"$FOLDER/written"
while [ ! -e "$OTHER/written" ]; do sleep 0.02; done
cd "$ROOT"
find . -type f -o -type l | sort
cat lib/other/file lib/file lib/.hidden lib/link etc/hosts etc/dangling etc/absent`
	const sees = `./etc/absent
./etc/dangling
./etc/hosts
./lib/.hidden
./lib/cni/%[1]s
./lib/file
./lib/kubelet/%[1]s
./lib/link
./lib/other/file
./log/%[1]s
./run/deep/containerd/%[1]s
123157
8
`
	var nodes sync.WaitGroup
	folders := map[string]string{"a": t.TempDir(), "b": t.TempDir()}
	for node, other := range map[string]string{"a": "b", "b": "a"} {
		folder := folders[node]
		if err := os.WriteFile(filepath.Join(folder, "private.sh"), privateScript, 0o600); err != nil {
			t.Fatal(err)
		}
		nodes.Go(func() {
			command := exec.CommandContext(t.Context(), "unshare", "--mount", "--", "sh", "-c", script)
			command.Env = append(os.Environ(), "NODE="+node, "FOLDER="+folder, "OTHER="+folders[other], "ROOT="+root)
			out, err := command.CombinedOutput()
			if diff := cmp.Diff(fmt.Sprintf(sees, node), string(out)); diff != "" || err != nil {
				t.Errorf("node %s sees (-want +got):\n%s, %v", node, diff, err)
			}
		})
	}
	nodes.Wait()
	if diff := cmp.Diff(before, tree(t, root)); diff != "" {
		t.Errorf("the machine before and after (-want +got):\n%s", diff)
	}
}

// tree lists the folders and files below a folder.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	if err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		out = append(out, strings.TrimPrefix(path, root))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}
