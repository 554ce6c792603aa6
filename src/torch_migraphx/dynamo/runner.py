"""What a backend returns: compiles for the shapes and the weights that it meets, and notices when they change."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

import torch

logger = logging.getLogger(__name__)

Function = Callable[..., Any]
Build = Callable[[Sequence[Any], frozenset[int]], Function]

VERSION = attrgetter("_version")
MOST_SHAPES = 64


@dataclass(frozen=True)
class Compiled:
    """One compiled form, and the state of the weights that are compiled in."""

    call: Function
    state: list[int]
    alive: list[torch.Tensor]  # the weights' memory, which must not be given to other tensors


def state_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Which tensors these are, where their memory is and how often it was written: equal lists, equal values.

    Writes through `.data` or NumPy leave no trace in torch and are not seen.
    """
    try:
        versions = list(map(VERSION, tensors))
    except RuntimeError:  # tensors made in inference mode count no versions
        versions = [-1 if t.is_inference() else t._version for t in tensors]
    return [*map(id, tensors), *map(torch.Tensor.data_ptr, tensors), *versions]


class Runner:
    """Calls what `build(inputs, constants)` makes.

    `names` are the graph's inputs; the values of those at the places `constants` are compiled in, and every call
    checks that they are the same tensors in the same state, else compiles again. With `symbolic` sizes, there is one
    compiled form for each set of sizes. Weights that changed more than `patience` times become inputs. May be called
    from several threads.
    """

    def __init__(
        self, build: Build, names: Sequence[str], constants: Collection[int], symbolic: bool, patience: int = 3
    ) -> None:
        self._build, self._names, self._symbolic, self._patience = build, list(names), symbolic, patience
        self._lock = threading.RLock()
        self._forms: OrderedDict[Any, Compiled] = OrderedDict()
        self._rebuilds = 0
        self._fix(constants)

    def _fix(self, constants: Collection[int]) -> None:
        self.constants = frozenset(constants)
        at = sorted(self.constants)
        self._at = at
        pick = itemgetter(*at) if len(at) > 1 else lambda args: tuple(args[k] for k in at)
        self._pick: Callable[[Sequence[Any]], tuple[Any, ...]] = pick

    def __call__(self, *args: Any) -> Any:
        form = self._forms.get(self._key(args))
        if form is None or state_of(self._pick(args)) != form.state:
            form = self.prepare(args)
        return form.call(*args)

    def _key(self, args: Sequence[Any]) -> Any:
        if not self._symbolic:
            return None
        return tuple(tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in args)

    def prepare(self, args: Sequence[Any]) -> Compiled:
        """Compile for these inputs, unless another thread has just done so."""
        with self._lock:
            key = self._key(args)
            old = self._forms.get(key)
            state = state_of(self._pick(args))
            if old is not None and old.state == state:
                return old
            if old is not None:
                self._changed(old.state, state)
                state = state_of(self._pick(args))
            alive = [t.detach() for t in self._pick(args)]
            form = Compiled(self._build(args, self.constants), state, alive)
            self._forms[key] = form
            if len(self._forms) > MOST_SHAPES:
                self._forms.popitem(last=False)
                logger.warning("more than %d shapes of one graph; the oldest is forgotten", MOST_SHAPES)
            return form

    def _changed(self, before: list[int], after: list[int]) -> None:
        """Weights differ from those compiled in: after a few times, what changes becomes an input."""
        n = len(self._at)
        places = {k % n for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b}
        changed = [self._names[self._at[k]] for k in sorted(places)]
        self._rebuilds += 1
        what = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        if self._rebuilds == 1 and self._patience:
            logger.warning("weights changed since they were compiled in (%s); compiling again", what)
        if self._rebuilds > self._patience:
            logger.warning("weights change (%s); from now on they are inputs of the compiled program", what)
            self._fix(self.constants - {self._at[k] for k in places})
            self._forms.clear()
