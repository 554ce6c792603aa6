"""Program: the modules of one model, `main` first."""

from __future__ import annotations

from migraphx.ir.module import Instruction, Module


class Program:
    """Owns named modules. `main` takes the inputs and returns the outputs."""

    def __init__(self) -> None:
        self.modules: dict[str, Module] = {"main": Module("main")}

    @property
    def main(self) -> Module:
        return self.modules["main"]

    def create_module(self, name: str) -> Module:
        if name in self.modules:
            raise ValueError(f"the program already has a module {name!r}")
        self.modules[name] = Module(name)
        return self.modules[name]

    def fresh_module(self, stem: str) -> Module:
        """A new module whose name is `stem` and the first free number."""
        n = 0
        while f"{stem}{n}" in self.modules:
            n += 1
        return self.create_module(f"{stem}{n}")

    def drop_unused_modules(self) -> None:
        """Forget the modules that no instruction refers to any more; they use none of the values around them then."""
        used = reachable(self.main)
        for module in set(self.modules.values()).difference(used):
            module.clear()
        self.modules = {m.name: m for m in used}

    def clone(self) -> Program:
        """A copy that shares operations and literals' memory, and nothing that can change."""
        copy, env, copies = Program(), dict[Instruction, Instruction](), dict[Module, Module]()
        for module in self.modules.values():
            if module not in copies:
                module.clone(env, copies)
        copy.modules = {m.name: m for m in copies.values()}
        return copy


def reachable(module: Module, kernels: bool = True) -> list[Module]:
    """`module` and every module its instructions refer to, each once, outermost first; with `kernels` their bodies."""
    seen: dict[Module, None] = {module: None}
    stack = [module]
    while stack:
        for ins in stack.pop():
            for m in ins.modules if kernels or not ins.op.fused else ():
                if m not in seen:
                    seen[m] = None
                    stack.append(m)
    return list(seen)
