"""Rules: a pattern and one function in the builder's vocabulary, applied until none applies.

    @rewrites(lambda b, x: b.relu(b.relu(x)))
    def relu_of_relu(b, x):
        "relu(relu(x)) -> relu(x)"
        return b.relu(x)

The function's parameters are the builder and then, by name, the pattern's variables; one called `root` is the
matched instruction itself. It returns what replaces the root, or `Refuse("why not")`.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Parameter, Return
from migraphx.ir.refusal import Refusal, Refuse
from migraphx.passes.constants import is_constant
from migraphx.passes.interface import Refusals

log = logging.getLogger(__name__)
STEPS_AN_INSTRUCTION = 100  # more rewrites than this for each instruction means that two rules fight


@dataclass(frozen=True)
class Constant:
    """Matches a literal, or views (broadcasts, transposes ...) of one."""

    name: str


@dataclass(frozen=True)
class Node:
    """Matches an instruction of one of `names`; `inputs` None: whatever its inputs are."""

    names: tuple[str, ...]
    inputs: tuple[Pattern, ...] | None
    once: bool = False  # only where it has a single user


Pattern = str | Constant | Node
Env = dict[str, Instruction]


class PatternBuilder:
    """Reads `b.add(b.mul(x, a), y)` as a pattern instead of building it; `b.concat(...)` takes any inputs."""

    def __getattr__(self, name: str) -> Callable[..., Node]:
        return lambda *inputs: self.one_of((name,), *inputs)

    def one_of(self, names: Iterable[str], *inputs: Any) -> Node:
        return Node(tuple(names), None if inputs == (...,) else inputs)

    def constant(self, name: str) -> Constant:
        return Constant(name)

    def once(self, node: Node) -> Node:
        """`node`, where nothing else uses it."""
        return Node(node.names, node.inputs, once=True)


@dataclass(frozen=True)
class Rule:
    name: str
    pattern: Node
    wants: tuple[str, ...]
    function: Callable[..., Instruction | Refuse]


Before = (
    Callable[[PatternBuilder], Node]
    | Callable[[PatternBuilder, str], Node]
    | Callable[[PatternBuilder, str, str], Node]
    | Callable[[PatternBuilder, str, str, str], Node]
    | Callable[[PatternBuilder, str, str, str, str], Node]
    | Callable[[PatternBuilder, str, str, str, str, str], Node]
)
"""A pattern: its parameters are the builder and the names of its variables."""


def rewrites(before: Before) -> Callable[[Callable[..., Instruction | Refuse]], Rule]:
    """Declare a rule: `before` is the pattern, the decorated function builds what replaces it."""
    pattern = before(PatternBuilder(), *list(inspect.signature(before).parameters)[1:])

    def declare(function: Callable[..., Instruction | Refuse]) -> Rule:
        wants = tuple(inspect.signature(function).parameters)[1:]
        return Rule(function.__name__, pattern, wants, function)

    return declare


# ---- matching ----


def match(pattern: Pattern, ins: Instruction, env: Env) -> Iterator[Env]:
    """Every way in which `pattern` reads as `ins`, as values for its variables that extend `env`."""
    if isinstance(pattern, Node):
        if ins.name not in pattern.names or (pattern.once and len(ins.users) > 1):
            return
        if pattern.inputs is None:
            yield env
            return
        yield from _match_all(pattern.inputs, ins.inputs, env)
        if ins.op.commutative:
            yield from _match_all(pattern.inputs, ins.inputs[::-1], env)
        return
    if isinstance(pattern, Constant) and not is_constant(ins):
        return
    name = pattern.name if isinstance(pattern, Constant) else pattern
    if env.get(name, ins) is ins:
        yield {**env, name: ins}


def _match_all(patterns: Sequence[Pattern], inputs: Sequence[Instruction], env: Env) -> Iterator[Env]:
    if len(patterns) != len(inputs):
        return
    if not patterns:
        yield env
        return
    for found in match(patterns[0], inputs[0], env):
        yield from _match_all(patterns[1:], inputs[1:], found)


def depth(pattern: Pattern) -> int:
    """How many instructions deep a pattern looks."""
    return 1 + max(map(depth, pattern.inputs or ()), default=0) if isinstance(pattern, Node) else 0


# ---- applying ----


@dataclass(frozen=True)
class Recorder(Builder):
    """A builder that remembers what it made."""

    made: list[Instruction] = field(default_factory=list[Instruction])

    def instruction(self, *args: Any, **kwargs: Any) -> Instruction:
        self.made.append(super().instruction(*args, **kwargs))
        return self.made[-1]

    def literal(self, value: Any, type: str | None = None) -> Instruction:
        self.made.append(super().literal(value, type))
        return self.made[-1]


def rewrite(module: Module, rules: Sequence[Rule]) -> Refusals:
    """Apply the rules until none applies; what they leave unused is removed. Returns what they refused and is left.

    Only what a change can have affected is looked at again: the new instructions, the users of the old one
    and of whatever has a single user now, and their users as far up as the deepest pattern reaches.
    """
    by_root: dict[str, list[Rule]] = {}
    for rule in rules:
        for name in rule.pattern.names:
            by_root.setdefault(name, []).append(rule)
    reach = max(depth(rule.pattern) for rule in rules)
    queue = deque(ins for ins in module if ins.name in by_root)
    waiting = set(queue)
    refusals: dict[Refusal[Instruction], None] = {}
    budget = STEPS_AN_INSTRUCTION * (len(module) + 1)
    while queue:
        ins = queue.popleft()
        waiting.discard(ins)
        if ins.owner is not module or not ins.users:
            continue
        touched = _apply_first(module, ins, by_root[ins.name], refusals)
        if not touched:
            continue
        budget -= 1
        if not budget:
            raise RuntimeError(f"rewriting {module.name!r} does not end; last at {ins!r}")
        for other in _with_users(touched, reach):
            if other.name in by_root and other not in waiting and other.owner is module:
                waiting.add(other)
                queue.append(other)
    if log.isEnabledFor(logging.DEBUG):
        for reason in dict.fromkeys(f"{r.rule}: {r.why}" for r in refusals):
            log.debug("%s: %s", module.name, reason)
    return [r for r in refusals if r.instruction.owner is module]


def _apply_first(
    module: Module, ins: Instruction, rules: Iterable[Rule], refusals: dict[Refusal[Instruction], None]
) -> list[Instruction]:
    """Apply the first rule that does not refuse; the instructions that it touched, none where all refuse."""
    for rule in rules:
        for env in match(rule.pattern, ins, {}):
            b = Recorder(module, before=ins, origin=ins.origin)
            env["root"] = ins
            new = rule.function(b, *(env[name] for name in rule.wants))
            if isinstance(new, Refuse):
                refusals[Refusal(ins, rule.name, new)] = None
                remove_unused(module, b.made)
                continue
            log.debug("%s: %s applied at %r", module.name, rule.name, ins)
            users, matched = list(ins.users), _inputs_within(ins, depth(rule.pattern))
            substitute(ins, new)
            lonely = [i for i in remove_unused(module, [ins, *b.made]) if len(i.users) == 1]
            _keep_origins(b.made, matched)
            return [*b.made, *users, *lonely]
    return []


def _inputs_within(ins: Instruction, levels: int) -> list[Instruction]:
    """What an instruction is computed from, so many levels deep; itself last."""
    return [j for i in ins.inputs for j in _inputs_within(i, levels - 1)] + [ins] if levels else []


def _keep_origins(made: Iterable[Instruction], matched: Iterable[Instruction]) -> None:
    """What takes the place of an operator of the same name came from where that did.

    So a convolution into whose weights the norm behind it goes is still the convolution's line.
    """
    origins = {i.name: i.origin for i in matched if i.owner is None}
    for ins in made:
        ins.origin = origins.get(ins.name, ins.origin)


def _with_users(touched: Iterable[Instruction], levels: int) -> list[Instruction]:
    """The instructions, and their users up to so many levels."""
    found = level = dict.fromkeys(touched)
    for _ in range(levels):
        level = {u: None for i in level for u in i.users if u not in found}
        found = found | level
    return list(found)


def substitute(old: Instruction, new: Instruction) -> None:
    """Let every user of `old` use `new`; where the strides differ, shapes downstream are inferred anew."""
    if (old.shape.type, old.shape.lens) != (new.shape.type, new.shape.lens):
        raise ValueError(f"{old!r} cannot become {new!r}")
    users = [u for u in old.users if u is not new]
    assert old.owner is not None
    old.owner.replace(old, new)
    if old.shape != new.shape:
        refresh(users)


def refresh(instructions: Iterable[Instruction]) -> None:
    """Infer shapes anew, and those of users as far as they change."""
    queue = deque(instructions)
    while queue:
        ins = queue.popleft()
        if isinstance(ins.op, Parameter) or ins.owner is None:
            continue
        before = ins.shape
        ins.owner.replace_operation(ins, ins.op, ins.inputs, ins.modules)
        if ins.shape != before:
            queue.extend(ins.users)


def remove_unused(module: Module, candidates: Iterable[Instruction]) -> list[Instruction]:
    """Remove those that nothing uses, then their inputs likewise; returns what stays and lost a user."""
    stack, kept = list(candidates), dict[Instruction, None]()
    while stack:
        ins = stack.pop()
        if ins.owner is not module:
            continue
        if ins.users or ins is module.last or isinstance(ins.op, (Parameter, Return)) or not ins.op.pure:
            kept[ins] = None
            continue
        inputs = ins.inputs
        module.remove(ins)
        stack.extend(inputs)
    return list(kept)
