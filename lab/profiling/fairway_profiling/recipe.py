# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""How a model is trained, where that is not single precision with SGD."""

import contextlib

WORDS = ("adam", "amp", "bf16", "checkpoint", "compile")


class Recipe:
    """Words joined by "+": adam (AdamW instead of SGD with momentum), amp (bfloat16 by autocast),
    bf16 (weights and all else in bfloat16), checkpoint (each layer is computed again in the
    backward pass), compile (torch.compile)."""

    def __init__(self, text):
        self.text = text
        self.words = set(filter(None, text.split("+")))
        unknown = self.words - set(WORDS)
        if unknown:
            raise ValueError(f"recipe {text!r}: {' '.join(sorted(unknown))} is not one of {' '.join(WORDS)}")

    def apply(self, model):
        """Changes a model that is on its device."""
        import torch
        if "bf16" in self.words:
            model.to(torch.bfloat16)
        if "checkpoint" in self.words:
            if hasattr(model, "set_grad_checkpointing"):  # of timm
                model.set_grad_checkpointing(True)
            else:
                model.blocks.recompute = True
        if "compile" in self.words:
            model.compile()

    def cast(self, tensor):
        return tensor.bfloat16() if "bf16" in self.words and tensor.is_floating_point() else tensor

    def optimizer(self, parameters):
        import torch
        if "adam" in self.words:
            return torch.optim.AdamW(parameters, lr=1e-4)
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    def precision(self, device_type):
        import torch
        if "amp" in self.words:
            return torch.autocast(device_type, dtype=torch.bfloat16)
        return contextlib.nullcontext()
