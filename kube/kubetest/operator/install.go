// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// manifests is the file that users apply, in the module.
const manifests = "deploy/manifests/fairway.yaml"

// Client returns an administrator's client with Fairway's kinds.
func Client(c *kubetest.Cluster) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	out, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return out, nil
}

// Install applies the manifests without the Deployment: the operator runs as a process
// (see Start). It returns when the API server serves Fairway's kinds.
func Install(ctx context.Context, c *kubetest.Cluster) error {
	objects, err := Manifests()
	if err != nil {
		return err
	}
	return Apply(ctx, c, objects)
}

// Apply does the same with objects of one's choice.
func Apply(ctx context.Context, c *kubetest.Cluster, objects []*unstructured.Unstructured) error {
	admin, err := Client(c)
	if err != nil {
		return err
	}
	for _, u := range objects {
		if u.GetKind() == "Deployment" {
			continue
		}
		err := again(ctx, func() error {
			return admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner("install"), client.ForceOwnership)
		})
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	err = again(ctx, func() error {
		for _, list := range []client.ObjectList{&v1alpha1.JournalPageList{}, &v1alpha1.TrainingJobList{}, &v1alpha1.TenantList{}, &v1alpha1.AppList{}, &v1alpha1.SchedulingPolicyList{}} {
			if err := admin.List(ctx, list); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for Fairway's kinds: %w", err)
	}
	return nil
}

// again calls a function until it succeeds, as long as its failure may be temporary.
func again(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return errors.Join(ctx.Err(), err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Manifests returns the objects of the file that users apply.
func Manifests() ([]*unstructured.Unstructured, error) {
	root, err := kubetest.ModuleRoot()
	if err != nil {
		return nil, err
	}
	return ManifestsIn(root)
}

// ManifestsIn returns those of another version, whose source is in a folder.
func ManifestsIn(root string) ([]*unstructured.Unstructured, error) {
	f, err := os.Open(filepath.Join(root, manifests))
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	defer f.Close()
	var out []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		u := &unstructured.Unstructured{}
		err := d.Decode(u)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", manifests, err)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}
