"""AMD's files: what MIGraphX's documented format holds is read, what this engine writes has that form.

No file of AMD's own is at hand: those read here are written by this test, from the format's description
(https://github.com/ROCm/AMDMIGraphX: program, shape, literal and value as msgpack and JSON).
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.api.program import published
from migraphx.ir.program import Program
from migraphx.ir.text import program_text
from migraphx.mxr import container, msgpack
from migraphx.mxr.upstream import to_upstream
from migraphx.mxr.upstream_read import from_upstream
from tests.writers.programs import dynamic, rich

WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)


def shape(type: str, lens: list[int], strides: list[int]) -> dict[str, Any]:
    return {"type": type, "lens": lens, "strides": strides, "sub_shapes": None, "dynamic_dimensions": None,
            "dyn_strides": None}  # fmt: skip


def node(output: str, name: str, s: dict[str, Any], inputs: list[str], operator: Any = None, **more: Any) -> dict:
    made = {"output": output, "name": name, "shape": s, "normalized": False, "operator": operator, "inputs": inputs}
    return made | more


def theirs(data: Any) -> dict[str, Any]:
    """relu(x @ transposed(w)) as int32, and the maximum of an image: with fields that only AMD's operators have."""
    x, w = shape("float_type", [2, 3], [3, 1]), shape("float_type", [3, 4], [1, 3])
    y = shape("float_type", [2, 4], [4, 1])
    image, small = shape("float_type", [1, 1, 4, 4], [16, 16, 4, 1]), shape("float_type", [1, 1, 2, 2], [4, 4, 2, 1])
    pooling = {"mode": 1, "padding": [0, 0], "padding_mode": 0, "stride": [2, 2], "lengths": [2, 2]}
    pooling |= {"dilations": [1, 1], "ceil_mode": False, "count_include_pad": False, "lp_order": 2, "dyn_global": False}
    nodes = [
        node("main:@0", "@literal", w, [], literal={"shape": w, "data": data}),
        node("x", "@param", x, [], {"parameter": "x", "order": 0}),
        node("image", "@param", image, [], {"parameter": "image"}),
        node("main:@3", "dot", y, ["x", "main:@0"], debug_symbols=["gemm_1"]),
        node("main:@4", "relu", y, ["main:@3"], {}),
        node("main:@5", "convert", y | {"type": "int32_type"}, ["main:@4"], {"target_type": 8}),
        node("main:@6", "pooling", small, ["image"], pooling),
        node("main:@7", "@return", shape("tuple_type", [], []), ["main:@5", "main:@6"], []),
    ]
    modules = {"main": {"name": "main", "nodes": nodes}}
    return {"version": 7, "migraphx_version": "2.15.0", "targets": [], "contexts": None, "modules": modules}


