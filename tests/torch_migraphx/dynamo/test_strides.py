"""Outputs lie in memory as eager's: Dynamo's fake tensors promise it, and a caller may view them by it."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.tiers import few, few_rows
from tests.tolerances import assert_close

KERNEL = torch.ones(4, 3, 3, 3) / 27


def of_a_matrix(x: Tensor, image: Tensor) -> list[Tensor]:
    """Permuted, cut, stepped through, expanded, diagonal: each of memory of its own."""
    return [
        (x + 1).t(),
        (x + 2)[:, ::2],
        (x + 3)[:, 1:],
        (x + 4).t()[::2],
        (x + 5)[:, 2],
        (x + 6).diagonal(),
        (x + 7).sum(1, keepdim=True).expand(-1, 5),
        (x + 8).unfold(1, 3, 2),
        (x + 9).chunk(2, 1)[1],
        (x + 10).t().cumsum(0),
    ]


def of_an_image(x: Tensor, image: Tensor) -> list[Tensor]:
    """Channels last, and turned."""
    return [
        F.conv2d(image, KERNEL),
        F.gelu(image).permute(0, 2, 3, 1),
        image.permute(2, 0, 1, 3) * 2,
        F.max_pool2d(image, 2).flatten(2).transpose(1, 2),
    ]


def arguments(grad: bool) -> list[Tensor]:
    x, image = torch.randn(4, 6), torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    return [t.requires_grad_(grad) for t in (x, image)]


def in_torch(x: Tensor, image: Tensor) -> list[Tensor]:
    """The last steps have no converter, and keep the order in memory of what they are given."""
    return [torch.special.i1(F.conv2d(image, KERNEL)), torch.special.i1((x + 1).t()), torch.special.i1(x.t() * 2).t()]


@pytest.mark.parametrize(
    ("function", "dynamic", "grad"),
    few_rows(
        [
            *product([of_a_matrix, of_an_image], [False, True], [False, True]),
            (in_torch, False, False),
            (in_torch, True, True),
        ],
        (of_a_matrix, False, True),
        (of_an_image, False, False),
        (of_a_matrix, True, False),
    ),
)
def test_strides_are_those_of_eager(function: Callable[..., list[Tensor]], dynamic: bool, grad: bool) -> None:
    torch._dynamo.reset()
    fast = torch.compile(function, backend="migraphx", options={"target": "ref"}, dynamic=dynamic)
    args = arguments(grad)
    for k, (g, w) in enumerate(zip(fast(*args), function(*args), strict=True)):
        assert g.stride() == w.stride(), f"output {k}"
        assert_close(g.detach().numpy(), w.detach().numpy(), scale=4)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["migraphx", "migraphx_aot"])
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "gradient"])
def test_parts_that_begin_at_an_open_length(backend: str, grad: bool) -> None:
    def function(x: Tensor) -> list[Tensor]:
        y, n = F.linear(x, torch.arange(12.0).view(4, 3)), x.shape[1]  # of three dimensions: a view of a product's rows
        return [y[:, n - 1], y[:, n // 2 :], y.transpose(0, 1)[1:], y * 2]

    torch._dynamo.reset()
    fast = torch.compile(function, backend=backend, options={"target": "ref"}, dynamic=True)
    for sizes in ((4, 6, 3), (2, 11, 3)):
        x = torch.randn(sizes, requires_grad=grad)
        found: list[list[Tensor]] = []
        for call in (fast, function):
            made = call(x)
            gradient = torch.autograd.grad(torch.cat([p.sin().ravel() for p in made]).sum(), x)[0] if grad else x
            found.append([*made, gradient])
        for k, (g, w) in enumerate(zip(*found, strict=True)):
            assert_close(g.detach().numpy(), w.detach().numpy(), scale=4)
            assert g.stride() == w.stride(), f"output {k}"


def by_places(x: Tensor) -> list[Tensor]:
    """Elements by where they lie in memory, of what is not row-major there."""
    turned, part = x.t(), (x * 2)[1:]
    return [
        turned.to(torch.int64).as_strided((2, 3), (1, 5)).neg(),
        torch.as_strided(turned.exp(), (4,), (1,)).neg(),
        part.as_strided((2, 2), (6, 1)).neg(),
        part.as_strided((2, 2), (6, 1), 1).neg(),
        x.exp().as_strided((3, 4), (2, 5), 1).neg(),
        (x * 3)[:2].as_strided((4,), (6,)).neg(),  # beyond the part
        (x * 4)[:, ::2].as_strided((4, 6), (6, 1)).neg(),  # and what lies between
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "grad", "dynamic"),
    [((0, 1), False, True), ((0, 1), True, False), ((1, 0), False, False), ((1, 0), True, True)],
)
def test_places_in_memory(order: tuple[int, int], grad: bool, dynamic: bool, caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()
    fast = torch.compile(by_places, backend="migraphx", options={"target": "ref"}, dynamic=dynamic)
    x = (torch.randn(4, 6) * 3).permute(order).contiguous().permute(order).requires_grad_(grad)
    for k, (g, w) in enumerate(zip(fast(x), by_places(x), strict=True)):
        assert g.stride() == w.stride(), f"output {k}"
        assert_close(g.detach().numpy(), w.detach().numpy(), scale=4)
    assert "a bug" not in caplog.text


def written(x: Tensor) -> list[Tensor]:
    """Parts of one tensor, one of them written to before the others are read."""
    base = x * 2
    base[:, :3].add_(base[:, 3:])  # a part that chunk gives may not be written where gradients are asked for
    rows = (base * base).unbind(0)
    a, b = torch.split(base, [1, 3])
    return [rows[1] + rows[0], a * 3, b.sum(0), base + 0]


def parts(x: Tensor) -> list[Tensor]:
    base = x.sin()
    return [*base.chunk(2, 1), *(x * 3).unbind(0), *(x + 1).split(3)]


@pytest.mark.parametrize("function", few([written, parts], written))
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "gradient"])
def test_parts_of_a_tensor(function: Callable[[Tensor], list[Tensor]], grad: bool) -> None:
    """Values, gradients, and the parts that share memory: a write to one shows in eager's others and in ours."""
    torch._dynamo.reset()
    fast = torch.compile(function, backend="migraphx", options={"target": "ref"}, dynamic=False)
    x = torch.randn(4, 6, requires_grad=grad)
    found: list[Any] = []
    for call in (fast, function):
        made = call(x)
        gradient = torch.autograd.grad(torch.stack([(p * p).sum() for p in made]).sum(), x)[0] if grad else x
        if not grad:
            made[0].fill_(7)
        found.append([*made, gradient])
    for g, w in zip(*found, strict=True):
        assert_close(g.detach().numpy(), w.detach().numpy(), scale=4)
        assert g.stride() == w.stride()


