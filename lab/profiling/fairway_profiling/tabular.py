# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Recommendation models, multi-layer perceptrons and small images in plain PyTorch."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def tower(widths, activation=nn.ReLU, norm=False):
    """Fully connected layers of the given widths; none of the extras after the last."""
    layers = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        layers.append(nn.Linear(a, b))
        if i < len(widths) - 2:
            layers += [nn.BatchNorm1d(b)] * norm + [activation()]
    return nn.Sequential(*layers)


class CollaborativeFilter(nn.Module):
    """NCF: a product of embeddings, and a tower over their concatenation."""

    def __init__(self, users, items, width, hidden):
        super().__init__()
        self.user_product, self.item_product = nn.Embedding(users, width), nn.Embedding(items, width)
        self.user_tower, self.item_tower = nn.Embedding(users, hidden[0] // 2), nn.Embedding(items, hidden[0] // 2)
        self.tower = tower(hidden)
        self.head = nn.Linear(width + hidden[-1], 1)

    def forward(self, user, item):
        product = self.user_product(user) * self.item_product(item)
        deep = self.tower(torch.cat([self.user_tower(user), self.item_tower(item)], -1))
        return self.head(torch.cat([product, deep], -1)).squeeze(-1)


class ClickModel(nn.Module):
    """Categorical embeddings and dense features; kind says how they are combined.

    dlrm: pairwise dot products; deep: concatenation; fm: factorisation machine plus deep;
    wide: a linear term per category plus deep; cross: explicit cross layers plus deep.
    """

    def __init__(self, kind, tables, rows, width, top, dense=13):
        super().__init__()
        self.kind, self.tables = kind, tables
        self.embeddings = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = tower([dense, 4 * width, 2 * width, width])
        joined = (tables + 1) * width
        pairs = (tables + 1) * tables // 2
        self.top = tower([width + pairs if kind == "dlrm" else joined, *top, 1])
        if kind in ("wide", "fm"):
            self.linear = nn.ModuleList(nn.Embedding(rows, 1) for _ in range(tables))
        if kind == "cross":
            self.crosses = nn.ModuleList(nn.Linear(joined, joined) for _ in range(3))
            self.cross_head = nn.Linear(joined, 1)
        index = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("pair_index", index[0] * (tables + 1) + index[1], persistent=False)

    def forward(self, dense, categories):
        columns = [categories[:, i] for i in range(self.tables)]
        bottom = self.bottom(dense)
        fields = torch.stack([bottom] + [e(c) for e, c in zip(self.embeddings, columns)], 1)
        if self.kind == "dlrm":
            products = (fields @ fields.transpose(1, 2)).flatten(1)[:, self.pair_index]
            return self.top(torch.cat([bottom, products], 1)).squeeze(-1)
        joined = fields.flatten(1)
        out = self.top(joined).squeeze(-1)
        if self.kind in ("wide", "fm"):
            out = out + torch.cat([e(c) for e, c in zip(self.linear, columns)], 1).sum(1)
        if self.kind == "fm":
            out = out + 0.5 * (fields.sum(1) ** 2 - (fields ** 2).sum(1)).sum(1)
        if self.kind == "cross":
            x = joined
            for layer in self.crosses:
                x = joined * layer(x) + x
            out = out + self.cross_head(x).squeeze(-1)
        return out


class ResidualTower(nn.Module):
    """A residual multi-layer perceptron over dense features."""

    def __init__(self, features, width, blocks, classes):
        super().__init__()
        self.front = nn.Linear(features, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
            for _ in range(blocks))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.front(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class PointNet(nn.Module):
    """Shared per-point layers, then the maximum over the points."""

    def __init__(self, width, classes=40):
        super().__init__()
        widths = [3, width, width, 2 * width, 16 * width]
        layers = []
        for a, b in zip(widths, widths[1:]):
            layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
        self.points = nn.Sequential(*layers)
        self.head = tower([16 * width, 8 * width, 4 * width, classes])

    def forward(self, cloud):
        return self.head(self.points(cloud).amax(2))


class LeNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
                                      nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2))
        self.head = tower([400, 120, 84, classes], nn.Tanh)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


class ResidualBlock(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside))
        self.second = nn.Sequential(nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside))
        same = inside == outside and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class SmallResNet(nn.Module):
    """Residual net for 32 x 32 images: 6n + 2 layers, 16 to 64 channels times a factor."""

    def __init__(self, depth, factor=1, classes=10):
        super().__init__()
        layers = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
        inside = 16
        for stage, channels in enumerate((16 * factor, 32 * factor, 64 * factor)):
            for i in range((depth - 2) // 6):
                layers.append(ResidualBlock(inside, channels, 2 if stage and not i else 1))
                inside = channels
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(inside, classes)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


class UNet(nn.Module):
    def __init__(self, width, levels=4, classes=2):
        super().__init__()

        def double(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
                                 nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())

        widths = [width * 2 ** i for i in range(levels + 1)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([3] + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.merge = nn.ModuleList(double(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for i, down in enumerate(self.down):
            x = down(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for up, merge, skip in reversed(list(zip(self.up, self.merge, skips))):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


class ConvolutionalAutoencoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        w = [3, width, 2 * width, 4 * width, 8 * width]
        self.encoder = nn.Sequential(*[m for a, b in zip(w, w[1:])
                                       for m in (nn.Conv2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.LeakyReLU(0.2))])
        v = w[:0:-1] + [3]
        self.decoder = nn.Sequential(*[m for a, b in zip(v, v[1:])
                                       for m in (nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ReLU())])

    def forward(self, x):
        return self.decoder(self.encoder(x))


class SuperResolution(nn.Module):
    """Residual convolutions without pooling, then sub-pixel upscaling by two."""

    def __init__(self, width, blocks):
        super().__init__()
        self.front = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
                                                  nn.Conv2d(width, width, 3, padding=1)) for _ in range(blocks))
        self.tail = nn.Sequential(nn.Conv2d(width, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        x = self.front(x)
        for block in self.blocks:
            x = x + block(x)
        return self.tail(x)


class GraphConvolution(nn.Module):
    """Dense graph convolutions over a batch of small graphs."""

    def __init__(self, features, width, layers, classes=10):
        super().__init__()
        widths = [features] + [width] * layers
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.head = nn.Linear(width, classes)

    def forward(self, adjacency, nodes):
        for layer in self.layers:
            nodes = F.relu(layer(adjacency @ nodes))
        return self.head(nodes.mean(1))
