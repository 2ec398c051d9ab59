# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Synthetic batches and losses.

A maker takes (batch, device) and returns (arguments of the model, target). Values are
random, never zero: a GPU can be faster on zeros than on data.
"""

import torch
import torch.nn.functional as F


def image(size, classes=1000, channels=3):
    def make(batch, device):
        x = torch.randn(batch, channels, size, size, device=device)
        return (x,), torch.randint(classes, (batch,), device=device)
    return make


def video(size, frames, classes=400):
    def make(batch, device):
        x = torch.randn(batch, 3, frames, size, size, device=device)
        return (x,), torch.randint(classes, (batch,), device=device)
    return make


def pixels(size, classes):
    """An image and a class for each of its pixels."""
    def make(batch, device):
        x = torch.randn(batch, 3, size, size, device=device)
        return (x,), torch.randint(classes, (batch, size, size), device=device)
    return make


def picture(size, scale=1):
    """An image and the target image, scale times as large."""
    def make(batch, device):
        x = torch.randn(batch, 3, size, size, device=device)
        return (x,), torch.randn(batch, 3, size * scale, size * scale, device=device)
    return make


def tokens(length, vocabulary, classes=None, per_token=True):
    """Token numbers; the target is a class per token (the vocabulary by default) or one per sequence."""
    def make(batch, device):
        x = torch.randint(vocabulary, (batch, length), device=device)
        shape = (batch, length) if per_token else (batch,)
        return (x,), torch.randint(classes or vocabulary, shape, device=device)
    return make


def translation(length, vocabulary=32000):
    def make(batch, device):
        source, target = torch.randint(vocabulary, (2, batch, length), device=device)
        return (source, target), torch.randint(vocabulary, (batch, length), device=device)
    return make


def signal(channels, length, classes, frames=None, plane=False):
    """A signal over time and a class per frame (frames=0: one class per signal)."""
    def make(batch, device):
        shape = (batch, 1, channels, length) if plane else (batch, channels, length)
        wanted = (batch,) if frames == 0 else (batch, frames or length)
        return (torch.randn(shape, device=device),), torch.randint(classes, wanted, device=device)
    return make


def ratings(users, items):
    def make(batch, device):
        user = torch.randint(users, (batch,), device=device)
        item = torch.randint(items, (batch,), device=device)
        return (user, item), torch.randint(2, (batch,), device=device).float()
    return make


def clicks(tables, rows, dense=13):
    def make(batch, device):
        features = torch.randn(batch, dense, device=device)
        categories = torch.randint(rows, (batch, tables), device=device)
        return (features, categories), torch.randint(2, (batch,), device=device).float()
    return make


def vector(width, classes):
    def make(batch, device):
        return (torch.randn(batch, width, device=device),), torch.randint(classes, (batch,), device=device)
    return make


def regression(width, targets):
    def make(batch, device):
        return (torch.randn(batch, width, device=device),), torch.randn(batch, targets, device=device)
    return make


def graph(nodes, features, classes=10):
    def make(batch, device):
        adjacency = torch.rand(batch, nodes, nodes, device=device) / nodes
        x = torch.randn(batch, nodes, features, device=device)
        return (adjacency, x), torch.randint(classes, (batch,), device=device)
    return make


def outputs(out):
    """The tensors of whatever a model returned (some return auxiliary heads too)."""
    if torch.is_tensor(out):
        return [out]
    values = out.values() if isinstance(out, dict) else out
    return [t for t in values if torch.is_tensor(t)]


def class_loss(out, target):
    """Cross entropy with the classes last, except for maps of pixels and frames [b, c, ...]."""
    total = 0
    for t in outputs(out):
        if t.dim() == target.dim() + 1 and t.dim() > 2 and t.shape[:-1] == target.shape:
            t = t.flatten(0, -2)
            total = total + F.cross_entropy(t, target.flatten())
        else:
            total = total + F.cross_entropy(t, target)
    return total


def click_loss(out, target):
    return F.binary_cross_entropy_with_logits(out, target)


def square_loss(out, target):
    return F.mse_loss(out, target)
