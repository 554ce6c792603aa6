"""lower_to_mgx: both tracers, what falls back, the accuracy gate, the caller's model left alone."""

import copy
import gc
import logging
import pickle
import sys

import pytest
import torch
from torch import fx, nn
from torch.multiprocessing.reductions import StorageWeakRef

import migraphx
import torch_migraphx
from tests.tolerances import assert_close
from torch_migraphx.fx import MGXInterpreter, MGXModule, lower_to_mgx
from torch_migraphx.fx.converter_registry import CONVERTERS
from torch_migraphx.fx.fx2mgx import UnsupportedNodes
from torch_migraphx.fx.lower_graph import FallbackError
from torch_migraphx.fx.tools.accuracy import AccuracyError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops
from torch_migraphx.options import Options


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 5)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(self.drop(x.mean((2, 3))))


X = torch.randn(2, 3, 8, 8)


def pieces(module):
    return [m for m in module.modules() if isinstance(m, MGXModule)]


@pytest.mark.parametrize("use_aten", [False, True])
def test_whole_graph(use_aten, caplog):
    model = Net().eval()
    with caplog.at_level(logging.WARNING):
        fast = lower_to_mgx(model, [X], target="ref", use_aten=use_aten)
    assert len(pieces(fast)) == 1 and not caplog.records
    with torch.no_grad():
        assert_close(fast(X).numpy(), model(X).numpy(), scale=8)


def test_a_model_in_training_mode_is_compiled_as_eval_would_run():
    model = Net().train()
    before = copy.deepcopy(model.state_dict())
    fast = lower_to_mgx(model, [X], target="ref")
    assert model.training and model.drop.training
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))
    with torch.no_grad():
        assert_close(fast(X).numpy(), copy.deepcopy(model).eval()(X).numpy(), scale=8)


