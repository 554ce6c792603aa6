"""torchvision's models with one or two blocks of each kind: all their operators, in a fraction of the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from benchmarks.models import import_torchvision


def shallow(name: str) -> nn.Module:
    """The torchvision classifier `name` with fewer layers, weights not trained."""
    return BUILDERS[name](import_torchvision().models)


def resnet18(models: Any) -> nn.Module:
    return models.ResNet(models.resnet.BasicBlock, [1, 1, 1, 1])


def resnet50(models: Any) -> nn.Module:
    return models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1])


def densenet(models: Any) -> nn.Module:
    return models.DenseNet(16, (2, 1), 32)


def mobilenet_v2(models: Any) -> nn.Module:
    return models.MobileNetV2(inverted_residual_setting=[[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 1, 1]])


def mobilenet_v3_small(models: Any) -> nn.Module:
    rows = [
        (16, 3, 16, 16, True, "RE", 2), (16, 3, 72, 24, False, "RE", 2), (24, 3, 88, 24, False, "RE", 1),
        (24, 5, 96, 40, True, "HS", 2), (40, 5, 240, 40, True, "HS", 1),
    ]  # fmt: skip
    return models.MobileNetV3([models.mobilenetv3.InvertedResidualConfig(*row, 1, 1.0) for row in rows], 64)


def efficientnet_b0(models: Any) -> nn.Module:
    rows = [(1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 1)]
    return models.EfficientNet([models.efficientnet.MBConvConfig(*row) for row in rows], 0.2)


def convnext_tiny(models: Any) -> nn.Module:
    sizes = [(32, 64, 1), (64, 128, 1), (128, None, 1)]
    return models.ConvNeXt([models.convnext.CNBlockConfig(*row) for row in sizes])


def vit_b_16(models: Any) -> nn.Module:
    return models.VisionTransformer(32, 16, 2, 4, 64, 128)


def shufflenet_v2_x0_5(models: Any) -> nn.Module:
    return models.ShuffleNetV2([2, 1, 1], [24, 48, 96, 192, 256])


BUILDERS: dict[str, Callable[[Any], nn.Module]] = {
    f.__name__: f
    for f in (
        resnet18, resnet50, mobilenet_v2, mobilenet_v3_small, efficientnet_b0, convnext_tiny, vit_b_16,
        shufflenet_v2_x0_5,
    )
} | {"densenet121": densenet, "densenet161": densenet}  # fmt: skip