@pytest.mark.parametrize("around", [[15, 20], [20, 15]])
@torch.no_grad()
def test_inputs_that_overlap(around: list[int]) -> None:
    """AOTAutograd hands over all of their memory, and no guard asks how much lies around what the model was given."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return y + 1

    torch._dynamo.reset()
    fast = torch.compile(function, backend="migraphx", options={"target": "ref"})
    for length in around:
        ours = torch.randn(length)
        eager = ours.clone()
        got = fast(*(ours[k : k + 10].detach() for k in (0, 5)))
        want = function(eager[:10], eager[5:15])
        assert_close(got.numpy(), want.numpy())
        assert_close(ours.numpy(), eager.numpy())


@pytest.mark.slow
@torch.no_grad()
def test_overlaps_that_begin_at_an_open_place(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return y + 1

    torch._dynamo.reset()
    fast = torch.compile(function, backend="migraphx", options={"target": "cpu"})
    for first, second in [(slice(10), slice(5, 15)), (slice(2, None), slice(5, None)), (slice(3, 18), slice(7, None))]:
        ours = torch.randn(20)
        eager = ours.clone()
        assert_close(fast(ours[first], ours[second]).numpy(), function(eager[first], eager[second]).numpy())
        assert_close(ours.numpy(), eager.numpy())
    assert "a bug" not in caplog.text


@pytest.mark.parametrize("dynamic", [False, True])
@torch.no_grad()
def test_a_diagonal_is_filled_in_the_engine(dynamic: bool) -> None:
    torch._dynamo.reset()
    function, options = lambda x: (x + 1).fill_diagonal_(7), {"target": "ref", "fallback": "error"}
    fast = torch.compile(function, backend="migraphx", dynamic=dynamic, options={**options})
    for lens in [(4, 6), (5, 5)]:
        x = torch.randn(lens)
        assert_close(fast(x).numpy(), (x + 1).fill_diagonal_(7).numpy())
