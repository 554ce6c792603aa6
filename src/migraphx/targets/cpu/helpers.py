"""What C++ does beside the runs of programs, compiled once for all of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from migraphx.targets.cpu.toolchain import build

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
