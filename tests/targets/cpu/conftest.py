"""The instruction sets and compilers beside this machine's best, which give the same answers: they are slow tests."""

import platform
import shutil
from collections.abc import Callable

import pytest

from migraphx.targets.cpu import helpers
from migraphx.targets.cpu.isa import instruction_set
from migraphx.targets.target import CompilerError

x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of x86-64")
wide = pytest.mark.skipif("avx512f" not in instruction_set().split(), reason="what the other tests run here")
clang = pytest.mark.skipif(not shutil.which("clang++"), reason="needs clang++")


@pytest.fixture(
    params=[
        "best",
        pytest.param("-mno-avx512f", marks=[x86, wide, pytest.mark.slow]),
        pytest.param("-march=x86-64", marks=[x86, pytest.mark.slow]),
        pytest.param("clang++", marks=[clang, pytest.mark.slow]),
    ]
)
def portable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrower vectors have no optimisation: what the compiler makes of any width is the kernels' tests' matter.

    They have a product's short epilogues all the same, which need functions that are inlined (access.hpp).
    """
    if request.param == "clang++":
        monkeypatch.setenv("CXX", "clang++")
    elif request.param != "best":
        monkeypatch.setenv("OPENMGX_CXXFLAGS", f"{request.param} -O0 -U__NO_INLINE__")


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Helpers are not compiled yet, and there is no C++ compiler, until what it returns is called."""

    def none(*_: object) -> None:
        raise CompilerError("none here")

    helpers.library_path.cache_clear()
    monkeypatch.setattr(helpers, "build", none)
    return monkeypatch.undo
