// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package realnodes

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// helmWithin bounds the build of Helm, which takes minutes the first time.
const helmWithin = 15 * time.Minute

// helm returns the path of the real Helm, of the version that tools/chart names. It is
// built once and kept. If it cannot be built, the test is skipped, or fails with
// FAIRWAY_E2E=1.
func helm(t *testing.T, root string) string {
	t.Helper()
	begin := time.Now()
	path, err := buildHelm(within(t, helmWithin), filepath.Join(root, "tools/chart"))
	switch {
	case err == nil:
		t.Logf("Helm is there after %v", time.Since(begin).Round(time.Millisecond))
	case os.Getenv("FAIRWAY_E2E") == "1":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return path
}

func buildHelm(ctx context.Context, module string) (string, error) {
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return "", fmt.Errorf("find Helm: %w", err)
	}
	flags, err := linkFlags(ctx, module)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find Helm: %w", err)
	}
	folder := filepath.Join(cache, "fairway", "helm", fmt.Sprintf("%x", sha256.Sum256(append(sum, flags...)))[:16])
	path := filepath.Join(folder, "helm")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("build Helm: %w", err)
	}
	// It is built under another name first, so that a file with the right name is
	// complete.
	making := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(making)
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", flags, "-o", making, "helm.sh/helm/v3/cmd/helm")
	build.Dir = module
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // shares what the control plane is compiled from
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build Helm: %w: %s", err, out)
	}
	return path, os.Rename(making, path)
}

// linkFlags sets the versions of Helm and Kubernetes, as in Helm's releases.
func linkFlags(ctx context.Context, module string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "helm.sh/helm/v3", "k8s.io/client-go")
	list.Dir = module
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find the version of Helm: %w", err)
	}
	var version string
	var minor int
	if _, err := fmt.Sscanf(string(out), "%s\nv0.%d.", &version, &minor); err != nil {
		return "", fmt.Errorf("find the version of Helm in %q: %w", out, err)
	}
	const at = "-X helm.sh/helm/v3/"
	flags := at + "internal/version.version=" + version
	for _, p := range []string{"pkg/lint/rules", "pkg/chartutil"} {
		flags += fmt.Sprintf(" %s%s.k8sVersionMajor=1 %[1]s%[2]s.k8sVersionMinor=%[3]d", at, p, minor)
	}
	return flags, nil
}
