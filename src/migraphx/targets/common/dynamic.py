"""Running a program with dynamic shapes: compiled for the lengths that arrive, once for each."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.operation import Literal
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.ir.text import instruction_text, names_of
from migraphx.runtime.argument import Argument
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.device import HOST, Device
from migraphx.runtime.executable import Executable, Step
from migraphx.runtime.options import CompileOptions
from migraphx.runtime.single_flight import SingleFlightLRU
from migraphx.targets.common.at_lens import AtLens
from migraphx.targets.common.forms import Form, FormCompiler, Forms, Lens, Memory
from migraphx.targets.common.optimals import optimal_lens
from migraphx.targets.common.parts import Part, parts_of
from migraphx.targets.common.run_values import Arguments, RunValues
from migraphx.targets.common.specialise import ProgramSplit, SpecialisedProgram, is_leaf, specialise, split, static_part

log = logging.getLogger(__name__)
Arrays = Mapping[str, np.ndarray]
SMALL = 256  # bytes: larger values are told apart by their digest
AHEAD = 16  # lengths that are compiled before the first run, at most
SEQUENCE_BESIDE_OTHERS = "an output is a sequence whose length depends on data, beside others: give it alone"
READY = 4  # lengths whose memory for runs is kept, at most: the last that ran


class Compiler(Protocol):
    """A target, as far as it compiles static programs."""

    name: str
    device: Device

    def compile(self, program: Program, options: CompileOptions) -> Executable: ...


class DynamicExecutable(Executable):
    """Runs a program whose parameters, or whose values inside, have lengths known only at run time.

    `run` takes the specialisation for the lengths of its inputs (and for the values of those inputs on which shapes
    depend), or compiles it. Lengths that depend on data divide the program: what lies before, the instruction, which
    runs by its NumPy meaning, and the rest, each for all lengths. `threads`: of a run whose options do not say.
    """

    def __init__(
        self,
        target: Compiler,
        program: Callable[[], Program],
        parameters: Mapping[str, Shape],
        outputs: Sequence[Shape],
        options: CompileOptions,
        threads: int,
        forms: FormCompiler | None = None,
    ) -> None:
        """`forms`: compiles a program once for many lengths; None: it is compiled for each."""
        self.target, self.device = target.name, target.device
        self.parameters = {n: s if s.dynamic else s.as_standard() for n, s in parameters.items()}
        self.outputs, self.threads = list(outputs), options.num_threads or threads
        self.region = DynamicRegion(target, program, options, {}, forms, self.parameters)
        self._ran: list[Specialisation] = []

    @classmethod
    def of(
        cls,
        target: Compiler,
        program: Program,
        options: CompileOptions,
        threads: int,
        forms: FormCompiler | None = None,
    ) -> DynamicExecutable:
        """Compiled ahead for the optimal lengths."""
        parameters = {n: i.shape for n, i in program.main.parameters.items()}
        outputs = [s.as_standard() for s in program.main.output_shapes]
        made = cls(target, lambda: program, parameters, outputs, options, threads, forms)
        for lens in optimal_lens(parameters, min(AHEAD, options.max_specialisations)):
            try:
                made.region.specialisation(lens, {}, ahead=True)
            except ValueError as error:  # optimal lengths of two dimensions that must be equal
                log.info("not compiled ahead for %s: %s", lens, error)
        if made.static:
            only = made.region.specialisation({n: s.lens for n, s in parameters.items()}, {}, ahead=True)
            made._ran = only.ahead()
        return made

    @property
    def static(self) -> bool:
        """Whether no length is open: the program is in parts because NumPy computes some of it."""
        return not any(s.dynamic for s in (*self.parameters.values(), *self.outputs))

    @property
    def steps(self) -> list[Step]:
        """Those of the last run."""
        return [step for specialisation in self._ran for step in specialisation.steps]

    @property
    def specialisations(self) -> int:
        """For how many lengths of its inputs the program is compiled now."""
        return len(self.region.specialisations)

    def run(
        self,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument] | None,
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> Sequence[Argument]:
        given = dict(zip(self.parameters, inputs, strict=True))
        specialisation = self._specialisation(given, deadline)
        if isinstance(specialisation, CompiledSpecialisation):
            self._ran = [specialisation]
            _check_outputs(outputs, specialisation.executable.outputs)
            results = specialisation.executable.run(specialisation.inputs(given), outputs, stream, deadline)
            self.region.keep_ready(specialisation)
            return results
        ran: list[Specialisation] = []
        results = specialisation.run(given, stream, ran, deadline)
        self.region.keep_ready(specialisation)
        self._ran = ran
        _check_outputs(outputs, [r.shape for r in results])
        if outputs is None:
            return self._without_sharing(results, inputs, stream)
        for output, made in zip(outputs, results, strict=True):
            made.copy_to(output, stream)
        return outputs

    def _without_sharing(
        self, results: Sequence[Argument], taken: Sequence[Argument], stream: int | None
    ) -> list[Argument]:
        """The results, those copied that share memory with an input or another result."""
        apart: list[Argument] = []
        for made in results:
            if any(made.overlaps(a) for a in (*taken, *apart)):
                copy = Argument.empty(made.shape, self.device, stream)
                made.copy_to(copy, stream)
                made = copy
            apart.append(made)
        return apart

    def _specialisation(self, given: Arguments, deadline: Deadline | None = None) -> Specialisation:
        return self.region.specialisation({n: a.shape.lens for n, a in given.items()}, {}, deadline)

    def in_place(self, inputs: Sequence[Argument]) -> Mapping[int, int]:
        if self.static:  # and in parts, each with memory of its own
            return {}
        given = dict(zip(self.parameters, inputs, strict=True))
        specialisation = self._specialisation(given)
        if not isinstance(specialisation, CompiledSpecialisation):
            return {}
        own = specialisation.executable
        numbers = self._numbers(own)
        return {output: numbers[k] for output, k in own.in_place(specialisation.inputs(given)).items()}

    def _numbers(self, own: Executable) -> list[int]:
        """Where the parameters of a specialisation stand among those of the program."""
        number = {n: k for k, n in enumerate(self.parameters)}
        return [number[n] for n in own.parameters]

    def release(self) -> None:
        self.region.release()

    def run_at(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        if not self.static:
            raise ValueError("the program has dynamic shapes: addresses do not say which; use run")
        super().run_at(inputs, outputs, stream, deadline)

    def at(self, lens: Lens) -> AtLens | None:
        """What runs it on inputs and outputs at addresses, for these lens; None where that is not one program."""
        lens = {n: lens[n] for n in self.parameters}  # the order in which `run` has them: keys are alike
        region, looked = self.region, self.region.looked_again
        specialisation = region.specialisation(lens, {})
        if not isinstance(specialisation, CompiledSpecialisation):
            return None

        def ran() -> None:
            self._ran = [specialisation]
            region.keep_ready(specialisation)

        own = specialisation.executable
        return AtLens(own, self._numbers(own), ran, lambda: region.looked_again == looked)

    def profile(self, inputs: Sequence[Argument], runs: int) -> list[float]:
        """Seconds of each of `steps` for these inputs."""
        self.run(inputs, None)
        given = dict(zip(self.parameters, inputs, strict=True))
        return self._specialisation(given).profile(given, runs)

    def sections(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The forms, and the specialisations that are compiled as a whole, each with its lengths."""
        specialisations: list[dict[str, Any]] = []
        tensors: dict[str, np.ndarray] = {}
        if self.region.forms is not None:  # a file's code serves other lengths than the optimal ones, too
            for lens in optimal_lens(self.parameters, 1):
                self.region.forms.at_least_one(lens)
        saved = {form: made for form in self.region.forms or () if (made := form.sections()) is not None}
        for key, specialisation in self.region.specialisations.items():
            whole = isinstance(specialisation, CompiledSpecialisation)
            if whole and not (isinstance(specialisation, FormSpecialisation) and specialisation.form in saved):
                data, own = specialisation.executable.sections()
                tensors |= {f"{len(specialisations)}.{n}": a for n, a in own.items()}
                specialisations.append({"key": key, "data": data})
        for k, (_, own) in enumerate(saved.values()):
            tensors |= {f"form{k}.{n}": a for n, a in own.items()}
        forms = [data for data, _ in saved.values()]
        parameters = [[n, s.to_data()] for n, s in self.parameters.items()]
        outputs = [s.to_data() for s in self.outputs]
        own = {"parameters": parameters, "outputs": outputs, "stages": specialisations, "forms": forms}
        return {"dynamic": own}, tensors


