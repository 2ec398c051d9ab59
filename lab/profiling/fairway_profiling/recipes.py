# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures models trained by a recipe: mixed precision, Adam, recomputed layers, torch.compile."""

from . import catalogue, solo
from .recipe import Recipe
from .worker import Worker

COLUMNS = ("recipe", *solo.COLUMNS, "decoder")

# model, batch size, recipes; "-" is single precision with SGD. What takes long to start comes last.
CASES = (
    ("plain/decoder-0.9b", 4, "- bf16+adam bf16+adam+checkpoint amp+adam amp+adam+checkpoint"),
    ("plain/decoder-0.1b", 8, "- adam amp+adam bf16+adam bf16+adam+checkpoint"),
    ("plain/decoder-6.6b", 1, "bf16+adam+checkpoint bf16+adam"),
    ("torchvision/resnet50", 128, "adam amp amp+adam bf16"),
    ("torchvision/resnet50", 8, "adam amp"),
    ("plain/decoder-2.6b", 2, "amp+adam bf16+adam bf16+adam+checkpoint"),
    ("plain/bert-base-128", 128, "amp+adam amp+adam+checkpoint"),
    ("torchvision/convnext_tiny", 128, "amp+adam"),
    ("torchvision/efficientnet_b0", 128, "amp"),
    ("plain/decoder-0.3b", 8, "adam amp+adam bf16+adam+checkpoint"),
    ("timm/deit_small_patch16_224", 128, "amp+adam amp+adam+checkpoint"),
    ("torchvision/mobilenet_v2", 256, "amp adam"),
    ("torchvision/vgg16", 128, "amp adam"),
    ("torchvision/densenet121", 128, "amp"),
    ("torchvision/swin_t", 128, "amp+adam"),
    ("plain/gpt-small-256", 32, "amp+adam bf16+adam"),
    ("plain/unet-32@256", 24, "amp"),
    ("plain/decoder-2.6b", 1, "adam bf16"),
    ("plain/decoder-0.9b", 1, "adam bf16+adam"),
    ("plain/decoder-0.1b", 2, "adam amp+adam+checkpoint"),
    ("plain/decoder-0.3b", 2, "bf16+adam amp+adam+checkpoint"),
    ("torchvision/vit_b_16", 128, "amp+adam"),
    ("plain/gpt-medium-512", 12, "amp+adam"),
    ("plain/speech-transformer-base", 32, "amp+adam"),
    ("timm/mixer_s16_224", 128, "amp+adam"),
    ("timm/poolformer_s12", 128, "amp+adam"),
    ("timm/seresnet50", 128, "amp"),
    ("torchvision/resnext50_32x4d", 128, "amp"),
    ("plain/translator-base-64", 128, "amp+adam"),
    ("torchvision/mobilenet_v3_large", 256, "amp"),
    ("torchvision/regnet_y_1_6gf", 128, "amp"),
    ("plain/decoder-0.1b", 8, "amp+adam+compile bf16+adam+compile compile"),
    ("torchvision/resnet50", 128, "amp+compile"),
    ("plain/decoder-0.9b", 4, "bf16+adam+compile"),
    ("timm/deit_small_patch16_224", 128, "amp+adam+compile"),
    ("plain/decoder-0.1b", 2, "amp+adam+compile"),
    ("torchvision/convnext_tiny", 128, "amp+adam+compile"),
    ("plain/gpt-small-256", 32, "amp+adam+compile"),
    ("torchvision/mobilenet_v2", 256, "amp+compile"),
    ("plain/decoder-0.3b", 8, "amp+adam+compile"),
    ("plain/bert-base-128", 128, "amp+adam+compile"),
    ("torchvision/resnet18", 128, "compile"),
    ("torchvision/vit_b_16", 128, "amp+adam+compile"),
    ("plain/gpt-medium-512", 12, "amp+adam+compile"),
    ("timm/mixer_s16_224", 128, "amp+adam+compile"),
    ("timm/seresnet50", 128, "amp+compile"),
    ("torchvision/vgg16", 128, "amp+compile"),
    ("torchvision/resnet50", 8, "amp+compile"),
    ("plain/bert-base-128", 8, "adam+compile"),
    ("timm/deit_tiny_patch16_224", 8, "compile"),
    ("plain/speech-transformer-base", 32, "amp+adam+compile"),
    ("torchvision/regnet_y_1_6gf", 128, "compile"),
    ("timm/poolformer_s12", 128, "amp+adam+compile"),
    ("torchvision/swin_t", 128, "amp+adam+compile"),
    ("torchvision/efficientnet_b0", 128, "amp+compile"),
    ("torchvision/mobilenet_v3_large", 256, "amp+compile"),
    ("plain/unet-32@256", 24, "amp+compile"),
    ("torchvision/resnext50_32x4d", 128, "amp+compile"),
    ("plain/translator-base-64", 128, "amp+adam+compile"),
    ("plain/gpt-mini-128", 128, "adam+compile"),
    ("plain/mlp-6x4096", 4096, "adam+compile"),
    ("plain/decoder-0.9b", 1, "bf16+adam+compile"),
    ("torchvision/resnet50", 128, "compile"),
    ("timm/resmlp_12_224", 8, "compile"),
    ("torchvision/convnext_tiny", 8, "adam+compile"),
)

TOGETHER = 12  # models whose kernels are generated at the same time


class Recipes(solo.Solo):
    """Each row has a process of its own: what one recipe leaves in the memory must not count for the next."""

    def todo(self):
        done = self.table.keys("model", "batch", "recipe")
        for model, batch, recipes in CASES:
            for recipe in recipes.split():
                if (model, str(batch), recipe) not in done:
                    yield catalogue.by_name()[model], batch, recipe

    def run(self, processes):
        before = len(self.table.rows)
        todo = list(self.todo())
        start = lambda i: Worker(processes, todo[i][0].name, recipe=Recipe(todo[i][2].strip("-")))
        compiled = [i for i, (_, _, recipe) in enumerate(todo) if "compile" in recipe]
        for at in range(0, len(compiled), TOGETHER):
            if not self.late():
                self.generate([(start(i), todo[i][1]) for i in compiled[at:at + TOGETHER]])
        worker = start(0) if todo else None
        for i, (entry, batch, recipe) in enumerate(todo):
            if self.late():
                break
            following = start(i + 1) if i + 1 < len(todo) else None
            self.measure_recipe(worker, entry, batch, recipe)
            worker.close()
            worker = following
        if worker:
            worker.close()
        return len(self.table.rows) - before

    def generate(self, workers):
        """Lets torch.compile fill its cache on disk for several models at once; nothing is measured."""
        for command in (lambda _: ("begin", self.options.device), lambda batch: ("prepare", batch)):
            for act in (lambda worker, batch: worker.send(*command(batch)), lambda worker, _: worker.reply()):
                for worker, batch in workers:
                    try:
                        act(worker, batch)
                    except solo.Failed as failure:  # its row will say so again
                        print(f"{worker.name}: {failure}", flush=True)
        for worker, _ in workers:
            worker.close()

    def measure_recipe(self, worker, entry, batch, recipe):
        self.recipe = recipe
        try:
            info = worker.call("begin", self.options.device)
        except solo.Failed as failure:
            self.record(entry, batch, {"status": failure.status, "note": failure.note})
            return
        self.measure(worker, entry, batch, info)

    def record(self, entry, batch, row):
        row.update(recipe=self.recipe, decoder=entry.decoder)
        super().record(entry, batch, row)
