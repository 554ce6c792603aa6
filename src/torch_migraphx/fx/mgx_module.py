"""MGXModule: a `migraphx.program` that is called like any `torch.nn.Module`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import get_spawning_popen
from typing import Any, Unpack

import numpy as np
import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn.modules.module import _has_any_global_hook
from torch.utils._pytree import tree_leaves

import migraphx
from migraphx import CompileOptions
from torch_migraphx.devices import Place, on_device_of
from torch_migraphx.fx.dtypes import DTYPES, to_numpy
from torch_migraphx.fx.inputs import Input, Inputs
from torch_migraphx.fx.mgx_instruction import MGXInstruction
from torch_migraphx.log import get_logger
from torch_migraphx.options import ModuleKeywords

__all__ = ["ForInference", "MGXInstruction", "MGXModule", "SplitModule"]

logger = get_logger(__name__)
OUTPUT = "main:#output_"
ADDRESS = torch.Tensor.data_ptr


def refuse_recorders(inputs: Sequence[Any]) -> None:
    """RuntimeError where the call is recorded, or an input has a tangent of forward-mode differentiation.

    A tracer would keep this answer for every input, or its empty memory; the answer has no tangent, which means 0.
    """
    if forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(x).tangent is not None for x in inputs if isinstance(x, torch.Tensor)
    ):
        raise RuntimeError("a compiled program computes no tangents: use the model, or torch.compile(model)")
    if torch._C._is_tracing():
        raise RuntimeError("torch.jit.trace cannot record a compiled program; trace the model before it is lowered")
    if torch._C._len_torch_dispatch_stack() and get_proxy_mode() is not None:
        raise RuntimeError("torch.export cannot record a compiled program; export the model before it is lowered")


def is_observed(*modules: nn.Module) -> bool:
    """Whether a call of one is more than a call of its class's `forward`: somebody traces it, or has hooks there."""
    if is_fx_symbolic_tracing() or _has_any_global_hook():
        return True
    for module in modules:
        own = module.__dict__
        if own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]:
            return True
        if "forward" in own or module._compiled_call_impl is not None:
            return True
    return False


