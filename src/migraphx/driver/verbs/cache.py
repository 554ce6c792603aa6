"""Show, prune or clear the cache of compiled objects."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path

from migraphx.driver.options import natural
from migraphx.driver.result import Result
from migraphx.driver.terminal import progress, quantity, table
from migraphx.targets.common.cache import Entry, entries, folder, remove

DAY = 86400.0


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("ls", "prune", "clear"),
        help="ls: list; prune: remove what is damaged, old, dated in the future, or over the size; clear: remove all",
    )
    parser.add_argument(
        "--older-than", type=natural, default=30, metavar="DAYS", help="prune: unused for so long (default: 30)"
    )
    parser.add_argument(
        "--max-size", type=natural, metavar="MB", help="prune: then the longest unused, until no more is left"
    )


def run(args: Namespace) -> Result:
    found = entries()
    if args.action == "ls":
        return _listed(found)
    return _removed(found if args.action == "clear" else outdated(found, args.older_than, args.max_size))


def outdated(found: list[Entry], days: int, megabytes: int | None) -> list[Entry]:
    """Of entries with the longest unused first, those to remove."""
    now = time.time()
    oldest, latest = now - days * DAY, now + DAY  # a later date tells nothing of when it was used
    gone = [e for e in found if not e.whole or not oldest <= e.used <= latest]
    kept = [e for e in found if e not in gone]
    excess = sum(e.bytes for e in kept) - (megabytes * 10**6 if megabytes is not None else float("inf"))
    for entry in kept:
        if excess <= 0:
            break
        gone.append(entry)
        excess -= entry.bytes
    return gone


def _listed(found: list[Entry]) -> Result:
    rows = [
        [e.path.name, quantity(e.bytes, "B"), f"{(time.time() - e.used) / DAY:.1f}", "yes" if e.whole else "no"]
        for e in found
    ]
    total = f"{len(found)} entries, {quantity(sum(e.bytes for e in found), 'B')}, in {folder()}"
    shown = [table(rows, ["entry", "size", "days unused", "whole"])] if rows else []
    listed = [{"path": str(e.path), "bytes": e.bytes, "used": e.used, "whole": e.whole} for e in found]
    return Result("\n".join([*shown, total]), {"folder": str(folder()), "entries": listed})


def _removed(gone: Iterable[Entry]) -> Result:
    gone = list(gone)
    with progress("removing", len(gone)) as bar:
        for entry in gone:
            remove(entry)
            bar.advance()
    size = sum(e.bytes for e in gone)
    data = {"folder": str(folder()), "removed": [str(Path(e.path)) for e in gone], "bytes": size}
    return Result(f"removed {len(gone)} entries, {quantity(size, 'B')}, from {folder()}", data)
