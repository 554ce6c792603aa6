"""Random functions through torch.compile against eager: `python -m tools.fuzz_torch --seconds 600`.

A function is text: statements with operators, views and changes in place. A statement stays only where eager takes it,
and where the answer in double precision is nearly the same, so that rounding decides nothing. Compared are outputs
(type, strides, whether they need a gradient), which of them share memory with which inputs, inputs afterwards, and
gradients.
Findings, cut to the fewest statements, are written to `--out`.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from tests.tolerances import assert_close

FLOATING = (torch.float32,) * 8 + (torch.float64, torch.float16, torch.bfloat16)
WHOLE = (torch.int64, torch.int64, torch.int32, torch.int8, torch.uint8, torch.int16, torch.bool, torch.bool)
LENS = (
    (4, 6), (4, 6), (6,), (4, 1), (1, 6), (), (2, 3, 8, 8), (2, 3, 8, 8), (3, 4, 6), (3, 3, 3, 3), (6, 4), (0, 6), (1,),
)  # fmt: skip
UNARY = """
relu abs neg exp tanh sigmoid sin cos sqrt rsqrt log log1p expm1 erf floor ceil round trunc sign reciprocal
square atan asinh frac isnan isfinite logical_not bitwise_not nonzero positive isposinf signbit exp2 log2
deg2rad sgn
"""
BINARY = """
add sub mul div maximum minimum fmod remainder pow floor_divide true_divide eq lt gt le ge ne logical_and
logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift atan2
copysign matmul hypot fmax fmin logaddexp xlogy
"""
FUNCTIONS = """
gelu silu hardswish hardtanh elu selu celu softplus mish logsigmoid softsign relu6 leaky_relu hardsigmoid
"""
REDUCTIONS = """
sum mean amax amin prod any all argmax argmin std var logsumexp cumsum softmax log_softmax nansum
"""
IN_PLACE = """
relu_ add_({b}) mul_({b}) sub_(1) zero_ clamp_(-1,1) fill_(2) copy_({b}) neg_ tanh_ t_ squeeze_ unsqueeze_(0)
"""
VIEWS = """
t() view(-1) reshape(-1) unsqueeze(0) unsqueeze(-1) squeeze() [...,1:] [0] [::2] [:,None] [...,-1]
transpose(0,-1) flatten() expand(2,*{a}.shape) permute(*range({a}.ndim)[::-1]) contiguous() narrow(0,0,1)
select(-1,0) detach() clone() unflatten(-1,(2,-1)) movedim(0,-1) diagonal() view_as({a}) chunk(2,-1)[1]
split(2)[0] unbind(0)[-1] swapaxes(0,-1) expand_as({b}) flip(0) roll(1,0) repeat(2,*[1]*{a}.ndim) tile((2,))
to(torch.float16) to(torch.float32) to(torch.float64) to(torch.int64) to(torch.int8) to(torch.bool)
to(torch.uint8) float() int() type_as({b}) to(torch.bfloat16) long() view(torch.int32) tril() triu(1)
sort(-1)[0] topk(1)[0] max(-1)[0] min(0)[1] [{b}] take_along_dim({b}) unfold(0,2,1) as_strided((2,),(1,))
index_select(0,{b}) numel() shape[0] masked_fill({b},2) masked_fill({b}>0,0) new_zeros(2,3) new_full((2,),7)
nan_to_num() fmod(2) cumsum(-1) diff() median() mT bool() half() dim() item()
"""
CALLS = (
    "torch.where({a}>0,{b},{c})", "torch.where({a},{b},{c})", "torch.cat([{a},{b}],{k})",
    "torch.stack([{a},{b}],{k})", "{a}+{s}", "{s}-{a}", "{a}*{s}", "{a}/{s}", "{s}/{a}", "{a}//{s}", "{a}%{s}",
    "{a}**2", "{a}<<1", "{a}>>1", "~{a}", "-{a}", "{a}&{b}", "{a}|{b}", "{a}^{b}", "{a}@{b}", "{a}+{b}", "{a}-{b}",
    "{a}*{b}", "{a}/{b}", "{a}//{b}", "{a}==0", "{a}>{s}", "torch.clamp({a},min={s})", "torch.clamp({a},-1,{s})",
    "torch.clamp({a},{b},{c})", "torch.addmm({a},{b},{c})", "F.linear({a},{b})", "F.conv2d({a},{b},padding={k})",
    "F.max_pool2d({a},2)", "F.avg_pool2d({a},3,2,1)", "F.batch_norm({a},None,None,training=True)",
    "F.layer_norm({a},{a}.shape[-1:])", "F.pad({a},(1,{k}),value={s})", "F.interpolate({a},scale_factor=2.0)",
    "F.adaptive_avg_pool2d({a},2)", "F.one_hot({a}.long()%4,4)", "torch.full_like({a},{s})", "F.embedding({a},{b})",
    "torch.gather({a},{k},{b})", "torch.einsum('ij,jk->ik',{a},{b})", "torch.outer({a},{b})",
    "torch.arange({a}.shape[0])", "torch.zeros_like({a})", "torch.tensor({s})+{a}", "torch.bmm({a},{b})",
    "torch.lerp({a},{b},0.25)", "torch.scatter({a},{k},{b},{c})", "torch.scatter_add({a},{k},{b},{c})",
    "torch.index_add({a},{k},{b},{c})", "torch.addcmul({a},{b},{c},value={s})", "torch.baddbmm({a},{b},{c})",
    "F.scaled_dot_product_attention({a},{a},{a})", "F.normalize({a},dim=-1)", "torch.norm({a},dim=-1)",
    "F.mse_loss({a},{b})", "F.cross_entropy({a},{a}.softmax(-1))", "F.dropout({a},0.5,False)",
    "torch.broadcast_tensors({a},{b})[0]", "torch.meshgrid({a},{b},indexing='ij')[0]", "torch.cumprod({a},{k})",
    "torch.tensordot({a},{b},1)", "torch.searchsorted({a},{b})", "torch.bucketize({a},{b})", "torch.isin({a},{b})",
    "torch.count_nonzero({a})", "F.glu({a})", "F.pixel_shuffle({a},2)", "torch.rot90({a})", "{a}.mean()",
    "F.conv_transpose2d({a},{b},stride={k}+1)", "F.group_norm({a},1)", "F.softmax({a},{k},dtype=torch.float64)",
    "{a}.sum({k},keepdim=True)", "{a}.sum(dtype=torch.int32)", "torch.linspace(0,1,{a}.shape[0])+{a}[...,0]",
    "{a}.repeat_interleave(2,{k})", "{a}.any()|{b}",
)  # fmt: skip
SCALARS = ("2", "-1", "0.5", "3", "1.0", "True", "-2.5", "7", "0")


@dataclass
class Function:
    """Statements over x0, x1, ...; `outputs` are names."""

    inputs: list[Tensor]
    lines: list[str]
    outputs: list[str]

    def text(self, lines: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> str:
        names = ", ".join(f"x{k}" for k in range(len(self.inputs)))
        body = "".join(f"    {line}\n" for line in (self.lines if lines is None else lines))
        return f"def f({names}):\n{body}    return [{', '.join(self.outputs if outputs is None else outputs)}]\n"

    def made(self) -> Any:
        return compiled_text(self.text())

    def fresh(self) -> list[Tensor]:
        return [again(x) for x in self.inputs]


def compiled_text(text: str) -> Any:
    space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(compile(text, "<fuzz>", "exec"), space)  # text made here
    return space["f"]


def again(x: Tensor) -> Tensor:
    """A copy of the same strides."""
    copy = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    with torch.no_grad():
        copy.copy_(x)
    return copy.requires_grad_(x.requires_grad)


class Author:
    """Writes functions."""

    def __init__(self, seed: Sequence[int], grad: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.inputs = [self.tensor(grad) for _ in range(3)]
        self.names = [f"x{k}" for k in range(3)]

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def word(self, words: str) -> str:
        return self.pick(words.split())

    def tensor(self, grad: bool) -> Tensor:
        dtype, lens = self.pick(FLOATING if self.rng.random() < 0.65 else WHOLE), self.pick(LENS)
        whole = not dtype.is_floating_point or self.rng.random() < 0.3
        array = self.rng.integers(-3, 4, lens) if whole else self.rng.standard_normal(lens)
        x = torch.from_numpy(np.asarray(array))
        x = (x != 0).to(dtype) if dtype == torch.bool else x.to(dtype)
        if x.ndim == 2 and self.rng.random() < 0.2:
            x = x.t().contiguous().t()
        if dtype.is_floating_point and whole and x.is_contiguous() and self.rng.random() < 0.15:
            x.view(-1)[::3] = self.pick((float("nan"), float("inf"), -0.0))
        return x.requires_grad_(grad and dtype.is_floating_point)

    def line(self) -> tuple[str, str | None]:
        """A statement, and the name that it makes."""
        recent = self.names[-4:] if self.rng.random() < 0.6 else self.names
        holes = {n: self.pick(recent) for n in "abc"} | {"s": self.pick(SCALARS), "k": self.pick(("0", "1", "-1"))}
        kind, a, new = self.rng.random(), holes["a"], f"v{len(self.names)}"
        if kind < 0.12:
            change = self.word(IN_PLACE).format(**holes)
            return f"{a}.{change}" + ("" if ")" in change else "()"), None
        if kind < 0.16:
            return f"{a}{self.pick(('[0]', '[...,1:]', '[:]', '[::2]'))} = {self.pick((holes['b'], holes['s']))}", None
        if kind < 0.3:
            return f"{new} = torch.{self.word(UNARY)}({a})", new
        if kind < 0.42:
            return f"{new} = torch.{self.word(BINARY)}({a}, {self.pick((holes['b'], holes['s']))})", new
        if kind < 0.46:
            return f"{new} = F.{self.word(FUNCTIONS)}({a})", new
        if kind < 0.56:
            return f"{new} = {a}.{self.word(REDUCTIONS)}({self.pick(('0', '-1', '1'))})", new
        if kind < 0.76:
            view = self.word(VIEWS).format(**holes)
            return f"{new} = {a}{'' if view[0] == '[' else '.'}{view}", new
        return f"{new} = {self.pick(CALLS).format(**holes)}", new

    def write(self, count: int) -> Function:
        made = Function(self.inputs, [], [])
        for _ in range(60 * count):
            text, name = self.line()
            if takes(made, [*made.lines, text], [*self.names, *([name] if name else [])]):
                made.lines.append(text)
                self.names += [name] if name else []
            if len(made.lines) == count:
                break
        made.outputs = [self.pick(self.names[-5:]) for _ in range(3)] + [self.pick(self.names)]
        return made


def takes(function: Function, lines: Sequence[str], names: Sequence[str]) -> bool:
    """Whether eager runs it, and double precision gives nearly the same."""
    try:
        run = compiled_text(function.text(lines, names))
        values = run(*function.fresh())
        wide = run(*(x.double() if x.is_floating_point() else again(x) for x in function.inputs))
        last = values[-1]
        if isinstance(last, Tensor) and last.numel() > 5000:
            return False
        return all(near(v, w) for v, w in zip(values, wide, strict=True))
    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError):
        return False


def near(value: Any, wide: Any) -> bool:
    if not isinstance(value, Tensor):
        return bool(value == wide)
    value, wide = value.detach(), wide.detach()
    if value.is_complex() or value.shape != wide.shape:
        return False
    if not value.is_floating_point():
        return torch.equal(value, wide.to(value.dtype)) and not wide.is_floating_point()
    close = 1e-4 if value.dtype in (torch.float32, torch.float64) else 0.02
    largest = wide[wide.isfinite()].abs().max().item() if wide.isfinite().any() else 0.0
    same = torch.allclose(value.double(), wide.double(), rtol=0, atol=close * largest, equal_nan=True)
    return same and largest < 1e4


def aliases(inputs: Sequence[Tensor], outputs: Sequence[Any]) -> list[Any]:
    """For each output: the inputs whose memory it sees, and whether it is that very tensor."""

    def memory(t: Tensor) -> Any:
        return t.untyped_storage().data_ptr() if t.numel() else object()

    return [[(memory(o) == memory(x), o is x) for x in inputs] if isinstance(o, Tensor) else None for o in outputs]


def compare(got: Any, want: Any, place: str) -> None:
    if not isinstance(want, Tensor):
        assert type(got) is type(want) and got == want, f"{place}: {got}, eager {want}"
        return
    kinds = [(t.dtype, tuple(t.shape), t.requires_grad) for t in (got, want)]
    assert kinds[0] == kinds[1], f"{place}: {kinds[0]}, eager {kinds[1]}"
    if want.numel():
        strides = [[s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] for t in (got, want)]
        assert strides[0] == strides[1], f"{place}: strides {strides[0]}, eager {strides[1]}"
    g, w = (t.detach().resolve_conj().resolve_neg() for t in (got, want))
    row: Any = np.float32 if g.dtype == torch.float64 else None  # it may have been float before
    if g.dtype == torch.bfloat16:
        g, w, row = g.float(), w.float(), ml_dtypes.bfloat16
    try:
        assert_close(g.numpy(force=True), w.numpy(force=True), dtype=row, scale=60)
    except AssertionError as error:
        raise AssertionError(f"{place}: {error}") from None


def check(function: Function, options: dict[str, Any]) -> None:
    """AssertionError where the compiled function differs from eager."""
    torch._dynamo.reset()
    eager, fast = function.made(), torch.compile(function.made(), dynamic=False, **options)
    ours, theirs = function.fresh(), function.fresh()
    want, got = eager(*theirs), fast(*ours)
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        compare(g, w, f"output {k}")
    a, b = aliases(ours, got), aliases(theirs, want)
    assert a == b, f"aliases {a}, eager {b}"
    for k, (g, w) in enumerate(zip(ours, theirs, strict=True)):
        compare(g, w, f"input {k} afterwards")
    roots = [[o.float().sum() for o in outs if isinstance(o, Tensor) and o.requires_grad] for outs in (got, want)]
    if roots[1]:
        torch.stack(roots[0]).sum().backward()
        torch.stack(roots[1]).sum().backward()
        for k, (g, w) in enumerate(zip(ours, theirs, strict=True)):
            assert (g.grad is None) == (w.grad is None), f"gradient {k}"
            if w.is_leaf and w.grad is not None:
                compare(g.grad, w.grad, f"gradient {k}")


def fault(function: Function, options: dict[str, Any]) -> str:
    """What is wrong, where torch's own graphs are not."""
    try:
        check(function, options)
    except Exception as error:
        try:
            check(function, {"backend": "aot_eager"})
        except Exception:
            return ""
        return f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    return ""