class ForInference(nn.Module):
    """A module that was compiled for inference, for one device and its types; says so where it is asked to change."""

    _told = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The answer; in a symbolic trace of torch.fx, a call of this module as a whole."""
        if is_fx_symbolic_tracing():
            proxy = next((x for x in tree_leaves((args, kwargs)) if isinstance(x, fx.Proxy)), None)
            if proxy is not None:
                path = proxy.tracer.path_of_module(self)  # type: ignore[attr-defined]
                return proxy.tracer.create_proxy("call_module", path, args, kwargs)
        return super().__call__(*args, **kwargs)

    def train(self, mode: bool = True) -> Any:
        """Stays in inference mode; says so, once, where another is asked for."""
        if mode and not self._told:
            self._told = True
            logger.warning(
                "train() has no effect on a compiled %s, which runs as in eval(): train the model it was lowered from, "
                "or use torch.compile(model, backend='migraphx')",
                type(self).__name__,
            )
        return super().train(False)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """`.to()`, `.half()` and the like: RuntimeError where they would change the type or device of a program."""
        for module in self.modules():
            if isinstance(module, MGXModule):
                module.refuse_change(fn)
        return super()._apply(fn, recurse)


class MGXModule(ForInference):
    """Runs a program on tensors, without copying them. Compiled at construction; may be called from many threads.

    `input_names` gives the order of the inputs. Returns a tensor, or a tuple where the program has several outputs;
    outputs are new, row-major tensors. Computes no gradients: an input that needs one is an error.
    """

    def __init__(
        self,
        program: migraphx.program | None = None,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        quantize_fp16: bool = False,
        quantize_bf16: bool = False,
        exhaustive_tune: bool = False,
        enable_par_conversion: bool = False,
        *,
        target: str = "cpu",
        **options: Unpack[ModuleKeywords],
    ) -> None:
        """Without a program, an empty module whose state `load_state_dict` fills.

        `output_names` are the program's own where none are given. `quantize_fp16` and `quantize_bf16` convert a program
        that is not compiled yet to these types first. `enable_par_conversion` is taken for AMD's sake and changes
        nothing: outputs are tensors from the start. The options are those of a compilation (CompileOptions). ValueError
        for an unknown target, or one that an option does not suit.
        """
        super().__init__()
        self.options = CompileOptions.of(**options, exhaustive_tune=exhaustive_tune, offload_copy=False)
        self.options.check_target(migraphx.get_target(target))
        self.program = program
        self.input_names, self.output_names = tuple(input_names or ()), tuple(output_names or ())
        self.quantize_fp16, self.quantize_bf16 = quantize_fp16, quantize_bf16
        self.enable_par_conversion = enable_par_conversion
        self.target = target
        self.weights: dict[str, int] = {}
        """Names of a model's weights, and which literal of the program each is; `refit` takes other values for them."""
        if program is not None:
            self._compile(program)

    def _compile(self, program: migraphx.program) -> None:
        declared = {n: s for n, s in program.get_parameter_shapes().items() if not n.startswith(OUTPUT)}
        unknown = set(declared) ^ set(self.input_names)
        if unknown:
            raise ValueError(
                f"input_names are {list(self.input_names)}, the program's parameters {list(declared)}: "
                f"{sorted(unknown)} differ"
            )
        if not program.is_compiled():
            if self.quantize_fp16:
                migraphx.quantize_fp16(program)
            if self.quantize_bf16:
                migraphx.quantize_bf16(program)
            program.compile(migraphx.get_target(self.target), **self.options.compile_keywords())
        self._bind(program, declared)
        self.output_names = self.output_names or tuple(self._infer_output_names())

    def _infer_output_names(self) -> list[str]:
        """The parameters of a program that are no inputs, in the order of their numbers; else a number for each."""
        assert self.program is not None
        found = [n for n in self.program.get_parameter_names() if n not in self.input_names]
        if not found:
            return [f"{OUTPUT}{k}" for k in range(len(self.program.get_output_shapes()))]
        return sorted(found, key=lambda name: int((re.findall(r"\d+", name) or ["0"])[-1]))

    def _bind(self, program: migraphx.program, declared: dict[str, migraphx.shape]) -> None:
        kept = program.get_parameter_shapes()
        self._place = Place.of(self.target)
        self._inputs = [Input(n, kept.get(n, declared[n]), self._place) for n in self.input_names]
        self._order = [self.input_names.index(n) for n in kept if not n.startswith(OUTPUT)]
        self._in_order = self._order == list(range(len(self._inputs)))
        self._outputs = [
            (tuple(s.lens()), tuple(s.strides()), DTYPES[s.type_string().removesuffix("_type")])
            for s in program.get_output_shapes()
        ]
        self._makers = [self._place.maker(*output) for output in self._outputs]
        self._all = Inputs(dict(enumerate(self._inputs)))
        self._written: dict[int, int] = {}

    def write_in_place(self, pairs: Mapping[int, int]) -> None:
        """Let outputs be written to the memory of inputs, where the program can do so: `{output: input}`, by number.

        A call then returns that input, with its new elements, unless it had to be copied to be read.
        """
        kept = self.program.get_in_place() if self.program is not None and hasattr(self.program, "get_in_place") else {}
        self._written = {k: n for k, n in pairs.items() if kept.get(f"{OUTPUT}{k}") == self.input_names[n]}

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Run the program.

        TypeError for another number of inputs or another type of one, ValueError for another shape or device;
        RuntimeError for an input that needs a gradient or has a tangent, inside torch.jit.trace or torch.export, and
        where the module is empty; IndexError where an index inside is out of range, torch.linalg.LinAlgError where a
        matrix is singular.
        """
        return self.run(inputs)

    def run_unless_changed(self, image: Any, inputs: Sequence[torch.Tensor]) -> Any:
        """As `forward`; None where the memory of `image`, which the engine made, is not as it was.

        It is looked at while the program runs, unless that writes to its inputs.
        """
        if image is not None and self._written:
            if not image.same():
                return None
            image = None
        return self.run(inputs, image)

    def run(self, inputs: Sequence[torch.Tensor], image: Any = None) -> Any:
        """What `forward` and `run_unless_changed` do; of microseconds, in which each call of a function counts."""
        if self.program is None:
            raise RuntimeError("this MGXModule is empty: give it a program, or load a state dict")
        if len(inputs) != len(self._inputs):
            names = ", ".join(self.input_names)
            raise TypeError(f"takes {len(self._inputs)} inputs ({names}), got {len(inputs)}")
        refuse_recorders(inputs)
        alive: list[torch.Tensor] = []  # copies: until the run is over, or in the stream before who takes their memory
        last = self._all.last
        addresses = last.addresses(inputs, alive) if last else None
        if addresses is None:
            fake = next((x for x in inputs if isinstance(x, FakeTensor)), None)
            if fake is not None and all(map(Input.likens, self._inputs, inputs)):
                return self._imagined(fake)
            addresses = self._all.looked_at(inputs, alive)
        results = self._results(inputs, addresses) if self._written else [make() for make in self._makers]
        return self._run_at(addresses if self._in_order else [addresses[k] for k in self._order], results, image)

    def _run_at(self, addresses: list[int], results: list[torch.Tensor], image: Any) -> Any:
        """Run on what lies at these addresses, in the order of the program's parameters."""
        program = self.program
        assert program is not None
        outputs, stream = list(map(ADDRESS, results)), self._place.stream()
        try:
            if image is None:
                program.run_at(addresses, outputs, stream)
            elif not program.run_unless_changed(image, addresses, outputs, stream):
                return None
        except np.linalg.LinAlgError as error:
            raise torch.linalg.LinAlgError(str(error)) from None  # pyright: ignore[reportPrivateImportUsage]
        return results[0] if len(results) == 1 else tuple(results)

    def holding(self, held: Mapping[int, torch.Tensor]) -> Callable[[Any, Sequence[torch.Tensor]], Any] | None:
        """`run_unless_changed` of the other inputs, while these tensors, by their numbers, stay as they are.

        It asks nothing of them: of hundreds of weights that takes a third of the time of the host. Their elements
        may change. None where one of them is copied before each run, or written.
        """
        program, copies = self.program, list[torch.Tensor]()
        if program is None or self._written:
            return None
        found = Inputs({k: self._inputs[k] for k in held}).looked_at([*held.values()], copies)
        if copies:
            return None
        lie = dict(zip(held, found, strict=True))
        free = [k for k in range(len(self._inputs)) if k not in held]
        others = Inputs({k: self._inputs[k] for k in free})
        addresses = [lie.get(k, 0) for k in self._order]
        places = [(self._order.index(k), at) for at, k in enumerate(free) if k in self._order]
        gradients = any(x.requires_grad for x in held.values())

        def run(image: Any, inputs: Sequence[torch.Tensor]) -> Any:
            alive: list[torch.Tensor] = []
            asks = self.program is not program or forward_ad._current_level >= 0
            asks = asks or (gradients and torch.is_grad_enabled())
            found = None if asks or others.last is None else others.last.addresses(inputs, alive)
            if found is None and (asks or any(isinstance(x, FakeTensor) for x in inputs)):
                given = {**held, **dict(zip(free, inputs, strict=True))}
                return self.run_unless_changed(image, [given[k] for k in range(len(given))])
            refuse_recorders(inputs)
            if found is None:
                found = others.looked_at(inputs, alive)
            now = addresses.copy()
            for place, at in places:
                now[place] = found[at]
            return self._run_at(now, [make() for make in self._makers], image)

        return run

    def _results(self, inputs: Sequence[torch.Tensor], addresses: Sequence[int]) -> list[torch.Tensor]:
        """Memory for the outputs: new, or an input's that is read where it lies."""
        taken = {k: inputs[n] for k, n in self._written.items() if inputs[n].data_ptr() == addresses[n]}
        return [taken[k] if k in taken else make() for k, make in enumerate(self._makers)]

    def _imagined(self, x: FakeTensor) -> Any:
        """What the program would give, of fake tensors: their sizes and types."""
        with x.fake_mode:
            results = [
                torch.empty_strided(sizes, strides, dtype=dtype, device=self._place.device)
                for sizes, strides, dtype in self._outputs
            ]
        return results[0] if len(results) == 1 else tuple(results)

    def refuse_change(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Raise where `fn`, by which a module's tensors are changed, gives them another type or device."""
        if self.program is None:
            return
        types = {spec.dtype for spec in self._inputs} | {dtype for _, _, dtype in self._outputs}
        for dtype in {t for t in types if t.is_floating_point} or {torch.float32}:
            made = fn(torch.zeros(1, dtype=dtype, device=self._place.device))
            if not self._place.holds(made):
                where = made.device.type if made.device.type != self._place.device.type else made.device
                raise RuntimeError(f"a compiled program cannot move to {where}: it was compiled for {self._place}")
            if made.dtype != dtype:
                raise RuntimeError(
                    f"a program that was compiled for {dtype} cannot change to {made.dtype}: change the model, or say "
                    "lower_precision='fp16' or 'bf16', and lower it again"
                )

    def note_weights(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Fill `weights`: each literal that lies in the memory of one of these tensors is that tensor."""
        assert self.program is not None
        places = {}
        literals = (i for i in self.program.clone(compiled=False).get_main_module() if i.name() == "@literal")
        for k, literal in enumerate(literals):
            value = literal.get_literal()
            places[value.data_ptr(), tuple(value.get_shape().lens())] = k
        keys = {name: (x.data_ptr(), tuple(x.shape)) for name, x in tensors.items()}
        self.weights = {name: places[key] for name, key in keys.items() if key in places}

    def refitted(self, tensors: Mapping[str, torch.Tensor]) -> migraphx.program:
        """The program compiled with other values of some of `weights`, which are copied; this module keeps its own.

        ValueError for another shape or type.
        """
        assert self.program is not None
        given = {self.weights[name]: to_numpy(x) for name, x in tensors.items() if name in self.weights}
        program = migraphx.refit(self.program, given)
        program.compile(migraphx.get_target(self.target), **self.options.compile_keywords())
        return program

    def extra_repr(self) -> str:
        return f"inputs={list(self.input_names)}, target={self.target!r}"

    # ---- saving: the program travels as the bytes of an .mxr file, never as pickled code ----

    def _state(self) -> dict[str, Any]:
        """What saves and pickles hold.

        A tensor goes to a process that is being spawned as a file that is open while the tensor lives, which this one
        would not do: there the bytes go themselves.
        """
        saved = b"" if self.program is None else migraphx.save_buffer(self.program)
        spawns = get_spawning_popen() is not None
        return {
            "mxr": saved if spawns else torch.from_numpy(np.frombuffer(saved, np.uint8).copy()),
            "input_names": list(self.input_names),
            "output_names": list(self.output_names),
            "target": self.target,
            "options": dict(self.options.compile_keywords()),
            "weights": dict(self.weights),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.input_names, self.output_names = tuple(state["input_names"]), tuple(state["output_names"])
        self.target, self.options = state["target"], CompileOptions.of(**state.get("options", {}))
        self.weights = dict(state.get("weights", {}))
        mxr = state["mxr"]  # on the GPU that `map_location` names
        saved, places = (mxr.cpu().numpy().tobytes(), [mxr]) if isinstance(mxr, torch.Tensor) else (mxr, [])
        with on_device_of(places if self.target == "gpu" else []):
            self.program = migraphx.load_buffer(saved) if saved else None
            if self.program is not None:
                self._compile(self.program)

    def get_extra_state(self) -> dict[str, Any]:
        return self._state()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self._restore(state)

    def __getstate__(self) -> dict[str, Any]:
        return self._state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__init__()
        self._restore(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> MGXModule:
        """The copy shares the compiled program, which nothing changes."""
        copy = MGXModule.__new__(MGXModule)
        copy.__dict__.update({k: v.copy() if isinstance(v, dict) else v for k, v in self.__dict__.items()})
        memo[id(self)] = copy
        return copy


class SplitModule(ForInference, fx.GraphModule):
    """A graph of calls of MGXModules and of what stays in torch."""

    def print_subgraph(self, mod: str) -> None:
        """Print the program, or the graph, of the submodule `mod`."""
        module = self.get_submodule(mod)
        print(module.program if isinstance(module, MGXModule) else getattr(module, "graph", module))  # noqa: T201

    def print_all_subgraphs(self) -> None:
        """Print each submodule's name and its program or graph."""
        for name, _ in self.named_children():
            print(f"Submodule: {name}")  # noqa: T201
            self.print_subgraph(name)

    def enable_par_conversion(self, num_outs: int = 10) -> None:
        """Taken for AMD's sake: outputs are tensors from the start, so there is nothing to convert."""
