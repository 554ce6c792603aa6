"""What a backend returns: compiles for the shapes and the weights that it meets, and notices when they change."""

from __future__ import annotations

import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

import torch

from torch_migraphx.dynamo.samples import Samples

logger = logging.getLogger(__name__)

Function = Callable[..., Any]
Build = Callable[[Sequence[Any], frozenset[int]], Function]

VERSION = attrgetter("_version")
MOST_FORMS = 64


@dataclass(frozen=True)
class Compiled:
    """One compiled form, and the state of the weights that are compiled in."""

    call: Function
    weights: list[weakref.ref[torch.Tensor]]
    state: list[int]
    samples: Samples
    alive: list[torch.Tensor]  # the weights' memory, which must not be given to other tensors

    def fits(self, weights: Sequence[torch.Tensor]) -> bool:
        """Whether the weights are as they were compiled in."""
        return state_of(weights) == self.state and bool(self.samples)  # in this order: no read of memory that is gone

    def changed(self, weights: Sequence[torch.Tensor]) -> set[int]:
        """Which of the weights are not."""
        now, n = state_of(weights), len(weights)
        places = {k % n for k in range(2 * n) if self.state[k] != now[k]}
        return places or self.samples.changed()

    @property
    def replaced(self) -> set[int]:
        """Which of the weights are gone: where one is, nothing will ask for this form again."""
        return {k for k, w in enumerate(self.weights) if w() is None}


def state_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Where the tensors' memory is and how often torch wrote to it; writes through `.data` or NumPy are not counted."""
    try:
        versions = list(map(VERSION, tensors))
    except RuntimeError:  # tensors made in inference mode count no versions
        versions = [-1 if t.is_inference() else t._version for t in tensors]
    versions.extend(map(torch.Tensor.data_ptr, tensors))
    return versions


class Runner:
    """Calls what `build(inputs, constants)` makes.

    `names` are the graph's inputs; the values of those at the places `constants` are compiled in. There is one compiled
    form for each set of these tensors (modules that share their code share a Runner) and, with `symbolic` sizes, for
    each set of sizes. Every call checks that the tensors are in the state that was compiled in, else compiles again:
    torch counts its own writes; of others (`.data`, NumPy) those to whole tensors show in samples. Weights that changed
    more than `patience` times become inputs. May be called from several threads.
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
        weights = self._pick(args)
        form = self._forms.get(self._key(args, weights))
        if form is None or not form.fits(weights):
            form = self.prepare(args)
        return form.call(*args)

    def _key(self, args: Sequence[Any], weights: Sequence[torch.Tensor]) -> Any:
        which = tuple(map(id, weights))
        if not self._symbolic:
            return which
        return which, tuple([tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in args])

    def prepare(self, args: Sequence[Any]) -> Compiled:
        """Compile for these inputs, unless another thread has just done so."""
        with self._lock:
            weights = self._pick(args)
            old = self._forms.get(self._key(args, weights))
            if old is not None and old.fits(weights):
                return old
            self._note_changes(old, weights)
            weights = self._pick(args)
            alive = [t.detach() for t in weights]
            state = state_of(weights)
            samples = Samples(alive)
            call = self._build(args, self.constants)
            form = Compiled(call, list(map(weakref.ref, weights)), state, samples, alive)
            self._forms[self._key(args, weights)] = form
            if len(self._forms) > MOST_FORMS:
                self._forms.popitem(last=False)
                logger.warning("more than %d shapes or modules share a graph; the oldest is forgotten", MOST_FORMS)
            return form

    def _note_changes(self, old: Compiled | None, weights: Sequence[torch.Tensor]) -> None:
        """Weights were written or replaced since they were compiled in."""
        if old is not None:
            self._changed(old.changed(weights))
            return
        gone = {key: form.replaced for key, form in self._forms.items() if form.replaced}
        for key in gone:
            del self._forms[key]
        if gone:
            self._changed(set.union(*gone.values()))

    def _changed(self, places: Collection[int]) -> None:
        """After a few changes, what changes becomes an input."""
        changed = [self._names[self._at[k]] for k in sorted(places)]
        self._rebuilds += 1
        what = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        if self._rebuilds == 1 and self._patience:
            logger.warning("weights changed since they were compiled in (%s); compiling again", what)
        if self._rebuilds > self._patience:
            logger.warning("weights change (%s); from now on they are inputs of the compiled program", what)
            self._fix(self.constants - {self._at[k] for k in places})
            self._forms.clear()
