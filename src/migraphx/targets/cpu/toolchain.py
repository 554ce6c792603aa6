"""Find a C++ compiler, compile translation units side by side, link them into a shared object."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from migraphx.runtime.cores import available
from migraphx.runtime.options import NATIVE
from migraphx.runtime.side_by_side import side_by_side
from migraphx.targets.common.beside import give_way, is_beside
from migraphx.targets.common.cache import SPACE, digest, obtain
from migraphx.targets.common.progress import progress
from migraphx.targets.common.scratch import temporary_folder
from migraphx.targets.cpu.headers import KERNELS, constant
from migraphx.targets.cpu.isa import made_for
from migraphx.targets.target import CompilerError

log = logging.getLogger(__name__)

FLAGS = (
    "-std=c++20",
    "-O3",
    "-fPIC",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-semantic-interposition",
    "-w",
    "-pipe",  # a temporary file less
)
# Linking against all that C++ may need takes twice as long.
NEEDED = ("-nodefaultlibs", "-Wl,-z,defs", "-lm", "-lc", "-lgcc")
FIRST_CLANG_WRONG_ON_BF16 = 15  # 15 to 19 have not been tried
TIMEOUT_SECONDS = 600
HELP = (
    "install g++ (Debian: apt install g++; Fedora: dnf install gcc-c++) or clang++, "
    "or `pip install openmgx[compiler]`, or name a compiler in CXX"
)
MAKE_ROOM = "make room there, or name another folder in TMPDIR"


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler's command, and what identifies it and this machine's instruction set in the cache."""

    command: tuple[str, ...]
    version: str

    @property
    def identity(self) -> str:
        """What its objects depend on: its version and the arguments that are part of the command."""
        return " ".join((self.version, *self.command[1:]))

    @property
    def architecture(self) -> str:
        return "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"


class _Refused(CompilerError):
    """The compiler ended by itself and said no: it was not killed, and is there."""


@dataclass(frozen=True)
class Features:
    """All that lowering knows of the instruction set: the macros of vec.hpp.

    Equal features give equal sources, tables and packed weights, on whatever machine they are made.
    """

    lanes: int  # floats of a vector: MGX_LANES
    bf16_words: bool  # kernels multiply pairs of bf16 as they are: MGX_BF16_WORDS
    amx: bool  # kernels are compiled for AMX: MGX_AMX
    pairs: bool = False  # kernels multiply bytes as pairs of 16 bits: MGX_PAIRS

    @property
    def panel(self) -> int:
        """Columns of a panel of packed weights: NR of engine.hpp."""
        return constant("PANEL_VECTORS", "engine.hpp") * self.lanes


def features(isa: str = NATIVE) -> Features:
    """The features of the instruction set that programs are compiled for here, as the compiler sees it."""
    macros = _macros(find_compiler(), isa, extra_flags())
    return Features(macros["LANES"], bool(macros["BF16_WORDS"]), "AMX" in macros, "PAIRS" in macros)


@cache
def _macros(compiler: Compiler, isa: str, extra: tuple[str, ...]) -> dict[str, int]:
    """What vec.hpp says of the instruction set, by names without MGX_."""
    flags = _flags(compiler, isa, extra)
    command = [*compiler.command, *flags, "-E", "-dM", "-x", "c++", str(KERNELS / "vec.hpp")]
    key = digest("macros", compiler.identity, made_for(isa), *flags, (KERNELS / "vec.hpp").read_text())

    def ask(path: Path) -> None:
        found = re.findall(r"^#define MGX_(\w+) (\d+)$", _call(command), re.M)
        if not {"LANES", "BF16_WORDS"} <= dict(found).keys():
            raise _no_compiler(compiler.command, "its preprocessor does not say how wide vectors are")
        path.write_text(json.dumps({name: int(value) for name, value in found}))

    return json.loads(obtain(key, ".json", ask).read_text())