def restored(
    target: Compiler,
    data: dict[str, Any],
    tensors: Mapping[str, np.ndarray],
    restore: Callable[[dict[str, Any], dict[str, np.ndarray]], Executable | None],
    program: Callable[[], Program],
    options: CompileOptions,
    threads: int,
    forms: FormCompiler | None = None,
    restore_form: Callable[[dict[str, Any], dict[str, np.ndarray]], Form | None] | None = None,
) -> DynamicExecutable | None:
    """What `sections` described, or None where one of its specialisations or forms cannot be restored."""
    parameters = {n: Shape.from_data(s) for n, s in data["parameters"]}
    outputs = [Shape.from_data(s) for s in data["outputs"]]
    made = DynamicExecutable(target, program, parameters, outputs, options, threads, forms)
    for k, saved in enumerate(data["stages"]):
        executable = restore(saved["data"], _named(str(k), tensors))
        if executable is None:
            return None
        lens = map(tuple[int, ...], saved["key"][0])
        made.region.keep(dict(zip(parameters, lens, strict=True)), CompiledSpecialisation(executable))
    for k, saved in enumerate(data.get("forms", ())):
        form = None if restore_form is None else restore_form(saved, _named(f"form{k}", tensors))
        if form is None or made.region.forms is None:
            return None
        made.region.forms.keep(form)
    return made


