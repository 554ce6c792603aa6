"""Every converter, in every dialect it serves, against what torch itself computes."""

import logging
from collections.abc import Iterable
from operator import getitem
from typing import Any

import numpy as np
import pytest
import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from tests.tolerances import assert_close
from tests.torch_migraphx.declared import OTHER_TYPES
from tests.torch_migraphx.fx.converters.samples import BY_TARGET
from tests.torch_migraphx.fx.converters.samples_by_converter import BY_CONVERTER
from tests.torch_migraphx.fx.converters.samples_by_data import BY_DATA
from tests.torch_migraphx.fx.converters.samples_core import CORE, PRIMS, UNARY
from tests.torch_migraphx.fx.converters.samples_linalg import LINALG
from tests.torch_migraphx.fx.converters.samples_quantized import QUANTIZED
from tests.torch_migraphx.fx.converters.samples_special import SPECIAL
from torch_migraphx.fx import converters  # noqa: F401  # fills CONVERTERS
from torch_migraphx.fx.converter import converter, existing, target_name
from torch_migraphx.fx.converter_registry import CONVERTERS
from torch_migraphx.fx.dtypes import to_numpy
from torch_migraphx.fx.lower_graph import lower
from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import is_acc_op
from torch_migraphx.options import Options

Call = tuple[Any, dict[str, Any]]
"""An operator and its arguments."""
REF = Options(target="ref")
UNCOMPARED = {"eig": 2, "_scaled_dot_product_attention_math": 1, "mkldnn_rnn_layer": 3, "_linalg_eigh": 1}
"""How many results are compared: those behind are for a backward and are not computed, or have signs of their own."""
UNINITIALISED = {
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
}  # fmt: skip
MISDECLARED = {"choose_qparams_per_token", "signbit"}
"""torch computes another type than it tells compilers: float32 for double and int64; bool for Prims' input type."""


def precision(target: Any) -> Any:
    """The type by whose tolerance results are compared, where it is not their own: scales are computed in float."""
    return np.float32 if target_name(target).split(".")[1].startswith("choose_qparams") else None


def samples(target: Any) -> list[dict[str, Any]]:
    function = CONVERTERS[target].function
    file, name = function.__module__.rpartition(".")[2], target_name(target).split(".")[1]
    if target_name(target).startswith("prims."):
        return PRIMS.get(name, UNARY)
    own = BY_CONVERTER | QUANTIZED | CORE | LINALG | SPECIAL | BY_DATA
    return own.get(f"{file}.{function.__name__}") or own.get(f"{file}.{name}") or BY_TARGET.get(name, [])


def arguments(target: Any, sample: dict[str, Any]) -> dict[str, Any] | None:
    """The sample under the target's own names; None where the target has not all of its arguments."""
    own = {known: name for name, known, _ in CONVERTERS[target].arguments}
    return {own[k]: v for k, v in sample.items()} if sample.keys() <= own.keys() else None


def calls(target: Any) -> list[Call]:
    """The samples that fit the target."""
    found = []
    for sample in samples(target):
        kwargs = arguments(target, sample)
        if kwargs is None:
            continue
        try:
            target(**{k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()})
        except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
            continue  # not for this overload: a tensor where it wants a number, the reverse, another rank
        found.append((target, kwargs))
    return found


def graph_of(calls: Iterable[Call]) -> tuple[fx.GraphModule, list[torch.Tensor], list[Any]]:
    """A graph of the calls, whose tensor arguments are its inputs; those; and which operator gives each output."""
    graph, tensors, outputs, operators = fx.Graph(), list[torch.Tensor](), list[fx.Node](), list[Any]()
    for target, kwargs in calls:
        leaves, spec = tree_flatten(kwargs)
        args = []
        for leaf in leaves:
            args.append(graph.placeholder(f"x{len(tensors)}") if isinstance(leaf, torch.Tensor) else leaf)
            tensors += [leaf] if isinstance(leaf, torch.Tensor) else []
        call = graph.call_function(target, (), tree_unflatten(args, spec))
        result = target(**kwargs)
        count = len(result) if isinstance(result, tuple | list) else 0
        kept = UNCOMPARED.get(target_name(target).split(".")[1], count)
        results = [graph.call_function(getitem, (call, k)) for k in range(kept)] if count else [call]
        outputs += results
        operators += [target] * len(results)
    graph.output(tuple(outputs))
    return fx.GraphModule({}, graph), tensors, operators


