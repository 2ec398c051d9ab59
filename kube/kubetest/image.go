// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Image is a container image of a few files, without a base image.
type Image struct {
	// Name is its full name, such as docker.io/local/worker:1. Pods that use it
	// may not have imagePullPolicy: Always.
	Name string
	// Files maps paths in the image to files of this machine. All are executable;
	// programs must be static.
	Files map[string]string
	// Entrypoint, Cmd and User are as in a Dockerfile.
	Entrypoint, Cmd []string
	User            string
	// Bare leaves out the folder for temporary files, /tmp.
	Bare bool
}

// LoadImage loads an image onto every real node.
func (c *Cluster) LoadImage(ctx context.Context, image Image) error {
	var archive bytes.Buffer
	if err := image.write(&archive); err != nil {
		return fmt.Errorf("make image %s: %w", image.Name, err)
	}
	for _, n := range c.nodes {
		load := exec.CommandContext(ctx, filepath.Join(c.programs, "node/bin/ctr"), "--address", n.socket(), "--namespace", "k8s.io", "image", "import", "-")
		load.Stdin = bytes.NewReader(archive.Bytes())
		if out, err := load.CombinedOutput(); err != nil {
			return fmt.Errorf("load image %s on node %s: %w: %s", image.Name, n.name, err, out)
		}
	}
	return nil
}

// write writes the image as an archive that "docker save" could have written:
// one layer, its configuration, and a manifest that names both.
func (i Image) write(to io.Writer) error {
	var layer bytes.Buffer
	if err := i.writeLayer(&layer); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": i.Entrypoint, "Cmd": i.Cmd, "User": i.User},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
	})
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{i.Name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	archive := tar.NewWriter(to)
	for _, f := range []struct {
		name string
		data []byte
	}{{"config.json", config}, {"layer.tar", layer.Bytes()}, {"manifest.json", manifest}} {
		if err := archive.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data))}); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
		if _, err := archive.Write(f.data); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return archive.Close()
}

func (i Image) writeLayer(to io.Writer) error {
	layer := tar.NewWriter(to)
	if i.Bare {
		return i.writeFiles(layer)
	}
	if err := layer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	return i.writeFiles(layer)
}

// writeFiles adds the image's files to a layer and closes it.
func (i Image) writeFiles(layer *tar.Writer) error {
	for name, source := range sorted(i.Files) {
		data, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := layer.WriteHeader(&tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: 0o755, Size: int64(len(data))}); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if _, err := layer.Write(data); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return layer.Close()
}
