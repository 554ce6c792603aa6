"""What C++ does beside the runs of programs, compiled once for all of them."""

from __future__ import annotations

import ctypes
import logging
from functools import cache
from pathlib import Path

from migraphx.targets.cpu.toolchain import build
from migraphx.targets.target import CompilerError

log = logging.getLogger(__name__)
SOURCE = """#include "decode.hpp"
#include "memory_image.hpp"
extern "C" {
int mgx_more(void* decode) { return mgx::more(*static_cast<mgx::Decode*>(decode)); }
int mgx_same(const mgx::Image* image) { return mgx::same(*image); }
int64_t mgx_take(const mgx::Image* image) { return mgx::take(*image); }
void mgx_compare(const mgx::Image* image, bool* differs) { mgx::compare(*image, differs); }
}
"""


@cache
def library_path() -> Path:
    """Compiled once a process; CompilerError where there is no C++ compiler."""
    return build([SOURCE], "helpers")


def library(lasting: bool = True) -> ctypes.CDLL | None:
    """What is exported, without Python's lock where calls are `lasting`; None without a compiler, which is logged."""
    try:
        return _loaded(library_path(), lasting)
    except CompilerError as error:
        log.info("memory is not compared, and tokens are not chosen natively: %s", error)
        return None


@cache
def _loaded(path: Path, lasting: bool) -> ctypes.CDLL:
    made = (ctypes.CDLL if lasting else ctypes.PyDLL)(str(path))
    for function in (made.mgx_more, made.mgx_same, made.mgx_take):
        function.argtypes = [ctypes.c_void_p]
    made.mgx_take.restype = ctypes.c_int64
    made.mgx_compare.argtypes, made.mgx_compare.restype = [ctypes.c_void_p] * 2, None
    return made
