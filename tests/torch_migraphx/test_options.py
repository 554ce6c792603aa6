"""Every option of a compilation can be given from torch, by each way in."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch
from torch import fx, nn

import migraphx
from torch_migraphx import Options, log
from torch_migraphx.fx import MGXModule, lower_to_mgx
from torch_migraphx.fx.utils import LowerPrecision
from torch_migraphx.options import LoweringKeywords, ModuleKeywords

X = torch.randn(2, 4)
GIVEN: dict[str, Any] = {"fast_math": False, "num_threads": 3, "max_specialisations": 7}


def through_lowering(model: nn.Module, **options: Any) -> None:
    options.setdefault("target", "ref")
    lower_to_mgx(model, [X], **options)


def through_compile(model: nn.Module, **options: Any) -> None:
    torch.compile(model, backend="migraphx", options={"target": "ref", **options})(X)


def through_module(model: nn.Module, **options: Any) -> None:
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(type="float", lens=[2, 4]))
    m.add_return([m.add_instruction(migraphx.op("relu"), [x])])
    MGXModule(p, ["x"], ["y"], target=options.pop("target", "ref"), **options)


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
    elsewhere = {"offload_copy", *inspect.signature(lower_to_mgx).parameters}
    elsewhere |= {f.name for f in fields(Options) if f.metadata.get("compile_only")}
    assert get_type_hints(LoweringKeywords).items() == {(n, t) for n, t in hints.items() if n not in elsewhere}
    engine, named = get_type_hints(migraphx.CompileOptions), {"offload_copy", *inspect.signature(MGXModule).parameters}
    assert get_type_hints(ModuleKeywords).items() == {(n, t) for n, t in engine.items() if n not in named}
    assert all(f.metadata["help"] for f in fields(Options) if f.init)


@pytest.mark.parametrize("name", ["frozen", "use_aot", "deallocate", "save_compiled", "load_compiled"])
def test_what_only_torch_compile_takes(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name} is an option of torch\.compile"):
        lower_to_mgx(nn.ReLU(), [X], **{name: getattr(Options, name)})
    with pytest.raises(TypeError, match="unknown option 'offload_copy'"):
        Options.of(offload_copy=True)


@pytest.mark.parametrize("way", [through_lowering, through_compile])
def test_weights_of_four_bits(way: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    target = type(migraphx.get_target("ref"))
    compile_ = target.compile

    def compile(self: Any, p: Any, o: migraphx.CompileOptions) -> Any:
        seen.append([i.name for i in p.main])
        return compile_(self, p, o)

    monkeypatch.setattr(target, "compile", compile)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3)).eval()
    with torch.no_grad():
        way(model, int4_weights=True)
    assert len(seen) == 1 and seen[0].count("unpack_int4") == 1  # a depth of 4 holds no whole block


def test_the_options_of_torch_migraphx() -> None:
    """Its names are ours, or mean values of ours; its defaults too."""
    given = {"verbose": True, "fp16": True, "bf16": False, "save_mxr": True, "deallocate": True, "use_aot": True}
    wanted = Options(
        verbose_log=True, lower_precision="fp16", save_subgraph_programs=True, deallocate=True, use_aot=True
    )
    assert Options.of(**given, exhaustive_tune=False) == wanted
    assert Options.of(bf16=True).lower_precision == "bf16" and Options.of(fp16=False) == Options()
    assert Options.of(lower_precision=LowerPrecision.BF16).lower_precision == "bf16"
    assert Options.of(save_compiled=Path("a.pt")).save_compiled == "a.pt"
    with pytest.raises(ValueError, match="'bf16' means lower_precision='bf16', but 'fp16' is given too"):
        Options.of(fp16=True, bf16=True)
    with pytest.raises(TypeError, match="option 'fp16' must be True or False"):
        Options.of(fp16="yes")
    with pytest.raises(ValueError, match="lower_precision"):
        lower_to_mgx(nn.ReLU(), [X], LowerPrecision.INT8)


def test_positional_arguments_of_torch_migraphx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).eval()
    half = lower_to_mgx(model, [X], LowerPrecision.FP16, 1, True, False, False, True, fx.Tracer, None, target="ref")
    assert [p.name for p in tmp_path.iterdir()] == ["mgx_0.mxr"]
    with torch.no_grad():
        assert 0 < (half(X) - model(X)).abs().max() < 1e-2


def test_levels_of_logging_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = {logging.getLogger(n): logging.getLogger(n).level for names in log.LOGGERS.values() for n in names}
    monkeypatch.setattr(log.ROOT, "handlers", [])
    monkeypatch.setattr(log.ROOT, "propagate", False)
    try:
        log.set_levels({"TORCH_MIGRAPHX_LOG_FX_LOWER": ""})
        assert not log.ROOT.handlers
        log.set_levels({"TORCH_MIGRAPHX_LOG_FX_LOWER": "info"})
        assert logging.getLogger("torch_migraphx.fx.lower").level == logging.INFO and len(log.ROOT.handlers) == 1
        with pytest.raises(ValueError, match="TORCH_MIGRAPHX_LOGLEVEL=LOUD is no level of logging"):
            log.set_levels({"TORCH_MIGRAPHX_LOGLEVEL": "loud"})
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


@pytest.mark.parametrize("verbose", [True, False])
def test_verbose_goes_to_stderr(
    verbose: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log.ROOT, "propagate", False)  # as where nobody has set up logging
    lower_to_mgx(nn.ReLU(), [X], target="ref", verbose_log=verbose)
    assert ("became relu -> float_type" in capsys.readouterr().err) == verbose
    assert not log.ROOT.handlers and log.ROOT.level == logging.NOTSET


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