def smaller(function: Function, options: dict[str, Any]) -> Function:
    """Without what the failure does not need."""
    for k in reversed(range(len(function.lines))):
        tried = Function(function.inputs, function.lines[:k] + function.lines[k + 1 :], function.outputs)
        name = function.lines[k].partition(" = ")[0]
        used = any(name in line for line in tried.lines) or name in tried.outputs
        if name.isidentifier() and used:
            tried.outputs = [o for o in tried.outputs if o != name]
            if any(name in line for line in tried.lines):
                continue
        if tried.outputs and fault(tried, options) and takes(tried, tried.lines, tried.outputs):
            function = tried
    for output in list(function.outputs):
        left = [o for o in function.outputs if o != output]
        tried = Function(function.inputs, function.lines, left)
        if left and fault(tried, options):
            function = tried
    return function


def attempt(seed: Sequence[int], lines: int, options: dict[str, Any], out: Path) -> bool:
    """Write a function and check it, every third with gradients; whether it is a finding, which is kept."""
    grad = seed[-1] % 3 == 2
    with torch.set_grad_enabled(grad):
        function = Author(seed, grad).write(lines)
        if not function.lines or not fault(function, options):
            return False
        function = smaller(function, options)
        why = fault(function, options)
    inputs = "".join(f"# x{k}: {x.dtype} {tuple(x.shape)} {x.stride()}\n" for k, x in enumerate(function.inputs))
    text = f"{inputs}# grad {grad}\n{function.text()}\n{why}"
    (out / f"torch-{'-'.join(map(str, seed))}.txt").write_text(text)
    print(text[: text.index(why)] + why[:300], flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz_torch", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--target", default="ref")
    parser.add_argument("--backend", default="migraphx")
    parser.add_argument("--lines", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    options = {"backend": args.backend, "options": {"target": args.target}}
    until, number, found = time.monotonic() + args.seconds, args.first, 0
    while time.monotonic() < until:
        found += attempt((args.seed, number), args.lines, options, args.out)
        number += 1
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    print(f"{number - args.first} functions, {cpu.ru_utime + cpu.ru_stime:.0f} s of CPU, {found} findings")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
