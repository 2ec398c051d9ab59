// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// Objects stores pages as objects in a namespace. The client must not read from a
// cache, which may not have the last leader's pages yet.
type Objects struct {
	Client    client.Client
	Namespace string
}

var _ Pages = Objects{}

// Create implements Pages.
func (o Objects) Create(ctx context.Context, p Page) error {
	object := &v1alpha1.JournalPage{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: p.Name},
		Holds:      p.Holds, First: int64(p.First), Count: int32(p.Count), Leader: p.Leader, Parts: p.Parts, Data: p.Data,
	}
	err := o.Client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return ErrExists
	}
	return err
}

// Page implements Pages.
func (o Objects) Page(ctx context.Context, name string) (Page, bool, error) {
	var object v1alpha1.JournalPage
	err := o.Client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, &object)
	switch {
	case apierrors.IsNotFound(err):
		return Page{}, false, nil
	case err != nil:
		return Page{}, false, err
	}
	return pageOf(&object), true, nil
}

// List implements Pages. It lists all pages in one request, so a snapshot and the pages
// it replaces are never both missing.
func (o Objects) List(ctx context.Context) ([]Page, error) {
	var list v1alpha1.JournalPageList
	if err := o.Client.List(ctx, &list, client.InNamespace(o.Namespace)); err != nil {
		return nil, err
	}
	out := make([]Page, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, pageOf(&list.Items[i]))
	}
	return out, nil
}

// Delete implements Pages.
func (o Objects) Delete(ctx context.Context, name string) error {
	object := &v1alpha1.JournalPage{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name}}
	if err := client.IgnoreNotFound(o.Client.Delete(ctx, object)); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

func pageOf(o *v1alpha1.JournalPage) Page {
	return Page{
		Name: o.Name, Holds: o.Holds, First: uint64(max(0, o.First)), Count: int(o.Count), Leader: o.Leader, Parts: o.Parts, Data: o.Data,
		Made: o.CreationTimestamp.Time,
	}
}
