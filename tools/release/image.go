// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// What OCI calls the parts of an image.
const (
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
	configType   = "application/vnd.oci.image.config.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// descriptor points to a part of an image.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    map[string]string `json:"platform,omitempty"`
}

// writeImage makes the image of deploy/Dockerfile without a container engine: an archive
// in OCI's layout, which "docker load", "podman load" and skopeo read.
func writeImage(r release) (string, error) {
	layer := entries{{name: "etc/", mode: 0o755}, {name: "etc/ssl/", mode: 0o755}, {name: "etc/ssl/certs/", mode: 0o755}}
	for from, to := range map[string]string{
		filepath.Join(r.programs, "fairway"):          "fairway",
		filepath.Join(r.programs, "fairway-operator"): "fairway-operator",
		r.certs: "etc/ssl/certs/ca-certificates.crt",
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		mode := int64(0o755)
		if from == r.certs {
			mode = 0o644
		}
		layer = append(layer, entry{name: to, text: text, mode: mode})
	}
	plain, err := layer.archive(r.time)
	if err != nil {
		return "", err
	}
	packed, err := compress(plain)
	if err != nil {
		return "", err
	}
	labels := map[string]string{
		"org.opencontainers.image.title":    "fairway",
		"org.opencontainers.image.version":  r.version,
		"org.opencontainers.image.revision": r.revision,
		"org.opencontainers.image.source":   "https://github.com/fairway-gpu/fairway",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	image := layout{}
	config, err := image.addJSON(configType, map[string]any{
		"created": r.time.Format(time.RFC3339), "architecture": r.arch, "os": "linux",
		"config":  map[string]any{"User": "65532:65532", "Entrypoint": []string{"/fairway-operator"}, "Cmd": []string{"run"}, "Labels": labels},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{digest(plain)}},
		"history": []any{map[string]any{"created": r.time.Format(time.RFC3339), "created_by": "make release"}},
	})
	if err != nil {
		return "", err
	}
	content := image.add(layerType, packed)
	manifest, err := image.addJSON(manifestType, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{content}, "annotations": labels,
	})
	if err != nil {
		return "", err
	}
	manifest.Platform = map[string]string{"architecture": r.arch, "os": "linux"}
	// containerd takes the name from the first annotation, others from the second.
	tag := "docker.io/library/fairway:" + r.version
	manifest.Annotations = map[string]string{"io.containerd.image.name": tag, "org.opencontainers.image.ref.name": r.version}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": []descriptor{manifest}})
	if err != nil {
		return "", err
	}
	// Docker before version 25 reads an index of its own of the same parts.
	docker, err := json.Marshal([]any{map[string]any{"Config": blob(config), "RepoTags": []string{tag}, "Layers": []string{blob(content)}}})
	if err != nil {
		return "", err
	}
	files := append(image.blobs, entry{name: "index.json", text: index, mode: 0o644}, entry{name: "manifest.json", text: docker, mode: 0o644}, entry{name: "oci-layout", text: []byte(`{"imageLayoutVersion":"1.0.0"}`), mode: 0o644})
	archive, err := files.archive(r.time)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("fairway-%s-image-linux-%s.tar", r.version, r.arch)
	return name, os.WriteFile(filepath.Join(r.out, name), archive, 0o644)
}

// layout collects the parts of an image under the names of their digests.
type layout struct{ blobs entries }

func (l *layout) add(kind string, text []byte) descriptor {
	d := descriptor{MediaType: kind, Digest: digest(text), Size: len(text)}
	l.blobs = append(l.blobs, entry{name: blob(d), text: text, mode: 0o644})
	return d
}

// blob returns the file of a part.
func blob(d descriptor) string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }

func (l *layout) addJSON(kind string, v any) (descriptor, error) {
	text, err := json.Marshal(v)
	return l.add(kind, text), err
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