def _named(prefix: str, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those of one part, by its own names."""
    return {n.removeprefix(f"{prefix}."): a for n, a in tensors.items() if n.startswith(f"{prefix}.")}


def _check_outputs(outputs: Sequence[Argument] | None, shapes: Sequence[Shape]) -> None:
    """ValueError where memory given for the outputs is not what the run makes."""
    if outputs is None:
        return
    if len(outputs) != len(shapes):
        raise ValueError(f"the program gave {len(shapes)} outputs, memory was given for {len(outputs)}")
    for k, (output, made) in enumerate(zip(outputs, shapes, strict=True)):
        if (output.shape.type, output.shape.lens) != (made.type, made.lens) or not output.shape.standard:
            raise ValueError(f"output {k} has shape {made}, the memory given {output.shape}")


class DynamicRegion:
    """A program whose lengths are known only at run time, and what it was compiled for so far.

    `known`: the parameters whose values are compiled in, and why; `parameters`: their shapes, where the program is not
    read yet.
    """

    def __init__(
        self,
        target: Compiler,
        program: Callable[[], Program],
        options: CompileOptions,
        known: Mapping[str, str],
        forms: FormCompiler | None = None,
        parameters: Mapping[str, Shape] | None = None,
    ) -> None:
        self.target, self.options, self.known, self.form_compiler = target, options, known, forms
        self._program, self.forms = program, None
        if forms is not None and not known:
            shapes = {n: i.shape for n, i in self.program.main.parameters.items()} if parameters is None else parameters
            self.forms = Forms(forms, options, lambda: self.program, shapes, self._look_again)
        self._divided: DividedSpecialisation | None = None
        self.specialisations: SingleFlightLRU[Hashable, Specialisation] = SingleFlightLRU(
            options.max_specialisations, apart=True
        )
        self._ready: list[Memory] = []
        self.looked_again = 0
        """How often better forms came: what was found for some lengths before may no longer be the best."""

    @cached_property
    def program(self) -> Program:
        """Of a file it is read when there is something to compile."""
        return self._program()

    def specialisation(
        self, lens: Lens, values: Arrays, deadline: Deadline | None = None, ahead: bool = False
    ) -> Specialisation:
        """`ahead`: for these lengths alone, which is quicker to run where sizes decide how."""
        key, forms = self._key(lens, values), None if ahead else self.forms
        found = self.specialisations.find(key)
        if found is None and forms is not None and (form := forms.find(lens)):
            found = FormSpecialisation(*form)
            self.specialisations.put(key, found)

        def make() -> Specialisation:
            if self._divided is not None:
                return self._divided
            form = None if forms is None else forms.made(lens)
            return self._compiled(lens, values) if form is None else FormSpecialisation(*form)

        return found or self.specialisations.get(key, make, deadline)

    def behind(
        self, feeds: Mapping[str, Instruction], values: RunValues, deadline: Deadline | None = None
    ) -> tuple[Specialisation, Arguments]:
        """The specialisation for what was computed before, and what it gets of that; known values are compiled in."""
        known = {n: np.array(values.array(feeds[n])) for n in self.known}
        given = {n: values.argument(i) for n, i in feeds.items() if n not in known}
        lens = {n: known[n].shape if n in known else given[n].shape.lens for n in feeds}
        return self.specialisation(lens, known, deadline), given

    def ahead(self, feeds: Mapping[str, Instruction]) -> Specialisation | None:
        """The specialisation for what will be computed before; None where its lengths or values are not known yet."""
        shapes = {n: i.shape for n, i in feeds.items()}
        if self.known or any(s.dynamic for s in shapes.values()):
            return None
        return self.specialisation({n: s.lens for n, s in shapes.items()}, {}, ahead=True)

    def _look_again(self) -> None:
        """There is a better form for some lengths: take the best at their next run."""
        made = {key for key, one in self.specialisations.items() if isinstance(one, FormSpecialisation)}
        self.specialisations.forget(made.__contains__)
        self.looked_again += 1

    def keep(self, lens: Lens, specialisation: Specialisation) -> None:
        self.specialisations.put(self._key(lens, {}), specialisation)

    def keep_ready(self, specialisation: Specialisation) -> None:
        """Keep the memory of the specialisations that ran last; the others, perhaps hundreds, give theirs back.

        And begin to compile a better form, where these lengths asked for one.
        """
        if self.forms is not None:
            self.forms.improve()
        memory = specialisation.memory
        if self._ready[:1] != [memory]:
            ready = [memory, *(m for m in self._ready if m is not memory)]
            for old in ready[READY:]:
                old.release()
            self._ready = ready[:READY]

    def release(self) -> None:
        for specialisation in self.specialisations.values():
            specialisation.release()
        if self.forms is not None:
            self.forms.release()

    def _key(self, lens: Lens, values: Arrays) -> Hashable:
        """That of `specialisations`."""
        return tuple(lens.values()), tuple(fingerprint(values[n]) for n in self.known)

    def _compiled(self, lens: Lens, values: Arrays) -> Specialisation:
        start = time.perf_counter()
        types = {n: i.shape.type for n, i in self.program.main.parameters.items()}
        made = specialise(self.program.main, {n: Shape(types[n], lens[n]) for n in types}, values)
        cut = split(made)
        parts = None if cut.whole or self.known else parts_of(self.program.main, made, cut)
        if parts is not None:
            self._divided = DividedSpecialisation(self, parts)
            return self._divided
        specialisation = (
            CompiledSpecialisation(self.target.compile(made.program, self.options))
            if cut.whole
            else SplitSpecialisation(self, made, cut)
        )
        what = ", ".join(f"{n} {d}" for n, d in lens.items())
        log.info("compiled for %s in %.2f s", what, time.perf_counter() - start)
        return specialisation


def fingerprint(value: np.ndarray) -> bytes:
    data = value.tobytes()
    return data if len(data) <= SMALL else hashlib.sha256(data).digest()


class CompiledSpecialisation:
    """A region compiled for one set of lengths, as one program."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable

    @property
    def steps(self) -> Sequence[Step]:
        return self.executable.steps

    def inputs(self, given: Arguments) -> list[Argument]:
        return [given[n] for n in self.executable.parameters]

    def run(
        self, given: Arguments, stream: int | None, ran: list[Specialisation], deadline: Deadline | None
    ) -> list[Argument]:
        ran.append(self)
        return list(self.executable.run(self.inputs(given), None, stream, deadline))

    def ahead(self) -> list[Specialisation]:
        """Itself, as `run` notes it."""
        return [self]

    def profile(self, given: Arguments, runs: int) -> list[float]:
        return self.executable.profile(self.inputs(given), runs)

    @property
    def memory(self) -> Memory:
        return self.executable

    def release(self) -> None:
        self.executable.release()


class FormSpecialisation(CompiledSpecialisation):
    """A form at one set of lengths; its memory is the form's, and that of other lengths, too."""

    def __init__(self, executable: Executable, form: Form) -> None:
        super().__init__(executable)
        self.form = form

    @property
    def memory(self) -> Memory:
        return self.form.memory


class SplitSpecialisation:
    """A region for one set of lengths that data cuts: a compiled program, NumPy's instructions, and the region behind.

    Values come to main memory where NumPy needs them, or the next lengths depend on them; each is a step.
    """

    def __init__(self, region: DynamicRegion, made: SpecialisedProgram, cut: ProgramSplit) -> None:
        self.cut, self.before, self.rest = cut, None, None
        self.device = region.target.device
        main = made.program.main
        if cut.wanted:
            self.before = CompiledSpecialisation(region.target.compile(static_part(main, cut.wanted), region.options))
        rest = cut.rest
        if rest is not None:
            self.rest = DynamicRegion(region.target, lambda: rest, region.options, cut.known, region.form_compiler)
        names = names_of(main)
        self.host_steps = [Step(instruction_text(h, names), "host", h.origin, 0, 0) for h in cut.host]
        for step in self.host_steps:
            log.info("runs on the host, by NumPy: %s", step.text)
        for name, why in cut.known.items():
            log.info("what follows is compiled for each value of %s, on which a shape depends: %s", name, why)
        if self.device is not HOST:
            wanted = [i for i in cut.host_reads if not isinstance(i.op, Literal)]
            self.host_steps += [
                Step(instruction_text(i, names), "to the host", i.origin, i.shape.bytes, 0) for i in wanted
            ]

    @property
    def steps(self) -> list[Step]:
        return [*(self.before.steps if self.before else ()), *self.host_steps]

    def run(
        self, given: Arguments, stream: int | None, ran: list[Specialisation], deadline: Deadline | None
    ) -> list[Argument]:
        ran.append(self)
        values = self._values(given, stream, deadline)
        late: Sequence[Argument] = []
        if self.rest is not None:
            specialisation, feeds = self.rest.behind(self.cut.feeds, values, deadline)
            late = specialisation.run(feeds, stream, ran, deadline)
            self.rest.keep_ready(specialisation)
        return self._gathered(values, late)

    def ahead(self) -> list[Specialisation]:
        """Compile what follows, where its lengths are known; what a run would note."""
        following = None if self.rest is None else self.rest.ahead(self.cut.feeds)
        return [self, *(following.ahead() if following else ())]

    def _gathered(self, values: RunValues, late: Sequence[Argument]) -> list[Argument]:
        """The outputs in order; those of the rest may be more than one each, of a sequence."""
        known = [o for o in self.cut.outputs if not self._is_late(o)]
        if not known:
            return list(late)
        if len(late) != len(self.cut.outputs) - len(known):
            raise ValueError(SEQUENCE_BESIDE_OTHERS)
        rest = iter(late)
        return [next(rest) if self._is_late(o) else values.argument(o) for o in self.cut.outputs]

    def _is_late(self, ins: Instruction) -> bool:
        return not (is_leaf(ins) or ins in self.cut.wanted or ins in self.cut.host)

    def _values(self, given: Arguments, stream: int | None, deadline: Deadline | None = None) -> RunValues:
        """What the compiled part and then the host make of the inputs."""
        values = RunValues(given, self.device, stream)
        if self.before is not None:
            values.add(self.cut.wanted, self.before.run(given, stream, [], deadline))
        for ins in self.cut.host:
            values.compute(ins, deadline)
        return values

    def profile(self, given: Arguments, runs: int) -> list[float]:
        seconds = list(self.before.profile(given, runs)) if self.before else []
        start = time.perf_counter()
        values = self._values(given, None)
        following = None if self.rest is None else self.rest.behind(self.cut.feeds, values)
        spent = time.perf_counter() - start - sum(seconds)
        seconds += [max(spent, 0.0) / len(self.host_steps)] * len(self.host_steps) if self.host_steps else []
        if following is None:
            return seconds
        specialisation, feeds = following
        return [*seconds, *specialisation.profile(feeds, runs)]

    @property
    def memory(self) -> Memory:
        return self

    def release(self) -> None:
        for part in (self.before, self.rest):
            if part is not None:
                part.release()


class DividedSpecialisation:
    """A region that data cuts, for all lengths: parts that are regions of their own, one after the other."""

    steps: Sequence[Step] = ()  # those of its parts

    def __init__(self, region: DynamicRegion, parts: Sequence[Part]) -> None:
        self.device, self.outputs = region.target.device, list(region.program.main.outputs)
        self.parts = list(parts)
        self.regions = [
            DynamicRegion(
                region.target, lambda p=p: p.program, region.options, p.known, None if p.cuts else region.form_compiler
            )
            for p in parts
        ]
        for name, why in self.regions[-1].known.items():
            log.info("what follows is compiled for each value of %s, on which a shape depends: %s", name, why)

    def run(
        self, given: Arguments, stream: int | None, ran: list[Specialisation], deadline: Deadline | None
    ) -> list[Argument]:
        values = RunValues(given, self.device, stream)
        for part, region in zip(self.parts, self.regions, strict=True):
            specialisation, feeds = region.behind(part.feeds, values, deadline)
            made = specialisation.run(feeds, stream, ran, deadline)
            region.keep_ready(specialisation)
            if part.results == self.outputs:
                return made  # a sequence is several
            if len(made) != len(part.results):
                raise ValueError(SEQUENCE_BESIDE_OTHERS)
            values.add(part.results, made)
        return [values.argument(o) for o in self.outputs]

    def ahead(self) -> list[Specialisation]:
        """Compile the parts whose lengths are known; what a run would note."""
        made: list[Specialisation] = []
        for part, region in zip(self.parts, self.regions, strict=True):
            specialisation = region.ahead(part.feeds)
            if specialisation is None:
                break
            made += specialisation.ahead()
        return made

    def profile(self, given: Arguments, runs: int) -> list[float]:
        values = RunValues(given, self.device, None)
        seconds: list[float] = []
        for part, region in zip(self.parts, self.regions, strict=True):
            specialisation, feeds = region.behind(part.feeds, values)
            seconds += specialisation.profile(feeds, runs)
            if part is not self.parts[-1]:
                values.add(part.results, specialisation.run(feeds, None, [], None))
        return seconds

    @property
    def memory(self) -> Memory:
        return self

    def release(self) -> None:
        for region in self.regions:
            region.release()


Specialisation = CompiledSpecialisation | SplitSpecialisation | DividedSpecialisation
