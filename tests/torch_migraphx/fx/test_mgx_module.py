"""MGXModule: inputs checked at each call, saved, copied, called from threads."""

import copy
import io
import multiprocessing
import pickle
import re
import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import migraphx
from tests.limits import HANG
from tests.tolerances import assert_close
from tests.torch_migraphx.fx import in_a_process
from torch_migraphx.fx import MGXInterpreter, MGXModule, lower_to_mgx
from torch_migraphx.fx.tracer.acc_tracer import acc_tracer


def module(fn, *inputs):
    class Model(nn.Module):
        def forward(self, *args):
            return fn(*args)

    traced = acc_tracer.trace(Model(), list(inputs))
    interpreter = MGXInterpreter(traced, list(inputs))
    interpreter.run()
    return MGXModule(interpreter.program, interpreter.get_input_names(), interpreter.get_output_names(), target="ref")


X, Y = torch.randn(3, 4), torch.randn(4)


class Empty(torch.Tensor):
    """A wrapper without memory."""

    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        raise NotImplementedError(func)

    def __repr__(self):
        return "Empty"


def freed():
    """A tensor whose memory was given back, as sharding does it."""
    x = X.clone()
    x.untyped_storage().resize_(0)
    return x


@pytest.fixture
def both():
    return module(lambda x, y: (x + y, x * y), X, Y)


def test_outputs_are_new_and_row_major(both):
    total, product = both(X, Y)
    assert torch.equal(total, X + Y) and torch.equal(product, X * Y)
    again, _ = both(X, Y)
    assert again.data_ptr() != total.data_ptr() and total.is_contiguous()


@pytest.mark.parametrize(
    ("inputs", "error", "match"),
    [
        ((X,), TypeError, "takes 2 inputs"),
        ((X, Y, Y), TypeError, "takes 2 inputs"),
        ((X, 3.0), TypeError, "must be a tensor"),
        ((X.double(), Y), TypeError, "float64"),
        ((X.t(), Y), ValueError, r"must be torch.float32 \[3, 4\]"),
        ((X[None], Y), ValueError, r"got torch.float32 \[1, 3, 4\]"),
        ((X.to_sparse(), Y), ValueError, "sparse"),
        ((X.to("meta"), Y), ValueError, "on meta"),
        ((freed(), Y), ValueError, "which has no memory"),
        ((Empty(X), Y), ValueError, "class Empty, which has operators of its own"),
        ((X.clone().requires_grad_(), Y), RuntimeError, "requires a gradient"),
    ],
)
def test_bad_inputs(both, inputs, error, match):
    """At the first call, and behind one that was right, which is remembered."""
    for _ in range(2):
        with pytest.raises(error, match=match):
            both(*inputs)
        both(X, Y)


def test_gradients_that_are_asked_for_later(both):
    x = X.clone().requires_grad_()
    with torch.no_grad():
        assert all(torch.equal(both(x, Y)[0], X + Y) for _ in range(2))
    with pytest.raises(RuntimeError, match="requires a gradient"):
        both(x, Y)


def test_strides_that_change_in_place(both):
    """The same object with the same address is read anew."""
    x = torch.randn(4, 3).t().contiguous()
    assert torch.equal(both(x, Y)[0], x + Y)
    x.data = torch.randn(4, 3).t()
    assert torch.equal(both(x, Y)[0], x + Y)


@pytest.fixture(scope="module")
def of_lengths():
    class Both(nn.Module):
        def forward(self, x, y):
            return x + y, x * y

    with torch.no_grad():
        return lower_to_mgx(Both(), [X, Y], dynamic_shapes=({0: {"min": 1, "max": 9}}, None), target="ref")


@pytest.mark.parametrize("lowered", ["both", "of_lengths"])
def test_tracers_would_keep_the_answer(lowered, request):
    """torch.jit.trace for every input, others the memory of the outputs, which nobody fills."""
    compiled = request.getfixturevalue(lowered)
    with pytest.raises(RuntimeError, match=r"torch\.jit\.trace cannot record a compiled program"):
        torch.jit.trace(compiled, (X, Y))
    with pytest.raises(RuntimeError, match=r"torch\.export cannot record a compiled program"):
        torch.export.export(compiled, (X, Y))
    with pytest.raises(RuntimeError, match=r"torch\.export cannot record a compiled program"):
        make_fx(compiled)(X, Y)


@pytest.mark.parametrize("lowered", ["both", "of_lengths"])
def test_tangents_are_not_lost(lowered, request):
    """Forward-mode differentiation takes an answer without a tangent for a constant."""
    compiled = request.getfixturevalue(lowered)
    with torch.no_grad(), forward_ad.dual_level():
        compiled(X, Y)
        with pytest.raises(RuntimeError, match="computes no tangents"):
            compiled(X, forward_ad.make_dual(Y, torch.ones(4)))
    with pytest.raises(RuntimeError, match="computes no tangents"):
        torch.func.jvp(lambda x: compiled(x, Y), (X,), (X,))


