"""Kernels become code without a GPU: for each chip, side by side, kept by content, and errors name the kernel."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from migraphx.targets.common import cache
from migraphx.targets.gpu import binaries as module
from migraphx.targets.gpu.binaries import Ahead, Binary, CompilerError, Compilers, binaries, key_of
from migraphx.targets.gpu.compile import WAITS, waiting, waiting_once
from migraphx.targets.gpu.kernel import Kernel
from tests.targets.gpu.test_executable import TEXT
from tests.tiers import few

CHIPS = {"cuda:80": b"\x7fELF", "cuda:90": b"\x7fELF", "cuda:100": b"\x7fELF", "hip:gfx942": b"\x7fELF"}
AXPY = Kernel("axpy", TEXT, ("*fp32", "*fp32", "*fp32", "i32"), (("ALPHA", 2.0), ("BLOCK", 64)), (0, 1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_code_for_each_chip(chip: str) -> None:
    found = binaries([AXPY, AXPY], chip)[AXPY]
    assert found.code.startswith(CHIPS[chip]) and found.name == "axpy"
    assert found.threads == AXPY.warps * (64 if chip.startswith("hip") else 32)
    assert (found.hidden, found.blocks, found.scratch, found.pdl) == (2, 1, 0, chip in ("cuda:90", "cuda:100"))
    assert Binary.of(found.to_bytes()) == found


def test_sums_are_waited_for_once() -> None:
    """A wait for all products stays where some may have begun, on any way there; only what waits again is gone."""
    wait, some, begin = "\twgmma.wait_group.sync.aligned 0;", "\twgmma.wait_group.sync.aligned 1;", "\twgmma.mma_async;"
    label, jump = "$L__BB0_1: // a loop", "\t@%p1 bra $L__BB0_1;"
    for between in ("\tmov.b32 %r1, %r2;", "\t// wait for regs", "\t@%p1 st.global.b32 [ %rd1 + 0 ], { %r1 };"):
        assert waiting_once("\n".join([wait, between, wait])) == "\n".join([wait, between, ""])
    for between in (begin, some, label, jump, "\tbra.uni $L__BB0_1;"):
        assert waiting_once("\n".join([wait, between, wait])) == "\n".join([wait, between, wait, ""])


def test_kept_code_needs_no_triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process imports neither Triton nor torch, and starts no compiler."""
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path))
    first = binaries([AXPY], "cuda:90")[AXPY]
    code = f"""
import subprocess, sys
subprocess.Popen = None
from migraphx.targets.gpu.binaries import binaries
from migraphx.targets.gpu.kernel import Kernel
kernel = Kernel(*{(AXPY.name, AXPY.source, AXPY.arguments, AXPY.constants, AXPY.divisible)!r})
found = binaries([kernel], "cuda:90")[kernel]
print(found.threads, len(found.code), "triton" in sys.modules, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["128", str(len(first.code)), "False", "False"]


def test_code_is_made_while_a_program_is_lowered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and what nobody asks for in the end is no matter, wrong or not; nobody compiles what the cache has."""
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path))
    made: list[str] = []

    def compile(self: Compilers, kernel: Kernel, key: str, chip: str) -> Binary:
        made.append(kernel.name)
        if kernel.name == "wrong":
            raise CompilerError("kernel wrong does not compile")
        return Binary(b"code", kernel.name, 0, 128, 1, 0, 2, True, "3")

    monkeypatch.setattr(Compilers, "compile", compile)
    second, wrong = replace(AXPY, name="second"), replace(AXPY, name="wrong")
    with Ahead("cuda:90") as ahead:
        for kernel in (AXPY, wrong, AXPY):
            ahead.want(kernel)
        found = binaries([AXPY, second], "cuda:90", ahead)
        assert [found[k].name for k in (AXPY, second)] == ["axpy", "second"]
        with pytest.raises(CompilerError, match="wrong does not compile"):
            binaries([wrong], "cuda:90", ahead)
    assert sorted({*made}) == ["axpy", "second", "wrong"] and made.count("axpy") == 1
    with Ahead("cuda:90") as ahead:
        ahead.want(AXPY)
        assert binaries([AXPY], "cuda:90", ahead)[AXPY].code == b"code"
    assert made.count("axpy") == 1


