"""How converters are bound to what torch says of its operators."""

from typing import Any

import pytest
from torch._ops import HigherOrderOperator

from torch_migraphx.fx.builder import Builder
from torch_migraphx.fx.converter import converter
from torch_migraphx.fx.converter_registry import CONVERTERS


class NamesNothing(HigherOrderOperator):
    """As some versions of torch declare `map_impl`: neither its call nor its `gen_schema` names arguments."""

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)

    def gen_schema(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def test_a_higher_order_operator_that_names_no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = NamesNothing("names_nothing")
    seen = []

    def convert(b: Builder, f: Any, xs: Any, rest: Any = ()) -> None:
        seen.append((f, xs, rest))

    monkeypatch.delitem(CONVERTERS, operator, raising=False)
    converter(operator)(convert)
    no_builder: Any = None
    CONVERTERS.pop(operator)(no_builder, ("f", "xs"), {})
    assert seen == [("f", "xs", ())]