def test_a_model_with_a_compiled_part_is_lowered_by_the_road_that_exports_it():
    inner = lower_to_mgx(nn.ReLU(), [X], target="ref")
    model = nn.Sequential(nn.Tanh(), inner, nn.Sigmoid()).eval()
    with torch.no_grad():
        lowered = lower_to_mgx(model, [X], target="ref", use_aten=True)
        assert_close(lowered(X).numpy(), model(X).numpy())


@pytest.fixture
def holder():
    """A module whose second and third inputs are held, what runs it with the first, and those."""
    w, b = nn.Parameter(torch.randn(4)), torch.randn(4)
    m = module(lambda x, w, b: x * w + b, X, w.detach(), b)
    with torch.no_grad():
        return m, m.holding({1: w, 2: b}), w, b


def test_held_inputs_are_read_where_they_lie(holder):
    m, run, w, b = holder
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn_like(X)
            for given in (x, x.t().contiguous().t()):
                assert_close(run(None, [given]), x * w + b)
            w.mul_(2)
            b.add_(1)
        m.set_extra_state(m.get_extra_state())  # another program, compiled from the same
        assert_close(run(None, [X]), X * w + b)


@pytest.mark.parametrize("x", [torch.randn(4, 3), X.double(), None, torch.randn(3, 4).to_sparse()])
def test_bad_inputs_beside_held_ones(holder, x):
    m, run, w, b = holder
    with torch.no_grad():
        for _ in range(2):
            with pytest.raises((TypeError, ValueError)) as wanted:
                m(x, w, b)
            with pytest.raises(wanted.type, match=re.escape(str(wanted.value))):
                run(None, [x])
            assert_close(run(None, [X]), X * w + b)


def test_gradients_tangents_and_fakes_beside_held_inputs(holder):
    m, run, w, b = holder
    with torch.no_grad():
        run(None, [X])
    with pytest.raises(RuntimeError, match=r"input 1 .* requires a gradient"):
        run(None, [X])
    w.requires_grad_(False)
    for _ in range(2):
        with torch.no_grad(), forward_ad.dual_level(), pytest.raises(RuntimeError, match="tangent"):
            run(None, [forward_ad.make_dual(X, X)])
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        made = run(None, [mode.from_tensor(X)])
    assert isinstance(made, FakeTensor) and made.shape == X.shape
    assert m.holding({1: torch.randn(8)[::2], 2: b}) is None


def test_strided_views_are_accepted(both):
    for x in (
        torch.randn(4, 3).t(),
        torch.randn(6, 8)[::2, 1:5],
        torch.randn(1, 4).expand(3, 4),
        torch.randn(3, 4).flip(0),
    ):
        for y in (
            torch.randn(8)[::2],
            torch.randn(1).expand(4),
            torch.imag(torch.randn(4, dtype=torch.complex64).conj()),
        ):
            for _ in range(2):  # the second call remembers what the first had to copy
                assert torch.equal(both(x, y)[0], x + y)
            x = x.clone()  # other memory of the same strides
            assert torch.equal(both(x, y)[0], x + y)
            assert torch.equal(both(X, Y)[0], X + Y)


@pytest.mark.parametrize(
    ("sample", "where"),
    [
        (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), True),
        (torch.randn(2, 3, 4, 5).permute(3, 1, 0, 2), True),
        (torch.randn(2, 6, 4, 5)[:, ::2], False),
        (torch.randn(1, 3, 4, 5).expand(2, 3, 4, 5), False),
    ],
)
def test_samples_say_how_inputs_lie(sample, where, monkeypatch):
    """Inputs like the sample are read where they lie, if that is without gaps; others are copied, and as right."""
    fast, read = module(lambda x: x * 2, sample), []
    program: Any = fast.program
    run = program.run_at
    monkeypatch.setattr(program, "run_at", lambda inputs, *others: (read.extend(inputs), run(inputs, *others)))
    for x in (sample, sample.contiguous(), sample):
        out = fast(x)
        assert torch.equal(out, x * 2) and out.is_contiguous()
    assert (read[0] == read[2] == sample.data_ptr()) is where


def test_every_type():
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int32, torch.int64, torch.uint8):
        x = torch.arange(6).reshape(2, 3).to(dtype)
        assert torch.equal(module(lambda x: x + x, x)(x), x + x)
    x = torch.tensor([True, False])
    assert torch.equal(module(lambda x: ~x, x)(x), ~x)


def test_empty_and_zero_dimensional():
    x = torch.ones(0, 3)
    assert module(lambda x: x + 1, x)(x).shape == (0, 3)
    x = torch.tensor(2.0)
    assert module(lambda x: x * 3, x)(x).item() == 6.0


def test_unused_input():
    f = module(lambda x, y: x + 1, X, Y)
    assert torch.equal(f(X, Y), X + 1)