def check(gots: Any, wants: Any, operators: list[Any]) -> None:
    for k, (g, w, operator) in enumerate(zip(gots, wants, operators, strict=True)):
        name, which = target_name(operator), f"output {k}, of {target_name(operator)}"
        if not isinstance(w, torch.Tensor):
            assert g == w, which
            continue
        assert (g.dtype == w.dtype or name.split(".")[1] in MISDECLARED) and g.shape == w.shape, which
        if name.split(".")[1] not in UNINITIALISED:
            assert_close(to_numpy(g), to_numpy(w.contiguous()), precision(operator), scale=4)


ON_GPUS = {
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
}
"""torch has no kernels for them on the CPU: see tests/torch_migraphx/fx/test_interpreter.py."""
NOTHING = {torch.ops.aten._linalg_check_errors.default, torch.ops.aten._assert_scalar.default}  # is what they give
# Those of higher order take graphs.
OPERATORS = [t for t in CONVERTERS if t not in ON_GPUS | NOTHING and not isinstance(t, torch._ops.HigherOrderOperator)]


@pytest.mark.parametrize("target", OPERATORS, ids=target_name)
def test_against_torch(target, caplog):
    """All samples that fit as one graph."""
    if target in OTHER_TYPES:
        pytest.skip("this torch declares other types than it gives")
    gm, tensors, operators = graph_of(calls(target))
    assert operators, f"no sample fits {target_name(target)}"
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        want = gm(*[t.clone() for t in tensors])
        lowered = lower(gm, tensors, REF)
        assert not caplog.records, caplog.text
        check(lowered(*tensors), want, operators)


def test_a_target_has_one_converter():
    with pytest.raises(TypeError, match="has two converters"):
        converter(torch.ops.aten.relu.default)(lambda b, input: input)


def test_a_converter_sees_every_argument():
    with pytest.raises(TypeError, match="misses"):
        converter(torch.ops.aten.addmv.default)(lambda b, input, mat, vec: input)


class NamedByItsCall(torch._ops.HigherOrderOperator):
    def __call__(self, f: Any, xs: Any) -> Any:
        return super().__call__(f, xs)


class NamedByItsSchema(torch._ops.HigherOrderOperator):
    def __call__(self, *args: Any) -> Any:
        return super().__call__(*args)

    def gen_schema(self, f: Any, xs: Any) -> Any:
        raise NotImplementedError


class NamedNowhere(torch._ops.HigherOrderOperator):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)


@pytest.mark.parametrize("kind", [NamedByItsCall, NamedByItsSchema, NamedNowhere])
def test_arguments_of_an_operator_of_higher_order_have_names(kind: Any, monkeypatch: Any) -> None:
    """Wherever the installed torch says them: `map_impl` names none in 2.11 and 2.12."""
    monkeypatch.setattr(torch._ops, "_higher_order_ops", dict(torch._ops._higher_order_ops))
    target = kind(kind.__name__)

    def convert(b: Any, f: Any, xs: Any) -> Any:
        return f, xs

    monkeypatch.setitem(CONVERTERS, target, None)
    monkeypatch.delitem(CONVERTERS, target)
    converter(target)(convert)
    assert CONVERTERS[target].bind((len, 2), {}) == {"f": len, "xs": 2}


def test_operators_that_only_some_versions_have() -> None:
    relu = torch.ops.aten.relu.default
    assert existing("aten.relu.default") == (relu,) and existing("aten.no_such_operator.default") == ()


def test_every_dialect_is_served():
    acc = [t for t in CONVERTERS if is_acc_op(t)]
    assert len(acc) > 150 and len(CONVERTERS) - len(acc) > 250
