"""What changed in the generated code since a commit: `python -m tools.replay BASE [TESTS...]`.

Runs the tests at BASE and in the working tree, each with its own code, and compares the C++ sources, the table, the
packed weights and the refusal of every program that the cpu target compiles in them. No C++ is compiled: tests go on
with target ref (tools/replay_record.py), so whether they pass says nothing. A program is named by its test and its
number in it. Equal differences are shown once. The exit code is 1 where a program of BASE differs or is missing.

What BASE gives is kept in the cache folder. OPENMGX_CXXFLAGS="-march=sapphirerapids" (or "-march=haswell") compares
what a processor with AMX (or AVX2 only) would run, on any x86-64 machine.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from migraphx.targets.common.cache import digest, folder
from migraphx.targets.cpu.isa import instruction_set
from migraphx.targets.cpu.toolchain import find_compiler
from tools.replay_record import FILES, FOLDER, SOURCES

PROJECT = Path(__file__).resolve().parents[1]
TESTS = ("tests/targets", "tests/onnx", "tests/ops", "tests/quantize")
WITHOUT_PROGRAMS = ("kernels", "test_toolchain.py", "test_portability.py")  # of tests/targets/cpu: these run compilers
NO_COMPILER = """#!/bin/sh
case " $* " in *" -E "*|*" --version "*) exec {command} "$@";; esac
echo "tools.replay compiles nothing" >&2
exit 1
"""
SHOWN_LINES, SHOWN_NAMES = 24, 4
Programs = Mapping[str, dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.replay", description=__doc__)
    parser.add_argument("base", help="a commit")
    parser.add_argument("tests", nargs="*", default=TESTS, help=f"files and folders of tests; {' '.join(TESTS)}")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="openmgx-replay-") as scratch:
        then = programs(of_commit(args.base, args.tests, Path(scratch)))
        tree, here = Path(scratch, "tree"), Path(scratch, "now")
        copy_working_tree(tree)
        record(tree, args.tests, here)
        return report(then, programs(here))


# ---- recording ----


def of_commit(name: str, tests: Sequence[str], scratch: Path) -> Path:
    """The folder of what a commit generates, from the cache or recorded now."""
    commit = git("rev-parse", "--verify", f"{name}^{{commit}}").decode().strip()
    flags = os.environ.get("OPENMGX_CXXFLAGS", "")
    key = digest(commit, *tests, flags, find_compiler().identity, instruction_set(), sys.version)
    kept = folder() / f"replay-{key}"
    if not kept.exists():
        tree = scratch / "base"
        tree.mkdir()
        subprocess.run(["tar", "-x", "-C", str(tree)], input=git("archive", commit), check=True)
        if not (tree / "tools" / "replay_record.py").exists():
            raise SystemExit(f"{name} has no tools/replay_record.py: it is older than this tool")
        record(tree, tests, scratch / "then")
        fresh = kept.with_name(f"{kept.name}.{os.getpid()}")
        shutil.copytree(scratch / "then", fresh)
        fresh.rename(kept)
    return kept


def copy_working_tree(to: Path) -> None:
    """The files as they are now, those that git does not know yet too: they may be edited while the tests run."""
    for name in git("ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0"):
        if name and (PROJECT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, to / name)


def git(*words: str) -> bytes:
    done = subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.decode().strip())
    return done.stdout


def record(tree: Path, tests: Sequence[str], out: Path) -> None:
    """Run the tests of a working tree, whose programs go into `out`; SystemExit where pytest cannot run them."""
    out.mkdir()
    with tempfile.TemporaryDirectory(prefix="openmgx-replay-") as cache:
        compiler = Path(cache, "no-compiler")
        compiler.write_text(NO_COMPILER.format(command=" ".join(find_compiler().command)))
        compiler.chmod(0o700)
        variables = os.environ | {
            FOLDER: str(out),
            "CXX": str(compiler),
            "OPENMGX_CACHE": str(Path(cache, "objects")),
            "PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree))),
            "PYTHONHASHSEED": "0",
        }
        left_out = [f"--ignore=tests/targets/cpu/{name}" for name in WITHOUT_PROGRAMS]
        workers = ["-n", str(min(8, len(os.sched_getaffinity(0)))), "--dist", "loadfile"]  # a file's order is its own
        plugins = ["-p", "tools.replay_record", "-p", "no:cacheprovider"]
        slow_too = ["-m", "not every_chip"]
        command = [sys.executable, "-m", "pytest", "-q", *plugins, *workers, *slow_too, *left_out, *tests]
        done = subprocess.run(command, cwd=tree, env=variables, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: tests failed, as those do that look into the executable
        raise SystemExit(f"pytest ended with {done.returncode} in {tree}:\n{(done.stdout + done.stderr)[-4000:]}")


def programs(recorded: Path) -> Programs:
    """By name, each with the text of its sources; those of a test that are equal are one: threads may make it twice."""
    lines = [line for path in sorted(recorded.glob(FILES)) for line in path.read_text().splitlines()]
    found: dict[str, dict[str, Any]] = {}
    known: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for program in map(json.loads, lines):
        name = program.pop("name")
        program["sources"] = [(recorded / SOURCES / key).read_text() for key in program.get("sources", ())]
        test = known[test_of(name)]
        if program not in test:
            test.append(program)
            found[name] = program
    return found


def test_of(name: str) -> str:
    return name.rpartition(" #")[0]


# ---- comparing ----


def report(then: Programs, now: Programs) -> int:
    """Print what differs; 1 where something does, else 0."""
    groups: dict[str, list[str]] = defaultdict(list)
    matched = [*pairs(then, now)]
    for old, new in matched:
        if then[old] != now[new]:
            groups["\n".join(difference(then[old], now[new]))].append(new)
    for text, names in groups.items():
        more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        print(f"{', '.join(names[:SHOWN_NAMES])}{more}:\n{text}\n")
    gone, fresh = (sorted(set(a) - {p[k] for p in matched}) for k, a in enumerate((then, now)))
    for name in gone:
        print(f"not compiled any more: {name}")
    changed = sum(map(len, groups.values()))
    print(f"{len(matched)} programs compared, {changed} differ, {len(gone)} are gone, {len(fresh)} are new")
    return int(bool(changed or gone))


def pairs(then: Programs, now: Programs) -> Iterator[tuple[str, str]]:
    """Names at both commits: of one test, equal programs first, whatever their numbers; then the others in order."""
    by_test: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, found in enumerate((then, now)):
        for name in sorted(found, key=lambda n: int(n.rpartition("#")[2])):
            by_test[test_of(name)][side].append(name)
    for old, new in by_test.values():
        for name in old[:]:
            twin = next((n for n in new if now[n] == then[name]), None)
            if twin is not None:
                old.remove(name)
                new.remove(twin)
                yield name, twin
        yield from zip(old, new, strict=False)


def difference(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The first lines that differ in each part of a program."""
    lines = []
    for part in ("error", "sources", "table", "weights"):
        a, b = (lines_of(p.get(part, [])) for p in (old, new))
        if a != b:
            changed = [line for line in difflib.unified_diff(a, b, n=1, lineterm="") if line[:3] not in ("---", "+++")]
            lines += [f"  {part}:", *(f"    {line}" for line in changed[:SHOWN_LINES])]
            if len(changed) > SHOWN_LINES:
                lines.append(f"    ... {len(changed) - SHOWN_LINES} lines more")
    return lines


def lines_of(part: str | Sequence[str]) -> list[str]:
    """An error's text, or those of sources, lines of a table, digests of weights."""
    texts = [part] if isinstance(part, str) else part
    return [line for text in texts for line in text.split("\n")]


if __name__ == "__main__":
    sys.exit(main())
