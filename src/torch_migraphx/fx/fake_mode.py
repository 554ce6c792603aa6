"""The mode of fake tensors that stand for samples whose values must not be compiled in."""

from __future__ import annotations

from torch._subclasses.fake_tensor import FakeTensorMode


def fake_mode() -> FakeTensorMode:
    """Sizes and types alone, without symbols: what asks for an element raises torch's DataDependentOutputException.

    From torch 2.14 on other modes without symbols remember the value of a sample that is one whole number or double;
    `export` says that they may not.
    """
    return FakeTensorMode(allow_non_fake_inputs=True, export=True)
