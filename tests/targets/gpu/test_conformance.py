"""The standard's own suite on a GPU: what passes on cpu passes there."""

from __future__ import annotations

import pytest

from migraphx.ir.operation import Unsupported
from migraphx.targets.gpu.device import current_device
from tests.onnx.test_conformance import wrong
from tools.conformance import cases, run

PARTS = 24


@pytest.mark.device
@pytest.mark.parametrize("part", range(PARTS))
def test_the_suite(part: int) -> None:
    try:
        current_device()
    except Unsupported as error:
        pytest.skip(str(error))
    assert not (failed := wrong(run("gpu", cases()[part::PARTS]))), failed
