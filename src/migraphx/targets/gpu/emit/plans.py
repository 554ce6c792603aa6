"""How the programs of a fused reduction share out its rows: tiles of rows and elements, passes, parts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from migraphx.ir.size import hint_of, is_open, likely_less, note_class
from migraphx.targets.gpu.emit.body import VECTOR
from migraphx.targets.gpu.emit.tiles import PROGRAMS, blocks, power_of_two

REGISTERS = 16384  # elements of a row that one program holds
HELD = 32768  # the same times the views that have elements of their own for each row
PART = 4096  # elements that are worth a program of their own
MOST_PARTS = 256
LONG = 32768  # elements of a row that a program of 1024 threads passes over
MOST_RUN = 512  # elements of a run that takes lanes of its own
LONGEST_RUNS = 2048  # elements of a row of runs, from which on they have lanes of their own


@dataclass(frozen=True)
class Plan:
    """Tiles of `height` rows and `width` elements; `loop`: a row takes several; `parts`: programs to a row.

    `pieces`: so many tiles, all in registers, are a row. `run`: a tile's columns are runs of so many elements, a
    power of two, of which each holds one of the row's shorter runs. 0: elements are counted through all runs.
    `vector`: rows are whole vectors of so many elements, and ends. `late`: what is the same for all rows is read behind
    the sums. `ahead`: a program brings the row so many behind its own to the device's cache, for another program.
    """

    height: int
    width: int
    warps: int
    loop: bool = False
    parts: int = 1
    run: int = 0
    pieces: int = 1
    vector: int = 0
    late: bool = False
    ahead: int = 0


PIECE, MOST_PIECES = 256, 4  # elements that a warp loads at once; of a row, what its threads have registers for
COLUMNS = 32  # of a tile whose neighbouring elements are in other rows
SEVERAL = 4096  # bytes of a row, below which a program takes several
PROGRAM = 5120  # elements that it takes then, about
SHORT = 1024  # elements of a row that one warp holds
WARP = 4096  # bytes of a longer row that a warp holds
MOST_HELD = 53 * 1024  # elements of a row that a program of 512 threads holds
LONG_FLOATS = 24 * 1024  # of a row, beside which more threads have room for what rows share
LONGEST_BEHIND = 40 * 1024  # elements of a row that leave registers to ask for another one


def plan(
    rows: int, length: int, varying: int, itemsize: int, rowwise: bool, run: int = 0, narrow: bool = False,
    vector: int = 0, closed: bool = True, shared: bool = False,
) -> Plan:  # fmt: skip
    """How the programs share out so many rows of so many elements, of which `varying` views have their own.

    `itemsize`: bytes of the widest element that is read or written. Where few threads hold a row they hardly wait for
    one another; rows that are read again and again are so few at a time that the cache has them. `run`: so many of a
    row's elements follow each other, then there are gaps (0: none): such as a group's channels in each pixel. To hold
    them apart takes idle lanes, but no divisions. `narrow`: rows of whole outputs, where what differs among rows has 16
    bits: in pieces as wide as a warp loads no lane is idle, no warp waits for another one, and several rows share what
    is the same for all. On an H200 a layer norm of 6,304 rows of 768, written so by hand, took 5 us, one row a program
    8.7, a copy 4.5. `vector`: as whole_vectors has it. `closed`: the plan is for these numbers alone. `shared`: there
    are views with elements for each column, the same for all rows.
    """
    count, rest = divmod(length, PIECE)
    height = 8 if count * varying < MOST_PIECES else 4
    if narrow and varying <= 2 and 1 < count <= MOST_PIECES and not rest and rows >= 2 * PROGRAMS * height:
        return Plan(height, PIECE, 4, pieces=count)
    whole = power_of_two(length // vector * vector if vector else length)
    views = max(min(varying, 4), 1) * (2 if itemsize == 8 else 1)
    if not rowwise and whole > 64:  # neighbours are in other rows
        return _across(rows, length, views, itemsize, closed)
    parts = _parts(rows, length, PART, MOST_PARTS)
    apart = power_of_two(run) if rowwise and 1 < run <= MOST_RUN else 0
    pieces = closed and rowwise and not run and itemsize <= 4
    size = length * max(varying, 1)
    if pieces and length >= 64 and length % (vector or 16) == 0 and size * itemsize < SEVERAL:
        height = _several(rows, size)
        if blocks(rows, height) >= PROGRAMS:
            width = min(length & -length, PIECE)  # no lane is idle
            width = width if length <= 2 * MOST_PIECES * width else min(whole, PIECE)
            warps = min(power_of_two(blocks(height * size, 512)), 4)
            return Plan(height, width, warps, pieces=blocks(length, width), vector=vector)
    if pieces and parts < 4 and length > SHORT and size <= MOST_HELD:
        return _held(rows, length, size * itemsize, itemsize, vector, shared)
    if whole <= REGISTERS and whole * views <= HELD and (whole < PART or parts < 4):
        tiny = vector > 0 and whole <= 64  # where the ends are a tile as large
        height = max(1, (2048 if tiny else 1024) // whole)
        while height > 1 and blocks(rows, height) < PROGRAMS:
            height //= 2
        if not rowwise:
            height = max(height, min(64, power_of_two(rows)))
        height = min(height, power_of_two(rows))
        fits = apart and power_of_two(length // run) * apart == whole
        warps = _warps(height * whole, itemsize) * (2 if tiny else 1)
        return Plan(height, whole, warps, run=apart if fits else 0, vector=vector)
    share = power_of_two(blocks(length, parts))
    if parts > 1 and pieces and 4 * share <= 5 * blocks(length, parts) and share * views <= 2 * PART:
        return Plan(1, share, _warps(share, itemsize), parts=parts)
    if parts > 1 or length < LONG or apart:
        return Plan(1, min(whole, 2048), 8, True, parts, apart if length >= LONGEST_RUNS else 0)
    return Plan(1, 8192, 32, True)


def in_one_pass(chosen: Plan) -> Plan:
    """The plan of passes that compute both reductions of a softmax or a norm: long rows' tiles are twice as wide.

    On an H200 a softmax of 1,024 x 128,256 halves takes 175 us so, 195 with narrower tiles, and 267 in three passes.
    """
    return replace(chosen, width=2 * chosen.width) if chosen.warps == 32 else chosen


def _across(rows: int, length: int, views: int, itemsize: int, closed: bool) -> Plan:
    """Of rows whose neighbouring elements are in other rows."""
    height = min(power_of_two(rows), 64)
    whole, parts = power_of_two(length), _parts(blocks(rows, height), length, 64, min(MOST_PARTS, 8192 // height))
    columns, rest = divmod(length, COLUMNS)
    if whole * height <= HELD // views and parts == 1 and closed and not rest and columns <= 2 * MOST_PIECES:
        warps = 2 if itemsize * columns <= 2 * MOST_PIECES else 4
        return Plan(min(height, 32), COLUMNS, warps, pieces=columns)
    if whole * height <= HELD // views and parts == 1:
        return Plan(height, whole, _warps(height * whole, itemsize))
    if parts > 1 and itemsize <= 2 and rows >= 128:  # as many bytes at once as of wider elements
        return Plan(128, 64, 8, True, _parts(4 * blocks(rows, 128), length, 64, MOST_PARTS // 4))
    return Plan(height, min(whole, 32), 4, True, parts)


def _several(rows: int, size: int) -> int:
    """How many short rows a program takes, so many that it has work, so few that all have."""
    height = min(power_of_two(max(PROGRAM // size, 1) + 1) // 2, 32)
    while height > 2 and blocks(rows, height) < PROGRAMS:
        height //= 2
    return height


def _held(rows: int, length: int, nbytes: int, itemsize: int, vector: int, shared: bool) -> Plan:
    """Of rows that several warps hold. What few rows read is asked for at once: nothing else hides the way there.

    Where one or two programs fill a processor, nobody loads while they compute: they ask for the rows of those behind
    them. On an H200 a softmax of 2,048 x 32,000 halves takes 73 us so in place of 86, a layer norm 73 in place of 81;
    of 50,257, or of floats, both would be slower. 1,024 threads take 505 us for a layer norm of 2,048 x 50,257 floats,
    512 threads, which have no registers left for what rows share, 1,801.
    """
    warps = max(power_of_two(blocks(nbytes, WARP)), min(power_of_two(blocks(nbytes, WARP // 2)), 4))
    elements = nbytes // itemsize  # of all views
    warps = min(warps, 32 if shared and itemsize == 4 and elements >= LONG_FLOATS else 16)
    width = warps * 32 * (VECTOR // itemsize)
    behind = PROGRAMS * 8 // warps  # of a processor's programs
    asks = warps >= 8 and itemsize <= 2 and elements <= LONGEST_BEHIND and rows >= 2 * behind
    ahead = behind if asks else 0
    return Plan(1, width, warps, pieces=blocks(length, width), vector=vector, late=rows >= PROGRAMS, ahead=ahead)


def plan_at(
    rows: int, length: int, varying: int, itemsize: int, rowwise: bool, run: int, narrow: bool, vector: int = 0,
    shared: bool = False,
) -> Plan:  # fmt: skip
    """The plan of these numbers, which is for others as well where they are open: rows that a program holds fit."""
    closed = not is_open((rows, length))
    numbers = hint_of(rows), hint_of(length), varying, itemsize, rowwise, run
    chosen = plan(*numbers, narrow and closed, vector, closed, shared)
    if chosen.loop or not is_open(length):
        note_class(length)
        return chosen
    if length > chosen.width:  # a guard
        raise AssertionError(f"{chosen.width} elements do not hold a row of {length}")
    likely_less(4 * length, chosen.width)  # a narrower one would be faster
    return chosen


def _parts(programs: int, length: int, least: int, most: int) -> int:
    """Into how many parts rows are divided so that all programs have work: a power of two."""
    parts = 1
    while parts < most and programs * parts < 2 * PROGRAMS and length >= 2 * least * parts:
        parts *= 2
    return parts


def _warps(elements: int, itemsize: int) -> int:
    """So that a thread has some vectors of memory at once."""
    return max(1, min(16, power_of_two(elements // (1024 if itemsize <= 2 else 512))))