def packed(value: Any) -> bytes:
    """MessagePack in its longest forms, which is another writer than the package's."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", True: b"\xc3", False: b"\xc2"}[value]
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"\xdb" + struct.pack(">I", len(value)) + value.encode()
    if isinstance(value, bytes):
        half = len(value) // 2
        pieces = [b"\xc6" + struct.pack(">I", len(v)) + v for v in (value[:half], value[half:])]
        return b"\xdd" + struct.pack(">I", 2) + b"".join(pieces)
    if isinstance(value, dict):
        return b"\xdf" + struct.pack(">I", len(value)) + b"".join(packed(k) + packed(v) for k, v in value.items())
    return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(packed, value))


def as_json() -> bytes:
    return json.dumps(theirs({"bytes": list(WEIGHT.tobytes()), "subtype": None})).encode()


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_their_files_load(form: str, tmp_path: Path) -> None:
    (tmp_path / "a.mxr").write_bytes(as_json() if form == "json" else packed(theirs(WEIGHT.tobytes())))
    program = migraphx.load(str(tmp_path / "a.mxr"), format=form)
    assert program.get_parameter_names() == ["image", "x"] and not program.is_compiled()
    program.compile(migraphx.get_target("ref"))
    rng = np.random.default_rng(0)
    x, image = rng.standard_normal((2, 3)).astype(np.float32), rng.random((1, 1, 4, 4)).astype(np.float32)
    y, best = (np.array(r) for r in program.run({"x": x, "image": image}))
    np.testing.assert_array_equal(y, np.maximum(x @ WEIGHT.T, 0).astype(np.int32))
    np.testing.assert_array_equal(best, image.reshape(1, 1, 2, 2, 2, 2).max((3, 5)))


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize("made", [rich, dynamic])
def test_ours_come_back(form: str, made: Any, tmp_path: Path) -> None:
    program = published(made())
    migraphx.save(program, tmp_path / "a.mxr", format=form)
    back = migraphx.load(tmp_path / "a.mxr")
    assert program_text(back.graph, full=True) == program_text(program.graph, full=True)
    assert migraphx.load_buffer(migraphx.save_buffer(program, form)) == back


def test_modules_are_read_whatever_their_order() -> None:
    data = to_upstream(rich())
    data["modules"] = dict(reversed(data["modules"].items()))
    assert sorted(from_upstream(data).modules) == ["else", "main", "then"]


def test_modules_of_older_files_are_a_list() -> None:
    data = theirs(WEIGHT.tobytes())
    data |= {"version": 4, "target": "", "modules": list(data["modules"].values())}
    del data["targets"]
    assert list(from_upstream(data).main.parameters) == ["image", "x"]


def refused(words: str, **changes: Any) -> None:
    with pytest.raises(container.FileError, match=words):
        from_upstream(theirs(WEIGHT.tobytes()) | changes)


def changed(index: int, **changes: Any) -> dict[str, Any]:
    modules = theirs(WEIGHT.tobytes())["modules"]
    modules["main"]["nodes"][index] |= changes
    return modules


def test_refused() -> None:
    refused("compiled for gpu, cpu: only uncompiled", targets=[{"name": "gpu"}, {"name": "cpu"}], contexts=[{}])
    refused("compiled for gpu", targets=None, target="gpu")
    refused("version 8 is not known", version=8)
    refused("there is no main", modules={"other": {"name": "other", "nodes": []}})
    refused("operators that are not supported: gpu::gemm", modules=changed(3, name="gpu::gemm"))
    refused(r"node 3 \(dot\): unknown name 'nowhere'", modules=changed(3, inputs=["x", "nowhere"]))
    refused(r"node 3 \(dot\): its shape is", modules=changed(3, shape=shape("float_type", [2, 5], [5, 1])))
    refused(r"node 6 \(pooling\)", modules=changed(6, operator={"mode": 7}))
    refused(r"node 4 .*unknown attribute 'slope'", modules=changed(4, operator={"slope": 0.5}))
    short = {"shape": shape("float_type", [3, 4], [1, 3]), "data": WEIGHT.tobytes()[4:]}
    refused("11 elements of data", modules=changed(0, literal=short))
    with pytest.raises(ValueError, match="format 'xml'"):
        migraphx.load_buffer(as_json(), format="xml")
    with pytest.raises(ValueError, match="holds no code"):
        migraphx.save_buffer(migraphx.program(), "json", code=True)


def test_truncated_at_every_tenth_byte() -> None:
    for whole in (as_json(), packed(theirs(WEIGHT.tobytes()))):
        for length in range(1, len(whole), 10):
            with pytest.raises(container.FileError, match="buffer"):
                migraphx.load_buffer(whole[:length])


VALUES = [
    *(None, True, 0, 127, 128, 2**64 - 1, -1, -33, -(2**63), 0.5),
    *("", "a" * 40, "b" * 300, "c" * 70000, b"", b"x" * 300),
    *([], [1] * 20, list(range(70000)), {"k": [1, {"m": None}]}, {str(k): k for k in range(20)}),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{type(v).__name__}{len(str(v))}")
def test_msgpack(value: Any) -> None:
    wanted = [value] if isinstance(value, bytes) else value  # a list of chunks
    assert msgpack.unpack(msgpack.pack(value)) == wanted
    if not isinstance(value, bytes) and value != 2**64 - 1:
        assert msgpack.unpack(packed(value)) == value


def test_msgpack_refused() -> None:
    for data, words in (
        (b"\xc1", "byte 0 is 0xc1"),
        (b"\x92\x01", "truncated at byte 2"),
        (b"\xdd\xff\xff\xff\xff", "truncated"),
        (b"\x91" * 100, "nested deeper than 64"),
        (b"\x81\x01\x02", "key at byte 1 is no string"),
        (b"\xa2\xff\xfe", "string at byte 1 is no UTF-8"),
        (b"\xd4\x01\x00", "0xd4"),
        (b"\x01\x01", "1 bytes follow"),
        (b"", "truncated"),
    ):
        with pytest.raises(container.FileError, match=words):
            msgpack.unpack(data)
    with pytest.raises(TypeError, match="cannot hold"):
        msgpack.pack({"a": object()})


def test_empty_program_comes_back() -> None:
    assert program_text(from_upstream(to_upstream(Program()))) == program_text(Program())
