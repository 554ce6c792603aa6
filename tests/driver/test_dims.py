"""How the command line writes dimensions."""

from __future__ import annotations

import pytest

from migraphx.api.shape import dynamic_dimension
from migraphx.driver import dims
from migraphx.driver.result import UsageError


def test_lens():
    assert dims.lens("--input-dim", ["@a", "1", "2", "@b:0", "3"]) == {"a": [1, 2], "b:0": [3]}


def test_dimension():
    assert dims.dimension("-d", "8") == 8
    assert dims.dimension("-d", "{min:1, max:8, optimals:[4,2]}") == dynamic_dimension(1, 8, {2, 4})
    assert dims.dimension("-d", '{"min": 1, "max": 8}') == dynamic_dimension(1, 8)
    assert dims.dimensions("-d", "[{min:1,max:64}, 3, 224]") == [dynamic_dimension(1, 64), 3, 224]


WRONG = ["", "x", "-1", "1.5", "true", "{min:1}", "{min:1,max:2,most:3}", "{min:3,max:1}", "{min:a,max:1}", "[1]"]


@pytest.mark.parametrize("text", WRONG)
def test_no_dimension(text):
    with pytest.raises(UsageError, match="-d"):
        dims.dimension("-d", text)


@pytest.mark.parametrize("tokens", [["1"], ["@a"], ["@a", "@b", "1"], ["@a", "1.5"], ["@a", "model.onnx"]])
def test_no_lens(tokens):
    with pytest.raises(UsageError, match="-d"):
        dims.lens("-d", tokens)


def test_one_each():
    assert dims.one_each("-l", ["@a", "f", "@b", "g"], str) == {"a": "f", "b": "g"}
    with pytest.raises(UsageError, match="one value"):
        dims.one_each("-l", ["@a", "f", "g"], str)
