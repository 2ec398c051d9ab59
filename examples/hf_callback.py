# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A Hugging Face trainer under Fairway, with one callback. Needs transformers and
torch: pip install transformers[torch]"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import Trainer, TrainingArguments

try:
    from fairway.hf import FairwayCallback, last_checkpoint
except ImportError:  # not installed: use the checkout
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "src"))
    from fairway.hf import FairwayCallback, last_checkpoint


class Regression(torch.nn.Module):
    """A model that returns its own loss, as the trainer expects."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns the loss and the predictions."""
        predictions = self.layers(inputs).squeeze(-1)
        return {"loss": torch.nn.functional.mse_loss(predictions, labels), "logits": predictions}


def examples(count: int) -> list[dict[str, torch.Tensor]]:
    """Noisy points of a smooth function."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, 16, generator=generator)
    labels = inputs.sin().sum(1) + 0.1 * torch.randn(count, generator=generator)
    return [{"inputs": i, "labels": l} for i, l in zip(inputs, labels)]


def main() -> None:
    """Trains. A second start resumes where the first was stopped."""
    callback = FairwayCallback()
    args = TrainingArguments(
        output_dir=callback.folder("out"),
        num_train_epochs=20,
        per_device_train_batch_size=32,
        logging_steps=50,
        save_steps=500,
        save_total_limit=2,
        report_to=[],
    )
    trainer = Trainer(model=Regression(), args=args, train_dataset=examples(4096), callbacks=[callback])
    trainer.train(resume_from_checkpoint=last_checkpoint(args.output_dir))


if __name__ == "__main__":
    main()
