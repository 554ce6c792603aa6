"""What a backend returns: compiles for the shapes and the weights that it meets, and notices when they change."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch
from torch._C._dynamo.guards import TensorGuards

import migraphx
from torch_migraphx.dynamo.write_tracking import Watch, is_plain
from torch_migraphx.fx.lasting import Lasting
from torch_migraphx.log import get_logger

logger = get_logger(__name__)

Function = Callable[..., Any]
Build = Callable[[Sequence[Any], frozenset[int]], Function]
Key = tuple[int, ...]


@dataclass(eq=False)
class Weights:
    """Tensors that are compiled in: each set of them is one key."""

    key: Key
    tensors: list[Callable[[], torch.Tensor | None]]
    watch: Watch | None
    layouts: list[tuple[torch.Size, tuple[int, ...]]]
    alike: Callable[..., bool]
    lasting: Callable[[], Lasting | None] = lambda: None
    """The tensors themselves, while a program holds them."""

    def moved(self, now: Sequence[torch.Tensor]) -> set[int]:
        """Which have other sizes or strides in the same memory: not every Dynamo asks for that."""
        return {k for k, (t, own) in enumerate(zip(now, self.layouts, strict=True)) if (t.shape, t.stride()) != own}

    def clean(self) -> bool:
        """Whether they are as they were compiled in."""
        return self.watch is None or self.watch.clean()

    def replaced(self, key: Key, now: Sequence[torch.Tensor], at: Key) -> set[int]:
        """Which of them are gone or, where `now` are the same objects, have other memory: nothing will ask for them."""
        mine = [t() for t in self.tensors]
        gone = {k for k, t in enumerate(mine) if t is None}
        if gone or any(a is not b for a, b in zip(mine, now, strict=True)):
            return gone
        return {k for k, (a, b) in enumerate(zip(key, at, strict=True)) if a != b}


@dataclass(frozen=True)
class OfPlaces:
    """A function of the arguments at these places, which reads no others.

    It is given an image of memory, or None, and these arguments; its answer is None where the image is out of date.
    """

    function: Callable[[Any, Sequence[Any]], Any]
    places: tuple[int, ...]
    holding: Callable[[Mapping[int, torch.Tensor]], Callable[[Any, Sequence[Any]], Any] | None]
    """Of arguments that stay as they are, by their numbers among these: the function of the others, if there is one."""
    bound: Callable[[Sequence[Any]], Callable[[Any, Sequence[Any]], Any] | None] = lambda _: None
    """Of all arguments, which keep their memory: the function that computes with what they hold then, if any.

    Its arguments say how."""

    def without(self, held: Mapping[int, torch.Tensor]) -> OfPlaces | None:
        """The same of the arguments at other places than these, where the tensors stay as they are."""
        function = self.holding({n: held[k] for n, k in enumerate(self.places) if k in held})
        rest = tuple(k for k in self.places if k not in held)
        return OfPlaces(function, rest, lambda _: None) if function is not None else None

    def __call__(self, *args: Any) -> Any:
        return self.function(None, [args[k] for k in self.places])


class Fetched:
    """Tensors of a module; `known` are compiled weights that are like them, once a Runner has found out.

    `placed`: where one gets other memory, sizes or strides, this is asked for no more.
    """

    __slots__ = ("_held", "known", "placed", "tensors")

    def __init__(self, tensors: Sequence[torch.Tensor], placed: bool = False) -> None:
        self.tensors, self.placed = tuple(tensors), placed
        self.known: Weights | None = None
        self._held: tuple[OfPlaces, OfPlaces | None] | None = None

    def held_by(self, form: OfPlaces, places: Collection[int]) -> OfPlaces | None:
        """The form of the arguments at other places than these, in whose order the tensors are."""
        if self._held is None or self._held[0] is not form:
            self._held = form, form.without(dict(zip(sorted(places), self.tensors, strict=True)))
        return self._held[1]


class Runner:
    """Calls what `build(inputs, constants)` makes.

    `names` are the graph's inputs; the values of those at the places `constants` are compiled in, save what is no plain
    tensor. There is one compiled form for each set of these tensors (modules that share their code share a Runner)
    and, with `symbolic` sizes, for each set of sizes. Every call checks that the tensors have the memory and the
    elements that were compiled in, else compiles again; weights that changed more than `patience` times become inputs.
    With `frozen` it checks nothing: which tensors they are decides alone. Of more than `max_specialisations` forms the
    one used longest ago is forgotten. May be called from several threads.
    """

    def __init__(
        self,
        build: Build,
        names: Sequence[str],
        constants: Collection[int],
        symbolic: bool,
        patience: int = 3,
        frozen: bool = False,
        max_specialisations: int = 64,
    ) -> None:
        self._build, self._names, self._symbolic = build, list(names), symbolic
        self._patience, self._frozen = patience, frozen
        self._lock = threading.RLock()
        self._weights: dict[Key, Weights] = {}
        self._forms = migraphx.SingleFlightLRU[tuple[Weights, Any], Function](max_specialisations)
        self._epoch = 0  # counts how often forms were forgotten: what was found before that is not used again
        self._found: tuple[int, Weights, Any, OfPlaces] | None = None  # by the last call, and in which epoch
        self._rebuilds = 0
        self._said = False
        self.any_size: bool | None = None  # what is built runs for all sizes; None: nobody has tried
        self.by_value: Collection[int] = ()  # numbers among the inputs that it is built for even so
        self._identity: Callable[[torch.Tensor], int] = id if frozen else torch.Tensor.data_ptr
        self.weights = frozenset(constants)  # those that are inputs of what is built, too
        self._fix(constants)

    def _fix(self, constants: Collection[int]) -> None:
        self.constants = frozenset(constants)
        at = sorted(self.constants)
        self._at = at
        pick = itemgetter(*at) if len(at) > 1 else lambda args: tuple(args[k] for k in at)
        self._pick: Callable[[Sequence[Any]], tuple[Any, ...]] = pick

    def __call__(self, *args: Any) -> Any:
        return self.run(args)

    def run(self, args: Sequence[Any], fetched: Fetched | None = None) -> Any:
        """Call with `args`; `fetched` has all of the weights among them."""
        if self._weights:  # else it is not known yet whether they have addresses
            known = self._known(args, fetched)
            if known is not None:
                form = self._forms.find((known, self._sizes(args)))
                if form is not None and known.clean():
                    return form(*args)
        return self.prepare(args)(*args)

    def run_without(self, absent: frozenset[int], args: Sequence[Any], fetched: Fetched) -> Any:
        """Call without the tensors of `fetched`, whose places, in order, are `absent`; None where that cannot be."""
        found = self._form_without(absent, args, fetched)
        if found is None:
            return None
        known, form = found
        return _run_if_clean(known, form.function, [args[k] for k in form.places])

    def bound_without(
        self, absent: frozenset[int], args: Sequence[Any], fetched: Fetched
    ) -> Callable[..., Any] | None:  # fmt: skip
        """`run_without` of these arguments, which keep their memory, again and again; None where that cannot be.

        What it is given goes to the function that OfPlaces.bound made.
        """
        found, epoch = self._form_without(absent, args, fetched), self._epoch
        function = found and found[1].bound([args[k] for k in found[1].places])
        if found is None or function is None:
            return None
        known = found[0]

        def again(*given: Any) -> Any:
            same = self._epoch == epoch and fetched.known is known
            return _run_if_clean(known, function, given) if same else None

        return again

    def _form_without(
        self, absent: frozenset[int], args: Sequence[Any], fetched: Fetched
    ) -> tuple[Weights, OfPlaces] | None:  # fmt: skip
        """The compiled weights that those of `fetched` are, and the form that is not given them."""
        known = fetched.known
        if known is None or not fetched.placed:
            return None
        epoch, found, sizes = self._epoch, self._found, self._sizes(args)
        if found is None or found[0] != epoch or found[1] is not known or found[2] != sizes:
            form = self._forms.find((known, sizes))
            if not isinstance(form, OfPlaces):
                return None
            self._found = found = epoch, known, sizes, form
        form = found[3]
        if not absent.isdisjoint(form.places):
            form = fetched.held_by(form, absent)
        return form and (known, form)

    def _known(self, args: Sequence[Any], fetched: Fetched | None) -> Weights | None:
        """The weights among `args`, if they are compiled in as they are."""
        known = fetched.known if fetched is not None and fetched.placed else None
        if known is not None and self._weights.get(known.key) is known:
            return known
        tensors = self._pick(args)
        known = self._weights.get(tuple(map(self._identity, tensors)))
        if known is None or not known.alike(*tensors):
            return None
        if fetched is not None:
            fetched.known = known
        return known

    def _sizes(self, args: Sequence[Any]) -> Any:
        if not self._symbolic:
            return False
        if self.any_size:
            return tuple([args[k] for k in self.by_value])
        return tuple([tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in args])

    def prepare(self, args: Sequence[Any]) -> Function:
        """Compile for these inputs, unless another thread has just done so."""
        with self._lock:
            strange = {k for k in self.constants if not is_plain(args[k], anywhere=self._frozen)}
            if strange:
                logger.info("no plain tensors, so not compiled in: %s", self._named(strange))
                self._fix(self.constants - strange)
                self._forget([*self._weights])
            key = tuple(map(self._identity, self._pick(args)))
            known = self._weights.get(key)
            if known is None:
                self._drop_replaced(key, self._pick(args))
            else:
                changed = known.watch.changed() | known.moved(self._pick(args)) if known.watch is not None else set()
                if changed:
                    self._forget({key})
                    self._changed(changed)
                elif not known.alike(*self._pick(args)):  # called in another mode of torch, which its guards ask for
                    known.alike = _alike(self._pick(args))
            return self._compiled(args)

    def _compiled(self, args: Sequence[Any]) -> Function:
        tensors = self._pick(args)
        key = tuple(map(self._identity, tensors))
        if key not in self._weights:
            self._weights[key] = self._held(key, tensors)
        form = self._weights[key], self._sizes(args)
        if self._forms.find(form) is None and len(self._forms) == self._forms.cap:
            logger.warning(
                "more than %d shapes or modules share a graph (max_specialisations); the oldest is forgotten",
                self._forms.cap,
            )
        made = self._forms.get(form, lambda: self._build(args, self.constants))
        if self.any_size and form[1]:
            self._forms.put((form[0], self._sizes(args)), made)
        used = {weights for (weights, _), _ in self._forms.items()}
        self._weights = {k: weights for k, weights in self._weights.items() if weights in used}
        self._forgotten()  # those above the limit
        return made

    def _forget(self, keys: Collection[Key]) -> None:
        """Drop these weights, and the forms that have them."""
        dropped = {self._weights.pop(key) for key in keys}
        self._forms.forget(lambda form: form[0] in dropped)
        self._forgotten()

    def _forgotten(self) -> None:
        """To be called once forms are gone, not before: then nobody finds them and takes them for the epoch's."""
        self._epoch += 1
        self._found = None

    def _held(self, key: Key, tensors: Sequence[torch.Tensor]) -> Weights:
        """The tensors, watched from now on: what is compiled afterwards can't miss a write."""
        if self._frozen:
            return Weights(key, [lambda t=t: t for t in tensors], None, [], lambda *_: True)
        watch = Watch(tensors) if tensors else None
        if watch is not None and watch.compared and not self._said:
            self._said = True
            logger.warning(
                "each call compares %.1f MB of weights with what they were, since %s; options={'frozen': True} says "
                "that they do not change, and ends this", watch.compared / 1e6, watch.why_compared,
            )  # fmt: skip
        layouts = [(t.shape, t.stride()) for t in tensors]
        return Weights(key, list(map(weakref.ref, tensors)), watch, layouts, _alike(tensors))

    def lasting(self, args: Sequence[Any]) -> Lasting:
        """The weights among `args`, which are being compiled in.

        Those of another graph where they are the same ones, as they were when they were compiled in there: a model's
        graphs for a prompt and for a token pack them once.
        """
        tensors = self._pick(args)
        weights = self._weights[tuple(map(self._identity, tensors))]
        made = weights.lasting() or _shared(weights) or Lasting(tensors)
        if weights.watch is not None:
            weights.lasting = weakref.ref(made)
            _watched.add(weights)
        return made

    def _drop_replaced(self, key: Key, tensors: Sequence[torch.Tensor]) -> None:
        """Forget forms of weights that are gone: where this is not the first call, they were changed."""
        found = {} if self._frozen else {k: w.replaced(k, tensors, key) for k, w in self._weights.items()}
        gone = {k: places for k, places in found.items() if places}
        if gone:
            self._forget(gone)
            self._changed(set.union(*gone.values()))

    def _changed(self, places: Collection[int]) -> None:
        """After a few changes, what changes becomes an input."""
        inputs = {self._at[k] for k in places}
        what = self._named(inputs)
        self._rebuilds += 1
        if self._rebuilds == 1 and self._patience:
            logger.warning("weights changed since they were compiled in (%s); compiling again", what)
        if self._rebuilds > self._patience:
            logger.warning("weights change (%s); from now on they are inputs of the compiled program", what)
            self._fix(self.constants - inputs)
            self._forget([*self._weights])

    def _named(self, inputs: Collection[int]) -> str:
        names = [self._names[k] for k in sorted(inputs)]
        return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _run_if_clean(known: Weights, function: Callable[[Any, Sequence[Any]], Any], args: Sequence[Any]) -> Any:
    """What `function` returns; None where the weights were written."""
    return function(None, args) if known.watch is None else known.watch.run_if_clean(function, args)


_watched: weakref.WeakSet[Weights] = weakref.WeakSet()


def _shared(weights: Weights) -> Lasting | None:
    """The tensors of other weights that lie in the same places, unchanged; from here on `weights` watches them."""
    if weights.watch is None:
        return None
    mine = set(zip(weights.key, weights.layouts, strict=True))
    for other in list(_watched):
        known = other.lasting()
        if known is None or other.watch is None or set(zip(other.key, other.layouts, strict=True)) != mine:
            continue
        if not other.watch.changed() and not other.watch.stale:  # what is written beside them does not matter
            return known
    return None


def _alike(tensors: Sequence[torch.Tensor]) -> Callable[..., bool]:
    """Whether tensors have the sizes and strides of these, and this thread torch's modes of now."""
    fixed: dict[str, Any] = {"dynamic_dims_sizes": None, "dynamic_dims_strides": None}
    return TensorGuards(*tensors, **fixed).check if tensors else lambda *_: True
