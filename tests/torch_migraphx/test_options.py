"""Every option of a compilation can be given from torch, by each way in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_type_hints

import pytest
import torch
from torch import nn

import migraphx
from torch_migraphx import Options
from torch_migraphx.fx import MGXModule, lower_to_mgx
from torch_migraphx.options import LoweringKeywords, ModuleKeywords

X = torch.randn(2, 4)
GIVEN: dict[str, Any] = {"fast_math": False, "num_threads": 3, "max_specialisations": 7}


def through_lowering(model: nn.Module, **options: Any) -> None:
    lower_to_mgx(model, [X], **{"target": "ref", **options})


def through_compile(model: nn.Module, **options: Any) -> None:
    torch.compile(model, backend="migraphx", options={"target": "ref", **options})(X)


def through_module(model: nn.Module, **options: Any) -> None:
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(type="float", lens=[2, 4]))
    m.add_return([m.add_instruction(migraphx.op("relu"), [x])])
    MGXModule(p, ["x"], ["y"], options.pop("target", "ref"), **options)


WAYS = pytest.mark.parametrize("way", [through_lowering, through_compile, through_module])


@WAYS
def test_options_reach_the_target(way: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[migraphx.CompileOptions] = []
    target = type(migraphx.get_target("ref"))
    compile_ = target.compile
    monkeypatch.setattr(target, "compile", lambda self, p, o: seen.append(o) or compile_(self, p, o))
    torch._dynamo.reset()
    with torch.no_grad():
        way(nn.ReLU().eval(), **GIVEN)
    assert seen == [migraphx.CompileOptions(offload_copy=False, **GIVEN)]


@WAYS
def test_the_instruction_set_reaches_target_cpu(way: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def compile(self: Any, p: Any, o: migraphx.CompileOptions) -> Any:
        seen.append(o.isa)
        return migraphx.get_target("ref").compile(p, o)

    monkeypatch.setattr(type(migraphx.get_target("cpu")), "compile", compile)
    torch._dynamo.reset()
    with torch.no_grad():
        way(nn.ReLU().eval(), target="cpu", isa="x86-64-v2")
    assert seen == ["x86-64-v2"]


@WAYS
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_thread": 2}, "unknown option 'num_thread'; did you mean 'num_threads'"),
        ({"num_threads": "2"}, "option 'num_threads' must be a whole number"),
        ({"exhaustive_tune": True}, "target 'ref' has no kernels to choose among"),
        ({"isa": "x86-64-v3"}, "target 'ref' makes no code for a processor: it refuses isa='x86-64-v3'"),
        ({"isa": "avx2"}, "option 'isa' must be 'native' or 'x86-64'"),
    ],
)
def test_wrong_options_are_errors(way: Callable[..., None], given: dict[str, Any], message: str) -> None:
    """None of them makes the model run in torch instead."""
    torch._dynamo.reset()
    with pytest.raises(Exception, match=message), torch.no_grad():
        way(nn.ReLU().eval(), **given)


def test_type_checkers_know_every_option() -> None:
    hints = get_type_hints(Options)
    assert hints == {f.name: type(f.default) for f in fields(Options)} | {"report": hints["report"]}
    assert get_type_hints(LoweringKeywords).items() == hints.items() - {("frozen", bool), ("offload_copy", bool)}
    engine = get_type_hints(migraphx.CompileOptions)
    assert get_type_hints(ModuleKeywords).items() == engine.items() - {("offload_copy", bool)}
    assert all(f.metadata["help"] for f in fields(Options) if f.init)


def test_what_only_torch_compile_takes() -> None:
    with pytest.raises(TypeError, match=r"frozen is an option of torch\.compile"):
        lower_to_mgx(nn.ReLU(), [X], frozen=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown option 'offload_copy'"):
        Options.of(offload_copy=True)


def test_the_oldest_lengths_are_forgotten() -> None:
    torch._dynamo.reset()
    seen: list[tuple[int, ...]] = []
    model = torch.compile(
        nn.ReLU().eval(), backend="migraphx", dynamic=True, options={"target": "ref", "max_specialisations": 2}
    )
    target = type(migraphx.get_target("ref"))
    compile_ = target.compile

    def noted(self: Any, p: Any, o: Any) -> Any:
        seen.append(next(iter(p.main.parameters.values())).shape.lens)
        return compile_(self, p, o)

    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "compile", noted)
        for n in (3, 4, 3, 5, 4):  # 3 was used after 4, which is forgotten when 5 comes
            model(torch.randn(n, 4))
    assert seen == [(3, 4), (4, 4), (5, 4), (4, 4)]


def test_a_saved_module_keeps_its_options() -> None:
    fast = lower_to_mgx(nn.ReLU().eval(), [X], target="ref", **GIVEN)
    (module,) = [m for m in fast.modules() if isinstance(m, MGXModule)]
    again = MGXModule()
    again.load_state_dict(module.state_dict())
    assert again.options == module.options == migraphx.CompileOptions(offload_copy=False, **GIVEN)
