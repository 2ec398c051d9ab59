# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Models of sequences in plain PyTorch: transformers, recurrent nets, 1-D convolutions."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def attend(query, key, value, causal):
    """Attention over [batch, heads, length, width]; the fused kernel where PyTorch has one."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ value


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        batch, length, width = x.shape
        return x.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x, memory=None):
        source = x if memory is None else memory
        q, k, v = self.split(self.query(x)), self.split(self.key(source)), self.split(self.value(source))
        return self.out(attend(q, k, v, self.causal).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """One transformer layer: norm first (as in GPT) or norm last (as in BERT)."""

    def __init__(self, width, heads, causal=False, cross=False, norm_first=True, dropout=0.1):
        super().__init__()
        self.norm_first = norm_first
        self.attention = Attention(width, heads, causal)
        self.norm_attention = nn.LayerNorm(width)
        self.cross = Attention(width, heads) if cross else None
        self.norm_cross = nn.LayerNorm(width) if cross else None
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm_feed = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def residual(self, x, norm, layer):
        if self.norm_first:
            return x + self.dropout(layer(norm(x)))
        return norm(x + self.dropout(layer(x)))

    def forward(self, x, memory=None):
        x = self.residual(x, self.norm_attention, self.attention)
        if self.cross is not None:
            x = self.residual(x, self.norm_cross, lambda y: self.cross(y, memory))
        return self.residual(x, self.norm_feed, self.feed)


class Embedding(nn.Module):
    """Token and position embeddings."""

    def __init__(self, vocabulary, width, length, dropout=0.1):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.randn(1, length, width) * 0.02)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens):
        return self.dropout(self.token(tokens) + self.position)


class Blocks(nn.ModuleList):
    """Layers one after the other; with recompute set, their activations are computed again in the backward pass."""

    recompute = False

    def forward(self, x):
        for block in self:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return x


class Encoder(nn.Module):
    """BERT-like: bidirectional, masked-token head, or a class per sequence."""

    def __init__(self, layers, width, heads, length, vocabulary=30522, classes=None):
        super().__init__()
        self.embedding = Embedding(vocabulary, width, length)
        self.norm = nn.LayerNorm(width)
        self.blocks = Blocks(Block(width, heads, norm_first=False) for _ in range(layers))
        self.pool = classes is not None
        self.head = nn.Linear(width, classes or vocabulary)

    def forward(self, tokens):
        x = self.blocks(self.norm(self.embedding(tokens)))
        if self.pool:
            x = torch.tanh(x[:, 0])
        return self.head(x)


class Decoder(nn.Module):
    """GPT-like: causal, next-token head tied to the embedding."""

    def __init__(self, layers, width, heads, length, vocabulary=50257):
        super().__init__()
        self.embedding = Embedding(vocabulary, width, length)
        self.blocks = Blocks(Block(width, heads, causal=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.embedding.token.weight, std=0.02)
        self.head.weight = self.embedding.token.weight

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.embedding(tokens))))


class Translator(nn.Module):
    """Encoder-decoder transformer."""

    def __init__(self, layers, width, heads, length, vocabulary=32000):
        super().__init__()
        self.source = Embedding(vocabulary, width, length)
        self.target = Embedding(vocabulary, width, length)
        self.encoder = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(width, heads, causal=True, cross=True) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, source, target):
        memory, x = self.source(source), self.target(target)
        for block in self.encoder:
            memory = block(memory)
        for block in self.decoder:
            x = block(x, memory)
        return self.head(x)


class SpeechTransformer(nn.Module):
    """Strided convolutions over a spectrogram, then transformer layers, a symbol per frame."""

    def __init__(self, layers, width, heads, bands=80, symbols=1000):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(bands, width, 3, padding=1), nn.GELU(),
                                   nn.Conv1d(width, width, 3, stride=2, padding=1), nn.GELU())
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, symbols)

    def forward(self, spectrogram):
        x = self.front(spectrogram).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class RecurrentLanguageModel(nn.Module):
    def __init__(self, cell, layers, width, vocabulary=10000, embedding=None):
        super().__init__()
        embedding = embedding or width
        self.token = nn.Embedding(vocabulary, embedding)
        kind = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[cell]
        self.cells = kind(embedding, width, layers, batch_first=True, dropout=0.2 if layers > 1 else 0.0)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.cells(self.token(tokens))[0])


class RecurrentTagger(nn.Module):
    """Bidirectional LSTM, a label per token or one per sequence."""

    def __init__(self, layers, width, labels=50, vocabulary=30000, per_token=True):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.cells = nn.LSTM(width, width, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, labels)
        self.per_token = per_token

    def forward(self, tokens):
        x = self.cells(self.token(tokens))[0]
        return self.head(x if self.per_token else x.mean(1))


class RecurrentSpeech(nn.Module):
    """DeepSpeech-like: 2-D convolutions, bidirectional GRUs, a symbol per frame."""

    def __init__(self, layers, width, bands=160, symbols=29):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), stride=(2, 2), padding=(20, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20),
            nn.Conv2d(32, 32, (21, 11), stride=(2, 1), padding=(10, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20))
        self.cells = nn.GRU(32 * bands // 4, width, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, symbols)

    def forward(self, spectrogram):
        x = self.front(spectrogram).flatten(1, 2).transpose(1, 2)
        return self.head(self.cells(x)[0])


class SequenceToSequence(nn.Module):
    """LSTM encoder and decoder with dot-product attention."""

    def __init__(self, layers, width, vocabulary=32000):
        super().__init__()
        self.source = nn.Embedding(vocabulary, width)
        self.target = nn.Embedding(vocabulary, width)
        self.encoder = nn.LSTM(width, width, layers, batch_first=True)
        self.decoder = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(2 * width, vocabulary)

    def forward(self, source, target):
        memory, state = self.encoder(self.source(source))
        x, _ = self.decoder(self.target(target), state)
        context = (x @ memory.transpose(1, 2)).softmax(-1) @ memory
        return self.head(torch.cat([x, context], -1))


class TextConvolution(nn.Module):
    def __init__(self, width, channels, classes=20, vocabulary=30000):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.convolutions = nn.ModuleList(nn.Conv1d(width, channels, k, padding=k // 2) for k in (3, 5, 7))
        self.head = nn.Linear(3 * channels, classes)

    def forward(self, tokens):
        x = self.token(tokens).transpose(1, 2)
        return self.head(torch.cat([F.relu(c(x)).amax(2) for c in self.convolutions], 1))


class TemporalConvolution(nn.Module):
    """Gated dilated 1-D convolutions in the manner of WaveNet."""

    def __init__(self, layers, width, levels=256):
        super().__init__()
        self.front = nn.Conv1d(1, width, 1)
        dilations = [2 ** (i % 8) for i in range(layers)]
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 3, padding=d, dilation=d) for d in dilations)
        self.mixes = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in dilations)
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(width, levels, 1))

    def forward(self, wave):
        x = self.front(wave)
        total = 0
        for gate, mix in zip(self.gates, self.mixes):
            a, b = gate(x).chunk(2, 1)
            out = mix(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + out, total + out
        return self.head(total)