def test_pickle_deepcopy_and_state_dict(both):
    want = both(X, Y)
    stored = io.BytesIO()
    torch.save(both.state_dict(), stored)
    stored.seek(0)
    empty = MGXModule()
    empty.load_state_dict(torch.load(stored, weights_only=True))
    for other in (pickle.loads(pickle.dumps(both)), copy.deepcopy(both), empty, nn.Sequential(copy.deepcopy(both))[0]):
        assert other.input_names == both.input_names
        for g, w in zip(other(X, Y), want, strict=True):
            assert torch.equal(g, w)


@pytest.mark.slow
def test_a_spawned_process_takes_a_module():
    model = nn.Linear(4, 5).eval()
    lowered = lower_to_mgx(model, [X], target="cpu")
    child = multiprocessing.get_context("spawn").Process(target=in_a_process.run, args=(lowered, X, model(X).detach()))
    child.start()
    child.join(HANG)
    assert child.exitcode == 0


def test_an_empty_module_says_so():
    with pytest.raises(RuntimeError, match="empty"):
        MGXModule()(X)


def test_input_names_must_be_the_programs(both):
    program = both.program.clone()
    with pytest.raises(ValueError, match="input_names"):
        MGXModule(program, ["x"], target="ref")


def test_threads(both):
    failures = []

    def work(k):
        x = torch.full((3, 4), float(k))
        for _ in range(50):
            if not torch.equal(both(x, Y)[0], x + Y):
                failures.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_program_that_reads_other_strides(target):
    program = migraphx.program()
    main = program.get_main_module()
    x = main.add_parameter("x", migraphx.shape("float", [3, 4], [1, 3]))
    main.add_return([main.add_instruction(migraphx.op("add"), [x, x])])
    fast = MGXModule(program, ["x"], ["y"], target=target)
    for given in (X, X.t().contiguous().t(), torch.randn(6, 8)[::2, ::2]):
        assert torch.equal(fast(given), given + given)


def test_threads_are_those_that_torch_is_set_to(monkeypatch):
    """At every call, in whatever thread, also where the program was compiled under another setting."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        fast = copied_to_cpu(module(lambda x, y: x + y, X, Y))
        assert fast.program is not None
        executable: Any = fast.program.executable
        used, real = [], executable._call_native
        monkeypatch.setattr(executable, "_call_native", lambda *args: (used.append(args[2]), real(*args)))
        monkeypatch.setattr(executable, "threads", 4)
        for n in (1, 3, 2):
            torch.set_num_threads(n)
            assert torch.equal(fast(X, Y), X + Y)
            other = threading.Thread(target=fast, args=(X, Y))
            other.start()
            other.join()
            assert used[-2:] == [n, n]
    finally:
        torch.set_num_threads(before)


def copied_to_cpu(plain):
    return MGXModule(plain.program.clone(compiled=False), plain.input_names, plain.output_names, target="cpu")


class _Halved(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 2


def test_a_lowered_module_that_is_one_program_is_a_module_all_the_same() -> None:
    """Its call goes to the program at once, and still sees hooks, other forwards, other parts and an edited graph."""
    model, x, seen = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval(), torch.randn(2, 4), list[str]()
    lowered = lower_to_mgx(model, [x])
    want = model(x).detach()
    assert_close(lowered(x), want)
    assert_close(lowered(**{str(lowered.graph.find_nodes(op="placeholder")[0].target): x}), want)
    (name,) = [n for n, m in lowered.named_children() if isinstance(m, MGXModule)]
    program = lowered.get_submodule(name)
    for module, who in ((lowered, "outer"), (program, "inner")):
        handles = [
            module.register_forward_pre_hook(lambda *_, who=who: seen.append(f"{who} before")),
            module.register_forward_hook(lambda *_, who=who: seen.append(f"{who} behind")),
        ]
        assert_close(lowered(x), want)
        assert seen == [f"{who} before", f"{who} behind"]
        for handle in handles:
            handle.remove()
        seen.clear()
    with nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__)):
        lowered(x)
    assert seen == ["MGXModule", type(lowered).__name__]
    program.forward = lambda x: torch.zeros(2, 3)
    assert_close(lowered(x), torch.zeros(2, 3))
    del program.forward
    for same in (copy.deepcopy(lowered), pickle.loads(pickle.dumps(lowered))):
        assert_close(same(x), want)
    with pytest.raises(TypeError):
        lowered(x, x)
    setattr(lowered, name, _Halved())
    assert_close(lowered(x), x / 2)
    setattr(lowered, name, program)
    with lowered.graph.inserting_before(lowered.graph.output_node()):
        more = lowered.graph.call_function(torch.neg, lowered.graph.output_node().args)
    lowered.graph.output_node().args = (more,)
    lowered.recompile()
    assert_close(lowered(x), -want)
