"""Torch-MIGraphX's tools: splitter, minimizer, benchmark, ONNX files, a user's own converters, arguments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

import migraphx
import torch_migraphx.fx.tracer.acc_tracer.acc_tracer as acc_tracer
from torch_migraphx.fx import CONVERTERS, MGXInterpreter, MGXModule, lower_to_mgx, migraphx_converter
from torch_migraphx.fx.mgx_module import MGXInstruction
from torch_migraphx.fx.tools import mgx_benchmark, mgx_onnx
from torch_migraphx.fx.tools.mgx_minimizer import MGXMinimizer
from torch_migraphx.fx.tools.mgx_splitter import MGXSplitter, MGXSplitterSetting
from torch_migraphx.fx.tracer.acc_tracer import acc_ops
from torch_migraphx.fx.utils import (
    mgx_argument_from_tensor,
    mgx_program_from_bytearray,
    mgx_program_to_bytearray,
    tensor_from_mgx_argument,
    torch_dtype_from_mgx,
    torch_dtype_to_mgx,
)

X = torch.randn(4, 4)


class Halves(nn.Module):
    """The eigenvalues run in torch; what is before and behind them in the engine."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.second(torch.special.airy_ai(self.first(x)))) * 2


def on_ref(gm: Any, inputs: Any) -> MGXModule:
    interpreter = MGXInterpreter(gm, inputs)
    return MGXModule(interpreter.run(), interpreter.get_input_names(), target="ref")


def test_the_splitter_cuts_by_what_has_converters(capsys: pytest.CaptureFixture[str]) -> None:
    model = Halves().eval()
    settings = MGXSplitterSetting()
    settings.min_acc_module_size = 1
    splitter = MGXSplitter(acc_tracer.trace(model, [X]), [X], settings=settings)
    report = splitter.node_support_preview()
    assert report in capsys.readouterr().out
    supported, unsupported = report.split("Unsupported node types")
    assert "acc_ops.linear" in supported and "special_airy_ai" in unsupported
    result = splitter.generate_split_results()
    names = [name for name, _ in result.split_module.named_children()]
    assert names == ["_run_on_acc_0", "_run_via_torch_1", "_run_on_acc_2"]
    for name in ("_run_on_acc_0", "_run_on_acc_2"):
        setattr(result.split_module, name, on_ref(getattr(result.split_module, name), result.submodule_inputs[name]))
    with torch.no_grad():
        torch.testing.assert_close(result.split_module(X), model(X))


def test_the_minimizer_finds_the_node_that_differs() -> None:
    gm = acc_tracer.trace(nn.Sequential(nn.ReLU(), nn.Sigmoid(), nn.Tanh()), [X])

    def wrong(part: Any, inputs: Any) -> nn.Module:
        if any(n.target is acc_ops.sigmoid for n in part.graph.nodes):
            return nn.Sequential(on_ref(part, inputs), nn.Softplus())
        return on_ref(part, inputs)

    def compare(a: Any, b: Any, names: Any) -> tuple[float, bool]:
        error = float((a - b).abs().max())
        return error, error < 1e-4

    minimizer = MGXMinimizer(gm, (X,), compare, wrong)
    minimizer.settings.traverse_method = "sequential"
    assert [n.name for n in minimizer.minimize()] == ["sigmoid_1"]
    assert [n.name for n in minimizer.get_nodes()] == ["relu_1", "sigmoid_1", "tanh_1"]
    assert not MGXMinimizer(gm, (X,), compare, on_ref).minimize()


def test_the_benchmark_times_the_whole_and_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    lowered = lower_to_mgx(Halves().eval(), [X], min_acc_module_size=1, target="ref")
    results = mgx_benchmark.benchmark(lowered, [X], n=2)
    parts = [name for name, _ in lowered.named_children()]
    assert list(results.submod_timer_results) == parts and results.batch_size == 4
    assert results.full_mod_timer_result.mean > 0
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("whole model", *parts))
    with pytest.raises(ValueError, match=r"first lengths are \[4, 2\]"):
        mgx_benchmark.benchmark(lowered, [X, torch.ones(2)])


def test_print_subgraphs(capsys: pytest.CaptureFixture[str]) -> None:
    lowered = lower_to_mgx(Halves().eval(), [X], min_acc_module_size=1, target="ref")
    lowered.print_all_subgraphs()
    printed = capsys.readouterr().out
    assert printed.count("Submodule: ") == len(list(lowered.named_children()))
    assert "= dot(" in printed and "special_airy_ai" in printed


