// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/informer"
)

// View is the claims, volumes and storage classes of a cluster. Its objects belong to the
// cache and must not be changed.
type View struct {
	// Changed is called after every change; nil: nobody wants to know. Set it before Run.
	Changed func()

	synced chan struct{}

	mu      sync.RWMutex
	claims  map[string]*corev1.PersistentVolumeClaim // by Key
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	free    map[string]map[string]*corev1.PersistentVolume // by class and name: volumes that a claim could still get
	kept    map[string]*corev1.PersistentVolume            // by claim: the volume that is reserved for it, or bound to it
}

// New returns a view of nothing; Run fills it.
func New() *View {
	return &View{
		synced: make(chan struct{}), claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{}, free: map[string]map[string]*corev1.PersistentVolume{},
		kept: map[string]*corev1.PersistentVolume{},
	}
}

// Kinds are those that a view watches.
func Kinds() []client.Object {
	return []client.Object{&storagev1.StorageClass{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}}
}

// Synced is closed when the view has seen all objects that exist.
func (v *View) Synced() <-chan struct{} { return v.synced }

// Run follows the objects of a cache until the context ends. The caller starts the cache.
func (v *View) Run(ctx context.Context, c cache.Cache) error {
	handlers := []toolscache.ResourceEventHandlerFuncs{
		informer.On(v.setClass, v.dropClass), informer.On(v.setVolume, v.dropVolume), informer.On(v.setClaim, v.dropClaim),
	}
	for i, kind := range Kinds() {
		informer, err := c.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		h, err := informer.AddEventHandler(handlers[i])
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		defer func() { _ = informer.RemoveEventHandler(h) }() // an error means that the informer has stopped
		if !toolscache.WaitForCacheSync(ctx.Done(), h.HasSynced) {
			return nil // the context has ended
		}
	}
	close(v.synced)
	<-ctx.Done()
	return nil
}

// change applies a change and tells of it.
func (v *View) change(do func()) {
	v.mu.Lock()
	do()
	v.mu.Unlock()
	if v.Changed != nil {
		v.Changed()
	}
}

func (v *View) setClaim(c *corev1.PersistentVolumeClaim) {
	v.change(func() { v.claims[Key(c.Namespace, c.Name)] = c })
}

func (v *View) dropClaim(c *corev1.PersistentVolumeClaim) {
	v.change(func() { delete(v.claims, Key(c.Namespace, c.Name)) })
}

func (v *View) setVolume(p *corev1.PersistentVolume) {
	v.change(func() {
		v.forget(p.Name)
		v.volumes[p.Name] = p
		switch ref := p.Spec.ClaimRef; {
		case ref != nil:
			v.kept[Key(ref.Namespace, ref.Name)] = p
		case p.Status.Phase == corev1.VolumeAvailable:
			class := volume.GetPersistentVolumeClass(p)
			if v.free[class] == nil {
				v.free[class] = map[string]*corev1.PersistentVolume{}
			}
			v.free[class][p.Name] = p
		}
	})
}

func (v *View) dropVolume(p *corev1.PersistentVolume) { v.change(func() { v.forget(p.Name) }) }

// forget removes a volume, as it was known last.
func (v *View) forget(name string) {
	old := v.volumes[name]
	if old == nil {
		return
	}
	delete(v.volumes, name)
	delete(v.free[volume.GetPersistentVolumeClass(old)], name)
	if ref := old.Spec.ClaimRef; ref != nil && v.kept[Key(ref.Namespace, ref.Name)] == old {
		delete(v.kept, Key(ref.Namespace, ref.Name))
	}
}

func (v *View) setClass(c *storagev1.StorageClass) {
	v.change(func() { v.classes[c.Name] = c })
}

func (v *View) dropClass(c *storagev1.StorageClass) {
	v.change(func() { delete(v.classes, c.Name) })
}

// Anywhere reports whether a claim is bound to a volume that every node can use. It stays
// so: a claim is bound once.
func (v *View) Anywhere(key string) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	c := v.claims[key]
	if c == nil || c.Spec.VolumeName == "" || v.pending(key) != "" {
		return false
	}
	p := v.volumes[c.Spec.VolumeName]
	return (p.Spec.NodeAffinity == nil || p.Spec.NodeAffinity.Required == nil) && len(zonesOf(p)) == 0
}

// Exclusive reports whether one pod at a time may use a claim.
func (v *View) Exclusive(key string) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	c := v.claims[key]
	return c != nil && slices.Contains(c.Spec.AccessModes, corev1.ReadWriteOncePod)
}

// Pending says why no pod can use a claim at present, on whatever node; empty: pods can, or
// the claim waits for the node of its first one.
func (v *View) Pending(key string) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.pending(key)
}

func (v *View) pending(key string) string {
	c := v.claims[key]
	switch {
	case c == nil:
		return "it does not exist"
	case c.DeletionTimestamp != nil:
		return "it is being deleted"
	case c.Status.Phase == corev1.ClaimLost:
		return fmt.Sprintf("its volume %s is lost", c.Spec.VolumeName)
	case c.Spec.VolumeName != "":
		if v.volumes[c.Spec.VolumeName] == nil {
			return fmt.Sprintf("its volume %s does not exist", c.Spec.VolumeName)
		}
		return ""
	case v.waitsForNode(c):
		return ""
	}
	if name := volume.GetPersistentVolumeClaimClass(c); name != "" && v.classes[name] == nil {
		return fmt.Sprintf("it has no volume, and its class %s does not exist", name)
	}
	return "it has no volume yet"
}

// waitsForNode reports whether an unbound claim gets its volume when a pod that uses it has a
// node.
func (v *View) waitsForNode(c *corev1.PersistentVolumeClaim) bool {
	class := v.classes[volume.GetPersistentVolumeClaimClass(c)]
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}
