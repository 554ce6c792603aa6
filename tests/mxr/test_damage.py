"""What a disk or a transfer changed in a file is an error that names it, never another answer and never run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape
from migraphx.mxr import container

X = np.arange(-4, 4, dtype=np.float32)
W = np.linspace(1, 2, 8 * 9000, dtype=np.float32).reshape(9000, 8)  # many blocks of a checksum, and a part of one


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    p = migraphx.program()
    b = Builder(p.graph.main)
    x = p.graph.main.add_parameter("x", Shape("float", X.shape))
    p.graph.main.add_return([b.dot(b.leaky_relu(b.reshape(x, dims=[1, 8]), alpha=0.5), b.literal(W.T))])
    p.compile(migraphx.get_target("cpu"))
    path = tmp_path_factory.mktemp("whole") / "a.mxr"
    migraphx.save(p, path, code=True)
    return path.read_bytes()


def refused(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    with pytest.raises(container.FileError, match=rf"^{path}: (?!.*{path})"):  # which says its name once
        p = migraphx.load(path, trust_code=True)
        assert not np.array(p.run({"x": X})[0]).any(), "it was loaded and run"
    path.unlink()


@pytest.mark.parametrize("text", ['alpha\\":0.5', "[8,9000]", "compiled.code", '"format"', '"checksums"', "literal.0"])
def test_a_digit_or_letter_of_the_header(whole: bytes, text: str, tmp_path: Path) -> None:
    end = whole.index(text.encode()) + len(text) - 1
    flipped = bytes([whole[end - 1] ^ 1])
    refused(whole[: end - 1] + flipped + whole[end:], tmp_path / "b.mxr")


def test_a_bit_of_each_tensor(whole: bytes, tmp_path: Path) -> None:
    """Packed weights, code, its table; and the model's weights where the graph is asked for."""
    tensors, _ = container.from_bytes(whole)
    assert {"compiled.code", "compiled.table.code", "compiled.weight.0", "literal.0"} <= set(tensors)
    for name, array in tensors.items():
        begin = whole.index(array.tobytes())
        for at in (begin, begin + array.nbytes // 2, begin + array.nbytes - 1):
            damaged = whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :]
            if name.startswith("compiled"):
                refused(damaged, tmp_path / "b.mxr")
                continue
            (tmp_path / "c.mxr").write_bytes(damaged)
            with pytest.raises(container.FileError, match=rf"c\.mxr: tensor '{name}' is damaged"):
                migraphx.load(tmp_path / "c.mxr", trust_code=True).graph  # noqa: B018  # read when asked for


def test_a_page_that_was_never_written(whole: bytes, tmp_path: Path) -> None:
    at = len(whole) // 8192 * 4096
    refused(whole[:at] + bytes(4096) + whole[at + 4096 :], tmp_path / "b.mxr")


def test_files_without_checksums_are_read() -> None:
    """Those that another library wrote with our metadata."""
    tensors, metadata = container.from_bytes(container.to_bytes({"x": X}, {"format": "pt"}))
    assert metadata == {"format": "pt"}
    again, same = container.from_bytes(save(dict(tensors), metadata))
    np.testing.assert_array_equal(again["x"], X)
    assert same == metadata
