"""Graphs of symbolic sizes as one program, of which outputs are written to the memory of inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import fx

import migraphx
from torch_migraphx.fx.any_size import UNBOUNDED, AnySize, Limits
from torch_migraphx.fx.graph_info import value_of
from torch_migraphx.log import get_logger
from torch_migraphx.options import Options

logger = get_logger(__name__)
OUTPUT = "main:#output_"


class AnySizeInPlace(AnySize):
    """Runs a graph that returns tensors of its own; `written`: which of them lie in which inputs' memory, by number.

    A call returns these inputs, or new tensors at lengths at which the program cannot write in place. Every symbol may
    be 1 or more.
    """

    def __init__(
        self, graph: fx.GraphModule, args: Sequence[Any], options: Options, constants: Collection[int],
        written: Mapping[int, int],
    ) -> None:  # fmt: skip
        nodes = graph.graph.find_nodes(op="placeholder")
        lengths = {
            str(size.node.expr): (k, d)
            for k, n in enumerate(nodes)
            for d, size in enumerate(getattr(value_of(n), "shape", ()))
            if isinstance(size, torch.SymInt)
        }
        ranges = dict.fromkeys(lengths, Limits(1, UNBOUNDED))
        super().__init__(graph, args, options, constants, ranges, written=written)
        place = {k: n for n, k in enumerate(self.inputs)}
        self.symbols = {name: (place[k], d) for name, (k, d) in lengths.items()}
        returned: Any = graph.graph.output_node().args[0]
        self.outputs = [(self._sizes(value_of(n)), value_of(n).dtype) for n in returned]
        self._at = migraphx.SingleFlightLRU[Any, Any](options.max_specialisations)  # of some lengths, in place

    def _sizes(self, value: torch.Tensor) -> list[int | tuple[int, int]]:
        """Numbers, and where the others lie: in which of the `inputs` and dimension of it."""
        return [self.symbols[str(s.node.expr)] if isinstance(s, torch.SymInt) else s for s in value.shape]

    def __call__(self, *args: Any) -> list[torch.Tensor]:
        """The outputs for these arguments of the graph."""
        return self.run(None, [args[k] for k in self.inputs])

    def run(self, image: Any, given: Sequence[torch.Tensor]) -> Any:
        """The outputs for these `inputs`; None where the memory of `image`, if there is one, is not as it was.

        It is looked at while the program runs: the inputs that are written then hold what the next run writes over.
        The first run of some lengths checks all; the next ones take addresses.
        """
        made, lens = self._made(given), tuple([x.shape for x in given])
        run = self._at.find(lens)
        if run is not None and run.current() and all(map(torch.Tensor.is_contiguous, given)):
            places = [x.data_ptr() for x in made]
            return made if run([given[k].data_ptr() for k in self.order], places, None, image) else None
        if image is not None and not image.same():
            return None
        bound = {f"{OUTPUT}{k}": x for k, x in enumerate(made)}
        try:
            self.program.run({**dict(zip(self.names, given, strict=True)), **bound})
        except ValueError as error:  # at these lengths an input is read after it would be written
            logger.info("not in place: %s", error)
            return self._run(list(map(self._tensor, given)))
        self._at.put(lens, self.program.at(dict(zip(self.names, lens, strict=True))))
        return made

    def bound(self, given: Sequence[torch.Tensor]) -> Callable[[Any, Sequence[Any]], Any] | None:
        """`run` of these tensors, again and again: they keep their memory. None where the first run is still to come.

        Its answer is None, too, where the program would now take another executable. Given memory for the outputs that
        are not written in place, and what follows each run (`migraphx.get_target("cpu").decode`), it runs repeatedly.
        """
        run = self._at.find(tuple([x.shape for x in given]))
        if run is None or not all(map(torch.Tensor.is_contiguous, given)):
            return None
        addresses, outputs = [given[k].data_ptr() for k in self.order], self._made(given)
        places = [x.data_ptr() for x in outputs]
        new = [(k, x.shape, x.dtype) for k, x in enumerate(outputs) if k not in self.written]

        def again(image: Any, args: Sequence[Any]) -> Any:
            if not run.current():
                return None
            held, repeat = args or (None, None)
            made, at = outputs.copy(), places.copy()
            for n, (k, lens, dtype) in enumerate(new):
                made[k] = torch.empty(lens, dtype=dtype) if held is None else held[n]
                at[k] = made[k].data_ptr()
            if repeat is None:
                return made if run(addresses, at, None, image) else None
            return made if run.repeatedly(repeat, addresses, at, image) else None

        return again

    def _made(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Memory for the outputs: an input's, or new."""
        made: list[torch.Tensor] = []
        for k, (sizes, dtype) in enumerate(self.outputs):
            if k in self.written:
                made.append(given[self.written[k]])
            else:
                made.append(
                    torch.empty([s if isinstance(s, int) else given[s[0]].shape[s[1]] for s in sizes], dtype=dtype)
                )
        return made
