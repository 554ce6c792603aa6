"""What torch does again for each graph, and need not do in the tests, which make some thousand graphs.

Answers, graphs and messages are the same. Each place is changed only where the installed torch has it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

Tables = dict[Any, dict[Any, Any]]
"""Operators' kernels in Python, by what they are registered for."""


def hurry() -> None:
    """Change what has been imported of torch meanwhile.

    pytest hangs its handlers on every logger that does not propagate, six times a test, and sixty of torch's do not.
    To one of these torch writes each graph that it makes, and the stacks that led to it, where that has handlers: which
    no user's has who does not ask for it.
    """
    if "torch" in sys.modules and "torch" in LEFT:
        LEFT.remove("torch")
        for logger in logging.root.manager.loggerDict.values():
            if isinstance(logger, logging.Logger) and logger.name.partition(".")[0] == "torch":
                logger.propagate = True
    for module in LEFT & sys.modules.keys():
        LEFT.remove(module)
        name, change = CHANGES[module]
        place = vars(sys.modules[module])
        if name in place:
            place[name] = change(place[name])


def _untimed(profile_guard_manager: Callable[..., float]) -> Callable[..., float]:
    """Each graph's guards are timed for the log, and the processor's cache is emptied for that: 25 ms."""
    return lambda *of: 0.0


def _once(materialize: Callable[[], None]) -> Callable[[], None]:
    """Each export looks up all composite operators once a namespace of operators; new namespaces bring new ones."""
    seen: set[str] = set()

    def made() -> None:
        names = sys.modules["torch"].ops._dir
        if not seen.issuperset(names):
            seen.update(names)
            materialize()

    return made


def _remembered(override: Callable[..., Any]) -> Callable[..., Any]:
    """Each export gives a thousand composite operators ten kernels each, the same as the last time: 0.1 s."""
    made: dict[frozenset[Any], tuple[Tables, Tables, dict[Any, Any]]] = {}
    fake = sys.modules["torch._subclasses.fake_impls"]

    @contextmanager
    def remembered(decompositions: dict[Any, Any]) -> Iterator[None]:
        rules, key = fake.op_implementations_dict, frozenset(decompositions.items())
        own, before = decompositions.keys() & rules.keys(), _tables(decompositions)
        if own or key not in made or made[key][0] != before:
            with override(decompositions):
                if not own and len({*decompositions.values()}) == 1:  # all stay whole
                    made[key] = before, _tables(decompositions), {op: rules[op] for op in decompositions if op in rules}
                yield
            return
        _set_tables(made[key][1])
        rules.update(made[key][2])
        try:
            yield
        finally:
            _set_tables(before)
            for op in decompositions:
                fake._deregister_op_impl(op)

    return remembered


def _tables(operators: Iterable[Any]) -> Tables:
    return {op: dict(op.py_kernels) for op in operators}


def _set_tables(tables: Tables) -> None:
    for op, kernels in tables.items():
        op.py_kernels.clear()
        op.py_kernels.update(kernels)
        op._dispatch_cache.clear()


def _without_stacks(traceback: ModuleType) -> SimpleNamespace:
    """A seed is noted for each kind of device that is not in use yet, with the stack as text: 1 to 3 ms a seed."""
    return SimpleNamespace(**{**vars(traceback), "format_stack": list})


CHANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "torch.cuda": ("traceback", _without_stacks),
    "torch.xpu": ("traceback", _without_stacks),
    "torch.mtia": ("traceback", _without_stacks),
    "torch._dynamo.guards": ("profile_guard_manager", _untimed),
    "torch._export.utils": ("_materialize_cpp_cia_ops", _once),
    "torch.export.exported_program": ("_override_composite_implicit_decomp", _remembered),
    "onnxscript._framework_apis.torch_2_5": ("get_torchlib_ops", cache),  # an export reads all its sources: 0.4 s
}
LEFT = {"torch", *CHANGES}