def extra_flags() -> tuple[str, ...]:
    """`OPENMGX_CXXFLAGS`: appended to every compilation."""
    return tuple(shlex.split(os.environ.get("OPENMGX_CXXFLAGS", "")))


def find_compiler() -> Compiler:
    """CXX, g++, clang++, the `ziglang` wheel, in this order; CompilerError says what to install."""
    if os.name != "posix":
        raise CompilerError("the cpu target runs on POSIX systems (tested: Linux): on Windows use WSL, or target ref")
    return _find(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@cache
def _find(cxx: str, path: str) -> Compiler:
    candidates: list[tuple[str, ...]] = [tuple(shlex.split(cxx))] if cxx else [("g++",), ("clang++",)]
    if not cxx and importlib.util.find_spec("ziglang"):
        candidates.append((sys.executable, "-m", "ziglang", "c++"))
    broken = []
    for command in candidates:
        if shutil.which(command[0], path=path):
            try:
                shown = _call([*command, "--version"])
            except CompilerError as error:
                broken.append(_no_compiler(command, str(error)))
            else:
                return Compiler(command, shown.splitlines()[0] if shown else " ".join(command))
    if broken:
        raise broken[0]
    tried = ", ".join(c[0] for c in candidates)
    raise CompilerError(f"the cpu target needs a C++ compiler and found none (tried {tried}): {HELP}")


def _no_compiler(command: Sequence[str], why: str) -> CompilerError:
    """That a command is there and is no working compiler."""
    named = "CXX names" if os.environ.get("CXX") else "the compiler found is"
    return CompilerError(f"{named} `{shlex.join(command)}`, which is no working C++ compiler: {why}; {HELP}")


def build(sources: Sequence[str], name: str, isa: str = NATIVE) -> Path:
    """A shared object of the sources, from the cache or compiled now; CompilerError when the compiler fails."""
    compiler = find_compiler()
    _refuse_bf16(compiler, sources)
    flags, made_by = _flags(compiler, isa, extra_flags()), identity(isa)
    key = digest("program", *made_by, *sources)  # never that of a part, whose lock is taken inside this one
    while True:
        path = obtain(key, ".so", lambda path: _compile(compiler, flags, sources, made_by, path, name))
        try:
            ctypes.CDLL(str(path))  # and is found from now on, wherever the file goes
        except OSError:
            if path.exists():
                raise
        else:
            return path


def build_objects(sources: Sequence[str], isa: str = NATIVE) -> None:
    """Have the cache hold the sources' objects, as far as it does not; CompilerError when the compiler fails."""
    compiler = find_compiler()
    with _temporary_folder() as folder:
        _objects(compiler, _flags(compiler, isa, extra_flags()), sources, identity(isa), folder)


def identity(isa: str = NATIVE) -> tuple[str, ...]:
    """What objects depend on besides their sources: the compiler, the instruction set, the flags and our headers."""
    compiler = find_compiler()
    return compiler.identity, made_for(isa), " ".join(_flags(compiler, isa, extra_flags())), _kernel_text()


def _flags(compiler: Compiler, isa: str, extra: Sequence[str]) -> tuple[str, ...]:
    """Of an instruction set that was asked for, `extra` adds and takes away no instructions."""
    if isa == NATIVE:
        return (*FLAGS, compiler.architecture, *extra)
    return (*FLAGS, f"-march={isa}", *(flag for flag in extra if not flag.startswith("-m")))


def _refuse_bf16(compiler: Compiler, sources: Sequence[str]) -> None:
    """Newer clangs compile some bf16 kernels (elu, celu) to wrong answers: seen with 20 and 22, not with 14."""
    found = re.search(r"clang version (\d+)", compiler.version)
    if found and int(found[1]) >= FIRST_CLANG_WRONG_ON_BF16 and any("mgx::bf16" in s for s in sources):
        raise CompilerError(
            f"{compiler.version} is known to compile bf16 kernels wrongly; install g++, or name it in CXX"
        )


@cache
def _kernel_text() -> str:
    return "".join(p.read_text() for p in sorted(KERNELS.glob("*.hpp")))


def _compile(
    compiler: Compiler, flags: Sequence[str], sources: Sequence[str], made_by: Sequence[str], out: Path, name: str
) -> None:
    log.info("compiling %s: %d sources with %s", name, len(sources), compiler.version)
    with _temporary_folder() as folder, progress(f"compiling {name}"):
        objects = _objects(compiler, flags, sources, made_by, folder)
        linked = Path(folder, "program.so")
        side_by_side(lambda k: _link(compiler, objects, linked, folder), [0], 1, give_way if is_beside() else None)
        shutil.copyfile(linked, out)


def _objects(
    compiler: Compiler, flags: Sequence[str], sources: Sequence[str], made_by: Sequence[str], folder: str
) -> list[Path]:
    """Each source is an object of its own in the cache: many are those of other programs too.

    Compilers write to the temporary folder: copies say what is wrong with the cache, where compilers just fail, and who
    clears the cache while others are compiled takes no object away.
    """

    def one(k: int) -> Path:
        source, own = Path(folder, f"part{k}.cpp"), Path(folder, f"part{k}.o")
        with _blaming_temporary_folder():
            source.write_text(sources[k])
        arguments = [*flags, f"-I{KERNELS}", "-c", str(source)]

        def make(path: Path) -> None:
            if not own.exists():
                _make(compiler, arguments, own, folder)
            shutil.copyfile(own, path)

        while not own.exists():
            made = obtain(digest(*made_by, sources[k]), ".o", make)
            with suppress(FileNotFoundError):  # others removed it meanwhile
                found = made.read_bytes()
                with _blaming_temporary_folder():
                    own.write_bytes(found)
        return own

    return side_by_side(one, range(len(sources)), available(), give_way if is_beside() else None)


def _link(compiler: Compiler, objects: Sequence[Path], out: Path, temporary: str) -> None:
    """Against what kernels need; against all where that is not enough: kernels of others, sanitizers."""
    arguments = ["-shared", *map(str, objects)]
    try:
        _make(compiler, [*arguments, *NEEDED], out, temporary)
    except _Refused:
        _make(compiler, [*arguments, "-lm"], out, temporary)


def _make(compiler: Compiler, arguments: Sequence[str], out: Path, temporary: str) -> None:
    _call([*compiler.command, *arguments, "-o", str(out)], temporary)
    if not out.exists():
        raise _no_compiler(compiler.command, "it writes no object")


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    with _blaming_temporary_folder():
        return temporary_folder()


@contextmanager
def _blaming_temporary_folder() -> Iterator[None]:
    """OSErrors are of the temporary folder: they say so, and not what the cache could do about it."""
    try:
        yield
    except OSError as error:
        raise CompilerError(f"{_temporary_name()} cannot be used: {error}; {MAKE_ROOM}") from None


def _temporary_name() -> str:
    return f"the temporary folder {tempfile.tempdir or os.environ.get('TMPDIR') or '/tmp'}"


def _call(command: Sequence[str], temporary: str | None = None) -> str:
    """What a command prints; `temporary` is where it puts its temporary files. CompilerError where it fails."""
    env = os.environ | ({"TMPDIR": temporary} if temporary else {})
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerError(f"`{shlex.join(command)}` could not be run: {error}; {HELP}") from None
    if done.returncode:
        message = done.stderr.strip()[-4000:] or "(it said nothing on standard error)"
        if temporary and shutil.disk_usage(temporary).free < SPACE:
            raise CompilerError(f"{_temporary_name()} is full; {MAKE_ROOM}\n{message}")
        kind = _Refused if done.returncode == 1 else CompilerError
        raise kind(f"`{shlex.join(command)}` failed with exit code {done.returncode}:\n{message}")
    return done.stdout
