"""`torch_migraphx.explain` and the option `report`: the notebook on backends, for any model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch._decomp import decomposition_table

import migraphx
import torch_migraphx
from tests.torch_migraphx.report.reading import read_page
from torch_migraphx.fx import MGXModule, lower_to_mgx
from torch_migraphx.fx.graph_lines import compiled_graph, weight_name
from torch_migraphx.report.data import Graph, Line, Stage

STAGES = [
    "Torch IR", "ATen, joint", "ATen, inference", "Core ATen", "Prims",
    "Converted graph", "Engine program", "After the passes",
]  # fmt: skip
X = torch.randn(8, 32)


@torch.library.custom_op("openmgx_tests::unheard_of", mutates_args=())
def unheard_of(x: torch.Tensor) -> torch.Tensor:
    """An operator that has no converter, whatever is added."""
    return x * 2


unheard_of.register_fake(torch.empty_like)


class MLP(nn.Module):
    """The notebook's."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(32, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc1(x)
        x = torch.nn.functional.gelu(x)
        return x  # noqa: RET504


class Broken(MLP):
    """One that needs torch, and is two graphs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = unheard_of(self.fc1(x))
        torch._dynamo.graph_break()
        return x @ x.T


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def line_of(function: Callable[..., Any], code: str) -> str:
    """The origin of the line of a function that has this code."""
    made = function.__code__
    source = Path(made.co_filename).read_text().splitlines()
    number = next(n for n in range(made.co_firstlineno, len(source)) if code in source[n - 1])
    return f"{made.co_filename}:{number} in {made.co_name}"


def stage(graph: Graph, name: str) -> Stage:
    return next(s for s in graph.stages if s.name == name)


def called(lines: tuple[Line, ...]) -> list[str]:
    """What the nodes call, without inputs and outputs."""
    found = [re.fullmatch(r"\S+?(?:: [^=]*)? = ([\w.]+)[(\[].*", n.text, re.DOTALL) for n in lines if not n.leaf]
    return [match[1] for match in found if match]


@pytest.fixture(scope="module")
def mlp() -> torch_migraphx.Report:
    return torch_migraphx.explain(MLP(), [X], target="ref")


def test_the_stages_are_those_of_the_notebook(mlp: torch_migraphx.Report) -> None:
    (graph,) = mlp.content.graphs
    assert [s.name for s in graph.stages] == STAGES and not any(s.missing for s in graph.stages)
    assert called(stage(graph, "Torch IR").lines) == ["nn.linear", "nn.gelu"]
    inference = ["aten.t.default", "aten.addmm.default", "aten.gelu.default"]
    assert called(stage(graph, "ATen, inference").lines) == inference
    joint = called(stage(graph, "ATen, joint").lines)
    assert joint[:3] == inference and "aten.gelu_backward.default" in joint
    assert called(stage(graph, "Core ATen").lines) == ["aten.permute.default", *inference[1:]]
    prims = called(stage(graph, "Prims").lines)
    assert {"prims.broadcast_in_dim.default", "prims.erf.default"} <= set(prims)
    assert {name.split(".")[0] for name in prims} == {"prims", "aten"} and prims.count("aten.mm.default") == 1
    assert called(stage(graph, "Converted graph").lines) == ["acc_ops.linear", "acc_ops.gelu"]
    program = called(stage(graph, "Engine program").lines)
    assert program.count("dot") == 1 and program.count("erf") == 1


@pytest.mark.slow
def test_what_torch_pads_by_writing_is_taken_apart_too() -> None:
    report = torch_migraphx.explain(nn.Sequential(nn.MaxPool2d(3, 2, 1)), [torch.randn(1, 2, 8, 8)], target="ref")
    (graph,) = report.content.graphs
    prims = stage(graph, "Prims")
    assert not prims.missing
    taken_apart = torch.ops.aten.max_pool2d_with_indices.default in decomposition_table  # not by torch 2.11
    assert ("aten.constant_pad_nd.default" in called(prims.lines)) == taken_apart


def test_every_node_names_its_line_of_python(mlp: torch_migraphx.Report) -> None:
    (graph,) = mlp.content.graphs
    first, second = (line_of(MLP.forward, code) for code in ("self.fc1(x)", "gelu(x)"))
    assert list(graph.places) == [first, second]
    assert [p.code for p in graph.places.values()] == ["x = self.fc1(x)", "x = torch.nn.functional.gelu(x)"]
    wanted = {"linear": first, "addmm": first, "mm": first, "dot": first, "gelu": second, "erf": second}
    for s in graph.stages:
        for n in s.lines:
            name = (called((n,)) or [""])[0].removesuffix(".default").rpartition(".")[2]
            if name in wanted:
                assert n.origins == (wanted[name],), (s.name, n.text)


def test_kernels_cost_what_they_compute(mlp: torch_migraphx.Report) -> None:
    (graph,) = mlp.content.graphs
    (dot,) = [k for k in graph.kernels if k.name == "dot"]
    assert dot.flops == 2 * 8 * 32 * 64 and dot.bytes == 4 * (8 * 32 + 32 * 64 + 8 * 64)
    assert graph.flops == sum(k.flops for k in graph.kernels) > dot.flops
    assert (graph.nodes, graph.in_torch, graph.target) == (2, (), "ref")


def test_text_page_and_data_agree(mlp: torch_migraphx.Report, tmp_path: Path) -> None:
    mlp.save(tmp_path / "page.html")
    found = read_page((tmp_path / "page.html").read_text(encoding="utf-8"))
    (graph,) = mlp.content.graphs
    for n in [n for s in graph.stages for n in s.lines] + [p for k in graph.kernels for p in k.parts]:
        assert n.text in found.text and n.text in str(mlp)
    assert found.every("h1")[0].text == "MLP" and str(mlp).startswith("MLP\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "page.html"]
    assert "<iframe srcdoc=" in mlp._repr_html_()


@pytest.mark.slow
def test_fused_kernels_name_every_line_that_they_compute() -> None:
    (graph,) = torch_migraphx.explain(MLP(), X, target="cpu").content.graphs
    (kernel,) = graph.kernels
    assert set(kernel.origins) == set(graph.places) and {p.text for p in kernel.parts} >= {"dot", "erf"}
    assert kernel.flops > 2 * 8 * 32 * 64 and kernel.bytes >= 4 * (8 * 32 + 32 * 64 + 8 * 64)
    assert any(line.text == kernel.text for line in stage(graph, "After the passes").lines)


@pytest.mark.slow
def test_what_falls_back_and_why_and_where_dynamo_ends_a_graph() -> None:
    report = torch_migraphx.explain(Broken(), [X], target="ref", min_acc_module_size=1)
    first, second = report.content.graphs
    (fallen,) = first.in_torch
    origin = line_of(Broken.forward, "unheard_of(")
    assert fallen.in_torch == "openmgx_tests.unheard_of.default has no converter" and fallen.origins == (origin,)
    assert fallen in stage(first, "Converted graph").lines
    assert [k.name for k in first.kernels] == ["dot", "add"] and first.nodes - len(first.in_torch) >= 1
    assert first.ends is not None and first.ends.origins == (line_of(Broken.forward, "graph_break()"),)
    assert second.ends is None and not second.in_torch and [k.name for k in second.kernels] == ["dot"]
    found = read_page(report.html())
    (section,) = found.every("section", id="g0-torch")
    assert fallen.in_torch in section.text and fallen.text in section.text


def test_too_little_for_a_piece_of_its_own_is_said() -> None:
    class Little(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return unheard_of(x.relu())

    (graph,) = torch_migraphx.explain(Little(), [X], target="ref").content.graphs
    little, unknown = graph.in_torch
    assert "relu" in little.text and little.in_torch == "too little for a piece of its own in the engine"
    assert "unheard_of" in unknown.text and not graph.kernels


def test_no_joint_graph_where_nothing_needs_a_gradient() -> None:
    (graph,) = torch_migraphx.explain(torch.relu, [X], target="ref").content.graphs
    joint = stage(graph, "ATen, joint")
    assert joint.missing == "no input and no weight needs a gradient" and not joint.lines


@pytest.mark.slow
def test_explaining_is_without_traces() -> None:
    """Neither the model nor the sequence of random numbers changes, and the next call's lengths are no symbols."""
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout())
    state = {name: value.clone() for name, value in model.eval().state_dict().items()}
    torch.manual_seed(3)
    drawn = torch.rand(2)
    torch.manual_seed(3)
    for rows in (2, 3):
        (graph,) = torch_migraphx.explain(model, [torch.zeros(rows, 4)], target="ref").content.graphs
        assert graph.inputs.startswith(f"float32[{rows}, 4]")
    assert torch.equal(torch.rand(2), drawn)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_models_of_code_that_is_no_module() -> None:
    """Of a document's block, say."""
    code = (
        "from torch import nn\n"
        "class Squared(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return nn.functional.relu(x) ** 2\n"
    )
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(code, space)
    (graph,) = torch_migraphx.explain(space["Squared"](), [X], target="ref").content.graphs
    assert graph.nodes == 2 and not graph.in_torch


