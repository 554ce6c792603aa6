"""Compilation of what a program will need, before it is known: while a framework traces a model, cores are idle."""

from __future__ import annotations

import logging
from threading import Thread
from typing import Unpack

from migraphx.api.program import program
from migraphx.runtime.options import CompileKeywords, CompileOptions
from migraphx.targets.common.beside import begin_beside
from migraphx.targets.target import CompilerError, Target

log = logging.getLogger(__name__)


def compile_ahead(p: program, t: Target, **options: Unpack[CompileKeywords]) -> Thread:
    """Begin to compile, in a thread of low priority, what all programs with the operators and types of `p` share.

    Programs that are compiled later find it in the cache, or wait until it is there. `p` stays as it is. A compiler
    that fails now does so again when a program is compiled, which says it. For targets gpu and ref nothing is done.
    """
    graph, chosen = p.graph.clone(), CompileOptions.of(**options)
    chosen.check_target(t)

    def work() -> None:
        try:
            t.compile_ahead(graph, chosen)
        except CompilerError as error:
            log.info("nothing is compiled ahead: %s", error)

    return begin_beside(work)