class Odd(nn.Module):
    """`airy_ai` has no converter."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = x + torch.special.airy_ai(x)
        return self.last(x), x.shape[0]


@pytest.mark.parametrize("use_aten", [False, True])
def test_few_pieces_and_a_line_for_each(use_aten, caplog):
    model, x = Odd().eval(), torch.randn(4, 4)
    with caplog.at_level(logging.INFO):
        fast = lower_to_mgx(model, [x], target="ref", use_aten=use_aten)
    assert len(pieces(fast)) == 2 and not list(fast.parameters())
    lines = [r for r in caplog.records if r.message.startswith("OpenMGX: piece")]
    assert len(lines) == 3 and [r.levelno for r in lines].count(logging.WARNING) == 1
    (odd,) = [r.message for r in lines if "runs in torch" in r.message]
    assert "piece 2 of 3 of Odd" in odd and "airy_ai" in odd and "test_lower.py" in odd and "no" in odd
    with torch.no_grad():
        got, want = fast(x), model(x)
    assert got[1] == want[1]
    assert_close(got[0].numpy(), want[0].numpy(), scale=50)


def test_small_pieces_are_not_worth_it(caplog):
    class Small(nn.Module):
        def forward(self, x):
            return torch.special.airy_ai(x + 1) * 2

    x = torch.randn(3, 3)
    fast = lower_to_mgx(Small(), [x], target="ref")
    assert not pieces(fast)
    assert len(pieces(lower_to_mgx(Small(), [x], target="ref", min_acc_module_size=1))) == 2
    assert torch.allclose(fast(x), Small()(x))


def test_what_the_symbolic_tracer_cannot_follow(caplog):
    class Views(nn.Module):
        def forward(self, x):
            y = x * 2
            y.view(-1)[1:3].mul_(10)
            return y + 1

    x = torch.randn(3, 3)
    with caplog.at_level(logging.WARNING):
        fast = lower_to_mgx(Views(), [x], target="ref")
    assert len([r for r in caplog.records if "torch.export instead" in r.message]) == 1
    assert torch.allclose(fast(x), Views()(x))


def test_control_flow_on_data_names_the_line():
    class Branch(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(RuntimeError, match=r"test_lower\.py"):
        lower_to_mgx(Branch(), [torch.randn(3)], target="ref")


def test_leaf_modules_that_depend_on_data_stay_in_torch():
    class Leaf(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x * 3

    model, x = nn.Sequential(nn.Linear(4, 4), Leaf(), nn.Tanh()), torch.randn(2, 4)
    fast = lower_to_mgx(model, [x], target="ref", leaf_modules=[Leaf])
    assert len(pieces(fast)) == 1 and any(isinstance(m, Leaf) for m in fast.modules())

    class Tracer(fx.Tracer):
        def is_leaf_module(self, m, name):
            return isinstance(m, Leaf)

    assert len(pieces(lower_to_mgx(model, [x], target="ref", tracer_base_cls=Tracer))) == 1


@pytest.mark.usefixtures("own_objects")
def test_weights_are_there_once():
    """What the target packed is given back, what runs in torch keeps its own; the answer stays."""

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(16, 24), nn.Linear(24, 8)

        def forward(self, x):
            return self.second(self.first(x).relu()).sum(0)

    model, x = Part().eval(), torch.randn(3, 16)
    with torch.no_grad():
        want = model(x)
    weight = StorageWeakRef(model.first.weight.untyped_storage())
    fast = lower_to_mgx(model, [x], release_weights=True)
    gc.collect()
    assert weight.expired() and all(p.is_meta for p in model.parameters())
    assert_close(fast(x).numpy(), want.numpy(), scale=8)
    with pytest.raises(RuntimeError, match="instructions were released"):
        pickle.dumps(fast)
    with pytest.raises(NotImplementedError, match="weight 'first\\.weight' on meta"):
        lower_to_mgx(model, [x])
    with pytest.raises(ValueError, match="a function is no"):
        lower_to_mgx(lambda x: x + 1, [x], release_weights=True)

    model = Part().eval()
    with torch.no_grad():
        want = model(x)
    cut = lower_to_mgx(model, [x], target="ref", leaf_modules=[nn.Linear], release_weights=True, use_aten=False)
    assert_close(cut(x).detach().numpy(), want.numpy(), scale=8)
    assert not any(p.is_meta for p in cut.parameters())


def test_the_gate_can_fail(monkeypatch):
    class Wrong(nn.Module):
        def forward(self, x):
            return {"good": x + 1, "bad": torch.relu(x)}

    x = torch.randn(3, 4)
    good = lower_to_mgx(Wrong(), [x], target="ref")
    assert torch.equal(good(x)["bad"], torch.relu(x))
    module = sys.modules["torch_migraphx.fx.lower"]
    real = module.lower

    def spoilt(gm, inputs, options):
        made = real(gm, inputs, options)
        return fx.GraphModule(made, _scaled(made.graph))

    def _scaled(graph):
        output = graph.output_node()
        with graph.inserting_before(output):
            bad = graph.call_function(torch.mul, (output.args[0]["bad"], 1.01))
        output.args = ({**output.args[0], "bad": bad},)
        return graph

    monkeypatch.setattr(module, "lower", spoilt)
    with pytest.raises(AccuracyError, match=r"output \['bad'\] is off by 0.01"):
        lower_to_mgx(Wrong(), [x], target="ref")
    lower_to_mgx(Wrong(), [x], target="ref", suppress_accuracy_check=True)


def test_saved_programs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lower_to_mgx(nn.Linear(4, 4), [torch.randn(2, 4)], target="ref", save_subgraph_programs=True)
    assert [p.name for p in tmp_path.iterdir()] == ["mgx_0.mxr"]


def test_pickle_and_deepcopy():
    fast = lower_to_mgx(Odd().eval(), [torch.randn(4, 4)], target="ref")
    x = torch.randn(4, 4)
    for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert torch.equal(other(x)[0], fast(x)[0])


def test_options_and_devices():
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    with pytest.raises(ValueError, match="lower_precision"):
        lower_to_mgx(model, [x], lower_precision="fp12")
    with pytest.raises(ValueError, match="'fallback' must be 'torch' or 'error'"):
        lower_to_mgx(model, [x], fallback="eager")
    with pytest.raises(NotImplementedError, match="meta"):
        lower_to_mgx(nn.Linear(4, 4, device="meta"), [x])
    with pytest.raises(TypeError, match="did you mean 'lower_precision'"):
        Options.of(lower_precison="fp16")
    assert torch_migraphx.Options().beside([x]).target == "cpu"


@pytest.mark.parametrize("target", ["cppu", "CPU"])
def test_an_unknown_target_is_an_error_at_once(target):
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    for call in (
        lambda: lower_to_mgx(model, [x], target=target),
        lambda: MGXModule(target=target),
        lambda: migraphx.get_target(target),
        lambda: torch_migraphx.Options(target=target),
    ):
        with pytest.raises(ValueError, match="did you mean 'cpu'"):
            call()


def test_what_would_run_in_torch_as_one_error():
    class Both(nn.Module):
        def forward(self, x):
            return torch.special.airy_ai(x @ x.T) + torch.geqrf(x)[0].relu(), (x > 0).mode(0)

    x = torch.randn(4, 4)
    with pytest.raises(FallbackError, match="3 of 11 nodes would run in torch") as raised:
        lower_to_mgx(Both(), [x], target="ref", fallback="error")
    text = str(raised.value)
    assert all(name in text for name in ("airy_ai", "geqrf", "mode", "test_lower.py", "has no"))
    assert "relu" not in text
    assert lower_to_mgx(Net().eval(), [X], target="ref", fallback="error")(X).shape == (2, 5)


def test_the_reason_is_the_real_one(caplog):
    class Spectrum(nn.Module):
        def forward(self, x):
            return torch.view_as_real(torch.linalg.eigvals(x + 1j * x) * 2)

    with caplog.at_level(logging.WARNING):
        lower_to_mgx(Spectrum(), [torch.randn(3, 3)], target="ref")
    assert "torch.complex64, a type that the engine does not have" in caplog.text
    assert "depends on data" not in caplog.text


def test_unsupported_nodes_are_listed_before_conversion():
    def fn(x):
        return torch.special.airy_ai(torch.geqrf(x)[0])

    graph = fx.symbolic_trace(fn)
    interpreter = MGXInterpreter(graph, [torch.rand(3)])
    with pytest.raises(UnsupportedNodes, match="2 nodes") as raised:
        interpreter.run()
    assert "geqrf" in str(raised.value) and "airy_ai" in str(raised.value)


def test_returned_inputs_and_weights():
    class Pass(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(3))

        def forward(self, x, y):
            return x, self.w, (x + y, [y])

    x, y = torch.randn(3), torch.randn(3)
    fast = lower_to_mgx(Pass(), [x, y], target="ref")
    a, w, (b, (c,)) = fast(x, y)
    assert a is x and c is y and torch.equal(b, x + y) and len(w) == 3


def test_verbose_log_has_a_line_for_each_node(caplog):
    with caplog.at_level(logging.INFO):
        lower_to_mgx(Net().eval(), [X], target="ref", verbose_log=True)
    lines = [r.message for r in caplog.records if " became " in r.message]
    (conv,) = [m for m in lines if m.startswith("OpenMGX: %conv2d")]
    assert "acc_ops.conv2d" in conv and "test_lower.py" in conv and "became convolution" in conv
    assert conv.endswith("-> float_type, {2, 8, 6, 6}, {288, 36, 6, 1}")
    assert any("%head_weight = constant head.weight" in m and "became @literal -> float" in m for m in lines)
    caplog.clear()
    lower_to_mgx(Net().eval(), [X], target="ref")
    assert not [r for r in caplog.records if " became " in r.message]
    with caplog.at_level(logging.INFO):
        lower_to_mgx(Odd().eval(), [torch.randn(4, 4)], target="ref", verbose_log=True)
    assert [r for r in caplog.records if "airy_ai" in r.message and "is not converted: " in r.message]


@pytest.mark.parametrize("error", [NotImplementedError("by intent"), KeyError("a bug")])
def test_a_bug_in_a_converter_is_visible(error, monkeypatch, caplog):
    def broken(b, args, kwargs):
        raise error

    monkeypatch.setitem(CONVERTERS, acc_ops.relu, broken)
    model = Net().eval()
    with caplog.at_level(logging.WARNING):
        fast = lower_to_mgx(model, [X], target="ref")
    with torch.no_grad():
        assert_close(fast(X).numpy(), model(X).numpy(), scale=8)
    tracebacks = [r for r in caplog.records if r.exc_info]
    if isinstance(error, KeyError):
        assert len(tracebacks) == 1 and "a bug in the conversion of %relu" in tracebacks[0].message
    else:
        assert not tracebacks
    assert "acc_ops.relu" in caplog.text and str(error) in caplog.text


def test_copies_that_functionalization_makes():
    class Copies(nn.Module):
        def forward(self, x, y):
            return torch.ops.aten.copy(x, y), torch.ops.aten.zero(x)

    x, y = torch.randn(3, 4), torch.arange(4)
    fast = lower_to_mgx(Copies(), [x, y], target="ref", use_aten=True, min_acc_module_size=1)
    assert len(pieces(fast)) == 1
    copied, zeros = fast(x, y)
    assert copied.dtype == x.dtype and torch.equal(copied, y.float().expand(3, 4)) and not zeros.any()


@pytest.mark.parametrize("use_aten", [False, True])
def test_only_what_depends_on_vectors_may_have_another_sign(use_aten, monkeypatch, caplog):
    module = sys.modules["torch_migraphx.fx.lower"]
    monkeypatch.setattr(module, "difference", lambda g, w: 1.0)

    def forward(x):
        values, vectors = torch.linalg.eigh(x @ x.mT)
        _, singular, right = torch.linalg.svd(x, full_matrices=False)
        return values, vectors.abs() + 1, singular * 2, {"right": right}, x + 1

    with pytest.raises(AccuracyError) as raised:
        lower_to_mgx(forward, [torch.randn(3, 3)], target="ref", use_aten=use_aten)
    for output, of_vectors in (("[0]", 0), ("[1]", 1), ("[2]", 0), ("[3]['right']", 1), ("[4]", 0)):
        assert (f"output {output} is off" in caplog.text, f"output {output} is off" in str(raised.value)) == (
            of_vectors, not of_vectors,
        )  # fmt: skip
