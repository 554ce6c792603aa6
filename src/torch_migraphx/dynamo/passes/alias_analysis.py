"""Which outputs of a call share memory with its inputs, or with one another: as views of the tensor that holds all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch


class AliasSource(Enum):
    """Whether an output is a view of an input or of another output."""

    INPUT = "input"
    OUTPUT = "output"


@dataclass(frozen=True)
class AliasSpec:
    """One output as a view of another tensor; sizes, strides and offset count elements."""

    output_index: int
    source: AliasSource
    source_index: int
    source_shape: tuple[int, ...]
    source_stride: tuple[int, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    relative_offset: int

    @property
    def is_identity(self) -> bool:
        """Whether the view is its source."""
        return self.source_layout_matches(self.shape, self.stride) and self.relative_offset == 0

    def source_layout_matches(self, shape: Sequence[int], stride: Sequence[int]) -> bool:
        """Whether a tensor of these sizes and strides can stand for the source."""
        return (tuple(shape), tuple(stride)) == (self.source_shape, self.source_stride)

    def rebuild(self, source: torch.Tensor) -> torch.Tensor:
        """The view of `source`."""
        return rebuild_alias(source, self.shape, self.stride, self.relative_offset)


def rebuild_alias(
    source: torch.Tensor, shape: Sequence[int], stride: Sequence[int], relative_offset: int
) -> torch.Tensor:
    """The view of these sizes and strides, from `relative_offset` elements behind where `source` begins."""
    return source.as_strided(shape, stride, source.storage_offset() + relative_offset)


def infer_output_aliases(inputs: Sequence[Any], outputs: Any) -> tuple[list[AliasSpec], bool]:
    """Which outputs are views, and whether all memory that is shared could be told so.

    An output whose memory an input covers is a view of the smallest such input; of outputs that share memory with each
    other, one that covers the others is their source. ([], False) where none of them covers all.
    """
    results = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
    views: list[AliasSpec] = []
    groups: dict[Any, list[int]] = {}
    for k, out in enumerate(results):
        if not isinstance(out, torch.Tensor) or not out.numel():
            continue
        given = ((j, x) for j, x in enumerate(inputs) if isinstance(x, torch.Tensor) and _covers(x, out))
        source = min(given, key=lambda pair: _extent(pair[1]), default=None)
        if source is not None:
            views.append(_view(k, out, AliasSource.INPUT, *source))
        else:
            groups.setdefault(_memory(out), []).append(k)
    for group in groups.values():
        tensors = {k: results[k] for k in group}
        source = _whole(tensors)
        if source is None:
            return [], False
        views += [_view(k, x, AliasSource.OUTPUT, source, tensors[source]) for k, x in tensors.items() if k != source]
    return views, True


def find_alias_to_inputs(inputs: Sequence[Any], output: torch.Tensor) -> AliasSpec | None:
    """`output` as a view of one of `inputs`; None where it is none."""
    views, _ = infer_output_aliases(inputs, (output,))
    return views[0] if views else None


def _whole(tensors: dict[int, torch.Tensor]) -> int | None:
    """The first one that covers the others; None where there is none."""
    covering: Iterable[int] = (k for k, x in tensors.items() if all(_covers(x, y) for y in tensors.values()))
    return next(iter(covering), None)


def _view(k: int, out: torch.Tensor, source: AliasSource, index: int, x: torch.Tensor) -> AliasSpec:
    offset = int(out.storage_offset() - x.storage_offset())
    return AliasSpec(k, source, index, tuple(x.shape), x.stride(), tuple(out.shape), out.stride(), offset)


def _memory(x: torch.Tensor) -> tuple[torch.device, int]:
    return x.device, x.untyped_storage().data_ptr()


def _extent(x: torch.Tensor) -> int:
    """How many elements lie between its first one and its last one, both included."""
    return 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))


def _covers(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether `y` lies in the part of a storage that `x` spans, in elements of the same type."""
    if not x.numel() or _memory(x) != _memory(y) or x.dtype != y.dtype:
        return False
    first, begin = x.storage_offset(), y.storage_offset()
    return first <= begin and begin + _extent(y) <= first + _extent(x)