def test_what_makes_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [
        replace(AXPY, source=TEXT + "\n"),
        replace(AXPY, constants=(("ALPHA", 2), ("BLOCK", 64))),
        replace(AXPY, warps=8),
        replace(AXPY, divisible=(0, 1)),
        replace(AXPY, arguments=("*fp16", *AXPY.arguments[1:])),
        replace(AXPY, stages=2),
    ]
    keys = {key_of(kernel, chip) for kernel in (AXPY, *others) for chip in CHIPS}
    assert len(keys) == 7 * len(CHIPS) and all(cache.KEY.fullmatch(k) for k in keys)
    before = key_of(AXPY, "cuda:90")
    monkeypatch.setenv("TRITON_PTXAS_PATH", sys.executable)
    assert key_of(AXPY, "cuda:90") != before
    monkeypatch.delenv("TRITON_PTXAS_PATH")
    monkeypatch.setattr(module, "triton_version", lambda: "0.0")
    assert key_of(AXPY, "cuda:90") != before


WRONG = {
    "tl.load(x + i, m)": "tl.lode(x + i, m)",  # an unknown word
    "tl.store(out + i": "tl.store(out + tl.arange(0, 32)",  # shapes that do not fit
}


@pytest.mark.parametrize("right", few(WRONG, "tl.load(x + i, m)"))
def test_an_error_names_the_kernel(right: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path))
    wrong = replace(AXPY, source=TEXT.replace(right, WRONG[right]))
    with pytest.raises(CompilerError, match="kernel axpy does not compile for cuda:90"):
        binaries([AXPY, wrong], "cuda:90")
    with pytest.raises(CompilerError, match="takes"):
        binaries([replace(AXPY, arguments=(*AXPY.arguments, "i32"))], "cuda:90")


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    module.triton_version.cache_clear()
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(CompilerError, match=r"Triton, which is not installed: pip install 'openmgx\[gpu\]'"):
        binaries([AXPY], "cuda:90")


def test_a_kernel_waits_before_all_else() -> None:
    text = (
        'import triton\n\n@triton.jit\ndef f(x,\n      N: tl.constexpr):\n    """What it does."""\n    y = tl.load(x)\n'
    )
    want = (
        "import triton\n\nfrom triton.language.extra.cuda import gdc_launch_dependents, gdc_wait\n@triton.jit\n"
        'def f(x,\n      N: tl.constexpr):\n    """What it does."""\n'
        "    gdc_wait()\n    gdc_launch_dependents()\n    y = tl.load(x)\n"
    )
    assert waiting(text, "f") == want


READS = """
@triton.jit
def place(n):
    k = tl.program_id(0) % n
    return k, tl.minimum(k, 3)


@triton.jit
def read(x, k):
    k = k + 1
    return tl.load(x + k)


@triton.jit
def prefetch_columns(x):
    prefetch(x)
"""


@pytest.mark.parametrize(
    "line",
    [
        "y = read(x, k)",
        "y = tl.load(x)",
        "tl.store(x, k)",
        "y = unknown(k)",
        "y = x.load()",
        "y = d.load([0, 0])",
        "for i in range(k):\n        y = i",
        "if k:\n        y = k",
    ],
)
def test_a_kernel_knows_its_place_before_it_waits(line: str) -> None:
    """Arithmetic, also by functions, descriptors and what it asks for come first; what may touch memory does not."""
    first = "    k, m = place(n)\n    k += 1\n    d = tl.make_tensor_descriptor(x, [k, m], [m, 1], [16, 16])\n"
    first += "    prefetch_columns(x)\n"
    text = f"{READS}\n\n@triton.jit\ndef f(x, n):\n{first}    {line}\n    tl.store(x, 0)\n"
    assert f"{first}    gdc_wait()\n    gdc_launch_dependents()\n    {line}\n" in waiting(text, "f")


def test_a_kernel_of_arithmetic_alone_waits() -> None:
    """The kernel after it may count on what was done before this one."""
    assert "    gdc_wait()\n    gdc_launch_dependents()\n    k = n\n" in waiting(
        "@triton.jit\ndef f(n):\n    k = n\n", "f"
    )


def test_a_kernel_asks_for_weights_before_it_waits() -> None:
    """It waits where it says so itself, not where a function that it calls does."""
    inner = f"@triton.jit\ndef g(x):\n    y = x\n    {WAITS}\n    return y\n\n"
    text = f"{inner}@triton.jit\ndef f(x):\n    y = g(x)\n    {WAITS}\n    z = y\n"
    for name, want in (("f", "    y = g(x)\n    gdc_wait()\n"), ("g", "    y = x\n    gdc_wait()\n")):
        assert want in waiting(text, name) and waiting(text, name).count("gdc_wait()") == 1