def test_an_onnx_file_is_a_module(tmp_path: Path) -> None:
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in ("a", "b", "y")]
    graph = helper.make_graph([helper.make_node("Sub", ["a", "b"], ["y"])], "g", value[:2], value[2:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "sub.onnx")
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    module = mgx_onnx.from_onnx(str(tmp_path / "sub.onnx"), target="ref")
    assert torch.equal(module(a, b), a - b)
    half = mgx_onnx.from_onnx(tmp_path / "sub.onnx", quantize_fp16=True, target="ref")
    assert half(a, b).dtype == torch.float32 and 0 < (half(a, b) - (a - b)).abs().max() < 1e-2


def test_outputs_have_names_of_their_own() -> None:
    interpreter = MGXInterpreter(acc_tracer.trace(nn.ReLU(), [X]), [X])
    module = MGXModule(interpreter.run(), interpreter.get_input_names(), target="ref")
    assert module.output_names == ("main:#output_0",)

    class Program:
        def get_parameter_names(self) -> list[str]:
            return ["main:#output_10", "x", "main:#output_2"]

    empty = MGXModule()
    empty.program, empty.input_names = Program(), ["x"]  # type: ignore[assignment]
    assert empty._infer_output_names() == ["main:#output_2", "main:#output_10"]


# ---- a user's own converters ----


class Scaled(nn.Module):
    factor = 3.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


@pytest.fixture
def registry() -> Iterator[None]:
    """Converters that a test registers are forgotten afterwards."""
    before = dict(CONVERTERS)
    yield
    CONVERTERS.clear()
    CONVERTERS.update(before)


@pytest.mark.usefixtures("registry")
def test_converters_with_upstreams_signature() -> None:
    @migraphx_converter(Scaled)
    def of_modules(mgx_module: Any, torch_mod: Any, node: Any, args: Any, kwargs: Any) -> MGXInstruction:
        (x,) = args
        assert isinstance(x, MGXInstruction) and x.torch_type() == torch.float32 and not x.is_quantized()
        factor = mgx_module.add_literal(torch.full(x.shape().lens(), torch_mod.factor).numpy())
        return MGXInstruction(mgx_module.add_instruction(migraphx.op("mul"), [x.instr_ref, factor]))

    @migraphx_converter(acc_ops.relu, min_migraphx_ver="2.12")
    def of_functions(mgx_module: Any, node: Any, args: Any, kwargs: Any) -> MGXInstruction:
        assert node.target is acc_ops.relu and not args
        return MGXInstruction(mgx_module.add_instruction(migraphx.op("abs"), [kwargs["input"].instr_ref]))

    @migraphx_converter(acc_ops.sigmoid, enabled=False)
    def never(*arguments: Any) -> Any:
        raise AssertionError

    model = nn.Sequential(Scaled(), nn.ReLU(), nn.Sigmoid())
    traced = acc_tracer.trace(model, [X], leaf_module_list={Scaled})
    torch.testing.assert_close(on_ref(traced, [X])(X), torch.sigmoid((X * 3).abs()))
    lowered = lower_to_mgx(
        model, [X], leaf_modules=[Scaled], suppress_accuracy_check=True, target="ref", fallback="error"
    )
    torch.testing.assert_close(lowered(X), torch.sigmoid((X * 3).abs()))


def test_types_arguments_and_programs_in_both_worlds() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        assert torch_dtype_from_mgx(torch_dtype_to_mgx(dtype)) is dtype
    assert torch_dtype_to_mgx(torch.half) == "half_type"
    with pytest.raises(ValueError, match="no type for 'fp8e4m3fn_type'"):
        torch_dtype_from_mgx("fp8e4m3fn_type")
    x = torch.randn(3, 2).t()
    argument = mgx_argument_from_tensor(x)
    assert tensor_from_mgx_argument(argument).data_ptr() == x.data_ptr()
    assert torch.equal(tensor_from_mgx_argument(argument, "cpu"), x)
    with pytest.raises(ValueError, match="lies on cpu, not on cuda"):
        tensor_from_mgx_argument(argument, torch.device("cuda"))
    program = MGXInterpreter(acc_tracer.trace(nn.ReLU(), [X]), [X]).run()
    assert mgx_program_from_bytearray(mgx_program_to_bytearray(program)) == program
