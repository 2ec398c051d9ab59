# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""The measured architectures, ordered so that every prefix is diverse.

torchvision and timm are optional: without them the catalogue holds the plain models only.
Building needs no GPU; nothing here imports the model libraries before build() is called.
"""

import dataclasses
import importlib.util
from typing import Callable, Tuple

from . import inputs as make
from . import sequence as seq
from . import tabular as tab

IMAGE = (8, 32, 128)        # a usual net for images of 224 x 224
SMALL_IMAGE = (16, 64, 256)  # small nets, or small images
LARGE_IMAGE = (4, 16, 48)    # nets that need much memory per image


@dataclasses.dataclass(frozen=True)
class Entry:
    """One architecture: how to build it on the CPU, and what it trains on."""

    name: str
    family: str
    build: Callable
    inputs: Callable
    batches: Tuple[int, ...]
    loss: Callable = make.class_loss
    decoder: str = ""  # the shape of a large language model, from which Fairway makes its graph

    @property
    def source(self):
        return self.name.split("/")[0]


def _torchvision(name, **options):
    def build():
        import torchvision
        if name in VIDEO:
            return torchvision.models.video.__dict__[name](weights=None, **options)
        if name.startswith(("fcn", "deeplab", "lraspp")):
            return torchvision.models.segmentation.__dict__[name](weights=None, weights_backbone=None, **options)
        return torchvision.models.__dict__[name](weights=None, **options)
    return build


def _timm(name, **options):
    def build():
        import timm
        return timm.create_model(name, pretrained=False, **options)
    return build


VIDEO = ("r3d_18", "mc3_18", "r2plus1d_18")

# family: (batches, names); a name may carry "@size" when it is not trained at 224 x 224.
TORCHVISION = {
    "resnet": (IMAGE, "resnet50 resnet18 resnet101 resnet34 resnet152 resnet18@64 resnet50@96"),
    "vgg": (IMAGE, "vgg16 vgg11_bn vgg19_bn vgg11 vgg13_bn vgg19 vgg16_bn vgg13"),
    "mobilenet": (SMALL_IMAGE, "mobilenet_v3_small mobilenet_v2 mobilenet_v3_large mobilenet_v2@96"),
    "densenet": (IMAGE, "densenet121 densenet201 densenet169 densenet161"),
    "efficientnet": (IMAGE, "efficientnet_b0 efficientnet_v2_s efficientnet_b3@300 efficientnet_b1@240 "
                            "efficientnet_b2@260 efficientnet_v2_m"),
    "vit": (IMAGE, "vit_b_16 vit_b_32 vit_l_32 vit_l_16"),
    "swin": (IMAGE, "swin_t swin_v2_t swin_b swin_s swin_v2_s@256"),
    "convnext": (IMAGE, "convnext_tiny convnext_base convnext_small"),
    "regnet": (IMAGE, "regnet_y_400mf regnet_x_3_2gf regnet_y_1_6gf regnet_x_400mf regnet_y_8gf regnet_x_1_6gf "
                      "regnet_y_800mf regnet_x_8gf regnet_y_3_2gf regnet_x_800mf"),
    "shufflenet": (SMALL_IMAGE, "shufflenet_v2_x1_0 shufflenet_v2_x0_5 shufflenet_v2_x2_0 shufflenet_v2_x1_5"),
    "squeezenet": (SMALL_IMAGE, "squeezenet1_0 squeezenet1_1"),
    "mnasnet": (SMALL_IMAGE, "mnasnet1_0 mnasnet0_5 mnasnet1_3 mnasnet0_75"),
    "alexnet": (SMALL_IMAGE, "alexnet"),
    "wide": (IMAGE, "wide_resnet50_2 wide_resnet101_2"),
    "resnext": (IMAGE, "resnext50_32x4d resnext101_32x8d resnext101_64x4d"),
    "maxvit": (LARGE_IMAGE, "maxvit_t"),
    "inception": (IMAGE, "googlenet inception_v3@299"),
    "segmentation": (LARGE_IMAGE, "deeplabv3_mobilenet_v3_large@256 fcn_resnet50@256 lraspp_mobilenet_v3_large@256 "
                                  "deeplabv3_resnet50@256"),
    "video": (LARGE_IMAGE, "r3d_18@112 mc3_18@112 r2plus1d_18@112"),
}

TIMM = {
    "deit": (IMAGE, "deit_tiny_patch16_224 deit_base_patch16_224 deit_small_patch16_224"),
    "mixer": (IMAGE, "mixer_s16_224 mixer_b16_224 mixer_s32_224"),
    "resnest": (IMAGE, "resnest26d resnest50d resnest14d"),
    "dla": (IMAGE, "dla34 dla102 dla60"),
    "hrnet": (IMAGE, "hrnet_w18_small hrnet_w18"),
    "resnet-variant": (IMAGE, "seresnet50 res2net50_26w_4s skresnet34 ecaresnet50d resnetv2_50 cspresnet50 "
                              "legacy_xception@299 dpn68 resnet26d"),
    "darknet": (IMAGE, "cspdarknet53@256 darknet53@256"),
    "light": (SMALL_IMAGE, "ghostnet_100 lcnet_100 rexnet_100 tinynet_a@192 fbnetc_100 mobilenetv4_conv_small "
                           "spnasnet_100 hardcorenas_a"),
    "repvgg": (IMAGE, "repvgg_b0 mobileone_s1 repvgg_a2"),
    "vovnet": (IMAGE, "ese_vovnet19b_dw ese_vovnet39b selecsls42b"),
    "nfnet": (IMAGE, "eca_nfnet_l0 nf_resnet50"),
    "mobilevit": (IMAGE, "mobilevit_s@256 mobilevitv2_100@256 edgenext_small"),
    "hybrid": (IMAGE, "coatnet_nano_rw_224 visformer_small levit_128 levit_256 botnet26t_256@256"),
    "vit-variant": (LARGE_IMAGE, "cait_xxs24_224 xcit_tiny_12_p16_224 pit_s_224 tnt_s_patch16_224 crossvit_9_240@240 "
                                 "beit_base_patch16_224"),
    "pyramid": (IMAGE, "pvt_v2_b1 twins_svt_small twins_pcpvt_small pvt_v2_b2 nest_tiny davit_tiny"),
    "metaformer": (IMAGE, "poolformer_s12 poolformer_s24 convformer_s18 focalnet_tiny_srf"),
    "mlp-image": (IMAGE, "resmlp_12_224 gmlp_s16_224 resmlp_24_224"),
    "convmixer": (LARGE_IMAGE, "convmixer_768_32 convnextv2_nano convnextv2_atto"),
    "nas": (LARGE_IMAGE, "inception_v4@299 inception_resnet_v2@299 pnasnet5large@331"),
    "fast": (SMALL_IMAGE, "fastvit_t8@256 efficientformer_l1 repvit_m1"),
    "multiscale-vit": (IMAGE, "mvitv2_tiny hiera_tiny_224"),
    "context-vit": (IMAGE, "gcvit_xxtiny coat_lite_tiny"),
    "modern-vit": (IMAGE, "flexivit_small@240 convit_tiny"),
    "vision-lstm": (LARGE_IMAGE, "sequencer2d_s"),
    "gated-convolution": (IMAGE, "mambaout_tiny inception_next_tiny starnet_s2 fasternet_t1"),
    "linear-attention": (IMAGE, "efficientvit_b1 efficientvit_m3 tiny_vit_5m_224 swiftformer_s"),
    "server-convolution": (IMAGE, "hgnet_tiny hgnetv2_b2 tresnet_m gernet_m cs3darknet_m@256"),
    "local-attention": (IMAGE, "lambda_resnet26t@256 nextvit_small regnetz_b16"),
    "mixed-kernel": (SMALL_IMAGE, "mixnet_s mobilenetv4_hybrid_medium efficientnet_lite0 ghostnetv2_100"),
}


def _vision():
    for source, table, builder in (("torchvision", TORCHVISION, _torchvision), ("timm", TIMM, _timm)):
        if importlib.util.find_spec(source) is None:
            continue
        for family, (batches, names) in table.items():
            for word in names.split():
                name, _, size = word.partition("@")
                size = int(size or 224)
                options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
                data = make.image(size)
                if family == "segmentation":
                    data = make.pixels(size, 21)
                elif family == "video":
                    data = make.video(size, 8)
                yield Entry(f"{source}/{word}", family, builder(name, **options), data, batches)


def _decoder(name, family, shape, vocabulary, batches):
    layers, width, heads, length = shape
    return Entry(name, family, lambda: seq.Decoder(*shape, vocabulary=vocabulary), make.tokens(length, vocabulary), batches,
                 decoder=f"layers={layers},width={width},heads={heads},vocabulary={vocabulary},sequence={length}")


def _transformers():
    for name, layers, width, heads, length, batches in (
            ("base-128", 12, 768, 12, 128, (8, 32, 128)), ("mini-128", 4, 256, 4, 128, (16, 64, 256)),
            ("base-512", 12, 768, 12, 512, (2, 8, 32)), ("tiny-64", 2, 128, 2, 64, (16, 64, 256)),
            ("large-128", 24, 1024, 16, 128, (4, 16, 64)), ("medium-256", 8, 512, 8, 256, (8, 32, 64)),
            ("small-512", 4, 512, 8, 512, (4, 16, 48)), ("narrow-128", 12, 312, 12, 128, (8, 32, 128))):
        yield Entry(f"plain/bert-{name}", "bert", lambda a=(layers, width, heads, length): seq.Encoder(*a),
                    make.tokens(length, 30522), batches)
    yield Entry("plain/bert-classifier-128", "bert", lambda: seq.Encoder(6, 768, 12, 128, classes=2),
                make.tokens(128, 30522, 2, per_token=False), (8, 32, 128))
    for name, layers, width, heads, length, batches in (
            ("small-256", 12, 768, 12, 256, (2, 8, 32)), ("mini-128", 6, 192, 6, 128, (8, 32, 128)),
            ("medium-512", 24, 1024, 16, 512, (1, 4, 12)), ("micro-64", 4, 128, 4, 64, (16, 64, 256)),
            ("small-1024", 12, 768, 12, 1024, (1, 4, 12)), ("wide-256", 4, 1280, 20, 256, (4, 16, 48)),
            ("deep-256", 36, 512, 8, 256, (2, 8, 24))):
        yield _decoder(f"plain/gpt-{name}", "gpt", (layers, width, heads, length), 50257, batches)
    for name, layers, width, heads, length, batches in (
            ("base-64", 6, 512, 8, 64, (8, 32, 128)), ("big-64", 6, 1024, 16, 64, (4, 16, 64)),
            ("small-128", 3, 256, 4, 128, (8, 32, 128)), ("deep-128", 12, 512, 8, 128, (4, 16, 48))):
        yield Entry(f"plain/translator-{name}", "translator", lambda a=(layers, width, heads, length): seq.Translator(*a),
                    make.translation(length), batches)
    for name, layers, width, heads, batches in (("base", 6, 512, 8, (2, 8, 32)), ("tiny", 4, 256, 4, (4, 16, 64)),
                                                ("large", 16, 768, 12, (2, 8, 24))):
        yield Entry(f"plain/speech-transformer-{name}", "speech", lambda a=(layers, width, heads): seq.SpeechTransformer(*a),
                    make.signal(80, 800, 1000, frames=400), batches)


def _recurrent():
    for name, cell, layers, width, length, batches in (
            ("lstm-2x650", "lstm", 2, 650, 35, (20, 80, 320)), ("gru-1x256", "gru", 1, 256, 64, (16, 64, 256)),
            ("lstm-2x1500", "lstm", 2, 1500, 35, (20, 80, 256)), ("lstm-3x1150", "lstm", 3, 1150, 70, (20, 80)),
            ("gru-3x1024", "gru", 3, 1024, 50, (16, 64, 192)), ("lstm-1x200", "lstm", 1, 200, 35, (20, 100, 400)),
            ("rnn-2x512", "rnn", 2, 512, 100, (16, 64, 256)), ("lstm-4x512", "lstm", 4, 512, 128, (8, 32, 128))):
        yield Entry(f"plain/{name}", "language-rnn", lambda a=(cell, layers, width): seq.RecurrentLanguageModel(*a),
                    make.tokens(length, 10000), batches)
    for name, layers, width, length, per_token, batches in (
            ("2x256", 2, 256, 100, True, (16, 64, 256)), ("3x512", 3, 512, 200, True, (8, 32, 128)),
            ("1x128", 1, 128, 250, False, (32, 128, 512))):
        yield Entry(f"plain/bilstm-{name}", "bilstm", lambda a=(layers, width), t=per_token: seq.RecurrentTagger(*a, per_token=t),
                    make.tokens(length, 30000, 50, per_token), batches)
    for name, layers, width, batches in (("3x512", 3, 512, (4, 16, 64)), ("5x800", 5, 800, (4, 16, 48)),
                                         ("1x256", 1, 256, (8, 32, 96))):
        yield Entry(f"plain/speech-gru-{name}", "speech", lambda a=(layers, width): seq.RecurrentSpeech(*a),
                    make.signal(160, 400, 29, frames=200, plane=True), batches)
    for name, layers, width, length, batches in (("2x512", 2, 512, 40, (16, 64, 192)), ("4x1024", 4, 1024, 40, (16, 64, 128))):
        yield Entry(f"plain/seq2seq-{name}", "seq2seq", lambda a=(layers, width): seq.SequenceToSequence(*a),
                    make.translation(length), batches)
    for name, width, channels, length, batches in (("300x100", 300, 100, 128, (32, 128, 512)), ("512x512", 512, 512, 400, (16, 64, 256))):
        yield Entry(f"plain/textcnn-{name}", "text-convolution", lambda a=(width, channels): seq.TextConvolution(*a),
                    make.tokens(length, 30000, 20, per_token=False), batches)
    for name, layers, width, length, batches in (("16x64", 16, 64, 4000, (2, 8, 32)), ("30x128", 30, 128, 8000, (1, 4, 16))):
        yield Entry(f"plain/wavenet-{name}", "text-convolution", lambda a=(layers, width): seq.TemporalConvolution(*a),
                    make.signal(1, length, 256), batches)


def _recommendation():
    for name, users, items, width, hidden, batches in (
            ("small", 138000, 27000, 64, (256, 256, 128, 64), (1024, 16384, 131072)),
            ("large", 1000000, 200000, 128, (1024, 512, 256, 128), (4096, 32768))):
        yield Entry(f"plain/ncf-{name}", "ncf", lambda a=(users, items, width, hidden): tab.CollaborativeFilter(*a),
                    make.ratings(users, items), batches, make.click_loss)
    for name, kind, tables, rows, width, top, batches in (
            ("dlrm-small", "dlrm", 26, 20000, 16, (512, 256), (256, 2048, 16384)),
            ("dlrm-large", "dlrm", 26, 400000, 64, (1024, 1024, 512, 256), (2048, 16384)),
            ("wide-deep", "wide", 26, 50000, 32, (1024, 512, 256), (512, 8192)),
            ("deepfm", "fm", 39, 25000, 16, (400, 400, 400), (512, 4096, 32768)),
            ("cross-net", "cross", 26, 50000, 32, (768, 768), (512, 4096, 16384)),
            ("deep-click", "deep", 100, 10000, 32, (2048, 1024, 512), (512, 4096, 16384))):
        yield Entry(f"plain/{name}", "click", lambda a=(kind, tables, rows, width, top): tab.ClickModel(*a),
                    make.clicks(tables, rows), batches, make.click_loss)
    yield Entry("plain/autorec", "ncf", lambda: tab.tower([20000, 600, 200, 600, 20000], tab.nn.SELU),
                make.regression(20000, 20000), (128, 1024, 4096), make.square_loss)


def _small():
    for name, widths, batches in (("3x512", (784, 512, 512, 10), (64, 512, 4096)),
                                  ("6x4096", (1024, 4096, 4096, 4096, 4096, 4096, 1000), (64, 512, 4096)),
                                  ("20x256", (128,) + (256,) * 19 + (10,), (128, 1024, 16384))):
        yield Entry(f"plain/mlp-{name}", "mlp", lambda w=widths: tab.tower(w), make.vector(widths[0], widths[-1]), batches)
    yield Entry("plain/residual-mlp-12x1024", "mlp", lambda: tab.ResidualTower(512, 1024, 12, 100), make.vector(512, 100), (64, 512, 4096))
    yield Entry("plain/radiance-8x256", "mlp", lambda: tab.tower((63,) + (256,) * 8 + (4,)), make.regression(63, 4),
                (4096, 65536), make.square_loss)
    yield Entry("plain/lenet", "cifar", tab.LeNet, make.image(28, 10, 1), (64, 512, 4096))
    for depth, factor, batches in ((20, 1, (64, 256, 1024)), (110, 1, (64, 256)), (28, 10, (32, 128, 256)), (56, 2, (64, 256))):
        yield Entry(f"plain/cifar-resnet{depth}x{factor}", "cifar", lambda a=(depth, factor): tab.SmallResNet(*a), make.image(32, 10), batches)
    for width, size, batches in ((32, 256, (2, 8, 24)), (64, 128, (4, 16, 48)), (16, 96, (8, 32, 128))):
        yield Entry(f"plain/unet-{width}@{size}", "unet", lambda w=width: tab.UNet(w), make.pixels(size, 2), batches)
    for width, size, batches in ((32, 64, (32, 128, 512)), (64, 128, (16, 64, 192))):
        yield Entry(f"plain/autoencoder-{width}@{size}", "restoration", lambda w=width: tab.ConvolutionalAutoencoder(w),
                    make.picture(size), batches, make.square_loss)
    for width, blocks, batches in ((64, 16, (4, 16, 64)), (128, 32, (2, 8, 24))):
        yield Entry(f"plain/superres-{width}x{blocks}", "restoration", lambda a=(width, blocks): tab.SuperResolution(*a),
                    make.picture(48, 2), batches, make.square_loss)
    for width, points, batches in ((64, 1024, (8, 32, 128)), (32, 2048, (8, 32, 96))):
        yield Entry(f"plain/pointnet-{width}x{points}", "cloud-graph", lambda w=width: tab.PointNet(w), make.signal(3, points, 40, frames=0), batches)
    for nodes, width, layers, batches in ((64, 128, 3, (32, 256, 1024)), (256, 256, 6, (16, 64, 256))):
        yield Entry(f"plain/gcn-{nodes}x{width}x{layers}", "cloud-graph", lambda a=(32, width, layers): tab.GraphConvolution(*a),
                    make.graph(nodes, 32), batches)


# The most diverse families come first in each round.
FIRST = ("resnet", "bert", "language-rnn", "click", "mobilenet", "gpt", "mlp", "vgg", "cifar", "densenet", "ncf", "vit",
         "speech", "unet", "efficientnet", "translator", "mixer", "regnet", "bilstm", "shufflenet", "swin", "restoration",
         "convnext", "light", "seq2seq", "cloud-graph", "squeezenet", "text-convolution", "dla", "inception")


def entries():
    """Every architecture: the first of each family, then the second of each, and so on."""
    families = {}
    for source in (_vision(), _transformers(), _recurrent(), _recommendation(), _small()):
        for entry in source:
            families.setdefault(entry.family, []).append(entry)
    order = [f for f in FIRST if f in families] + [f for f in families if f not in FIRST]
    rounds = max(len(members) for members in families.values())
    return [families[f][i] for i in range(rounds) for f in order if i < len(families[f])]


def decoders():
    """Large language models; most of their batch sizes do not fit without a recipe."""
    for name, layers, width, heads, length, batches in (
            ("0.1b", 12, 768, 12, 1024, (2, 8)), ("0.3b", 24, 1024, 16, 1024, (2, 8)), ("0.9b", 16, 2048, 16, 1024, (1, 4)),
            ("2.6b", 32, 2560, 32, 1024, (1, 2)), ("6.6b", 32, 4096, 32, 2048, (1,))):
        yield _decoder(f"plain/decoder-{name}", "decoder", (layers, width, heads, length), 32000, batches)


def by_name():
    return {entry.name: entry for entry in [*entries(), *decoders()]}