def test_keywords_and_errors() -> None:
    def scaled(x: torch.Tensor, *, by: float) -> torch.Tensor:
        return x * by

    report = torch_migraphx.explain(scaled, [X], kwargs={"by": 3.0}, target="ref")
    assert report.content.title == "scaled" and len(report.content.graphs) == 1
    with pytest.raises(TypeError, match="unknown option 'tarket'; did you mean 'target'"):
        torch_migraphx.explain(scaled, [X], tarket="ref")
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'by'"):
        torch_migraphx.explain(scaled, [X], target="ref")


# ---- the option


def test_torch_compile_writes_a_page_with_every_graph(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    options: dict[str, Any] = {"target": "ref", "report": str(path)}
    model = torch.compile(Broken(), backend="migraphx", options=dict(options))
    with torch.no_grad():
        model(X)
    sections = read_page(path.read_text(encoding="utf-8")).every("section", class_="graph")
    assert [s.every("h2")[0].text for s in sections] == ["Graph 1", "Graph 2"]
    other = torch.compile(nn.ReLU(), backend="migraphx", options=dict(options))
    other(X)
    assert len(read_page(path.read_text(encoding="utf-8")).every("section", class_="graph")) == 1


def test_other_lengths_are_one_more_entry() -> None:
    report = torch_migraphx.Report("lengths")
    options: dict[str, Any] = {"target": "ref", "report": report}
    model = torch.compile(MLP(), backend="migraphx", dynamic=True, options=options)
    with torch.no_grad():
        model(X)
        model(X[:5])
    first, second = report.content.graphs
    assert "[s" in stage(first, "Torch IR").lines[-2].text and "float32[8, 64]" in stage(first, "Prims").lines[-2].text
    assert [s.name for s in second.stages] == STAGES[5:] and "float32[5, 32]" in second.inputs
    assert second.name == f"Graph 1, for {second.inputs}"


def test_weights_that_changed_do_not_make_another_entry() -> None:
    report, net = torch_migraphx.Report(), MLP()
    options: dict[str, Any] = {"target": "ref", "report": report}
    model = torch.compile(net, backend="migraphx", options=options)
    with torch.no_grad():
        model(X)
        net.fc1.weight.mul_(2)
        model(X)
    (graph,) = report.content.graphs
    assert [s.name for s in graph.stages] == STAGES


@pytest.mark.slow
def test_a_graph_for_training_says_where_the_backward_runs() -> None:
    report = torch_migraphx.Report()
    options: dict[str, Any] = {"target": "ref", "report": report}
    model = torch.compile(MLP(), backend="migraphx", options=options)
    model(X).sum().backward()
    (graph,) = report.content.graphs
    (why,) = graph.whole_in_torch
    assert why.startswith("gradients are computed by torch") and why in str(report) and graph.kernels


def test_lowering_fills_a_report_too(tmp_path: Path) -> None:
    lower_to_mgx(MLP(), [X], target="ref", report=tmp_path / "page.html")
    (section,) = read_page((tmp_path / "page.html").read_text(encoding="utf-8")).every("section", class_="graph")
    assert [h.text for h in section.every("h3")][1:4] == [f"{k} {name}" for k, name in enumerate(STAGES[5:], 1)]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (3, TypeError, "option 'report' must be a path or a torch_migraphx.Report, got 3"),
        ("page.txt", ValueError, "option 'report' must be the path of an .html file, got 'page.txt'"),
    ],
)
def test_wrong_reports_are_errors(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        torch_migraphx.Options(report=given)
    with pytest.raises(error, match=re.escape(message)):
        lower_to_mgx(MLP(), [X], target="ref", report=given)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("l_self_modules_blocks_modules_0_modules_norm_parameters_weight_", "blocks.0.norm.weight"),
        ("l_model_modules_bn_buffers_running_mean_", "bn.running_mean"),
        ("L_self_parameters_scale_", "scale"),
        ("l_x_", "l_x_"),
    ],
)
def test_weights_have_the_names_of_the_model(name: str, want: str) -> None:
    assert weight_name(name) == want


def test_a_program_with_dynamic_shapes_says_that_it_has_no_one_optimised_form() -> None:
    program = migraphx.program()
    main = program.get_main_module()
    rows = [migraphx.shape.dynamic_dimension(1, 4), migraphx.shape.dynamic_dimension(3, 3)]
    x = main.add_parameter("x", migraphx.shape(type="float", dyn_dims=rows))
    main.add_return([main.add_instruction(migraphx.op("relu"), [x])])
    root = nn.Module()
    root.add_module("mgx_0", MGXModule())
    root.mgx_0.program = program  # type: ignore[assignment,union-attr]
    program.compile(migraphx.get_target("ref"), offload_copy=False)
    gm = fx.symbolic_trace(nn.ReLU())
    graph = compiled_graph(gm, (), {}, root, torch_migraphx.Options(target="ref"), "?")
    assert "relu(x)" in stage(graph, "Engine program").lines[-2].text
    assert stage(graph, "After the passes").missing.startswith("the program has dynamic shapes")
