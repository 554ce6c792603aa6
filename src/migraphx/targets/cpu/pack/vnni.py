"""int8 and bf16 weights in the VNNI layout, lanes of 32 bits; quant.hpp states the layouts."""

from __future__ import annotations

import numpy as np

from migraphx.targets.cpu.headers import constant
from migraphx.targets.cpu.pack.panels import by_panels, fill_panel, zeros

TILE_WORDS = constant("TILE_WORDS", "quant.hpp")  # the depth is padded to whole AMX tiles


def pack_vnni(w: np.ndarray, nr: int) -> np.ndarray:
    """int8 or bf16 {groups, depth, N} -> lanes {groups * ceil(N / NR), 1 + Q, NR}, as quant.hpp states.

    Lanes of int8 are int32, those of bf16 float, as their sums are.
    """
    groups, depth, n = w.shape
    each = 4 // w.itemsize
    panels, lanes = -(-n // nr), -(-depth // (each * TILE_WORDS)) * TILE_WORDS
    packed = zeros((groups, panels, 1 + lanes, nr), np.int32 if w.dtype == np.int8 else np.float32)
    parts = packed.view(w.dtype).reshape(groups, panels, 1 + lanes, nr, each)

    def fill(begin: int, end: int) -> None:
        for group, p in (divmod(at, panels) for at in range(begin, end)):
            columns = w[group, :, p * nr : (p + 1) * nr]
            if depth % each == 0 and columns.strides[0] == columns.itemsize:  # lanes as they lie
                fill_panel(packed[group, p, 1 : 1 + depth // each], columns.T.view(packed.dtype).T)
            else:
                for first in range(each):
                    part = columns[first::each]
                    parts[group, p, 1 : 1 + len(part), : part.shape[1], first] = part
            if w.dtype == np.int8:
                packed[group, p, 0, : columns.shape[1]] = -128 * columns.sum(0, dtype=np.int32)

    by_panels(packed, groups * panels, fill)
    return packed.reshape(groups * panels, 1 + lanes, nr)


def pack_vnni_conv(w: np.ndarray, group: int, nr: int) -> np.ndarray:
    """int8 or bf16 {OC, IC / g, spatial...}, packed for a convolution in `group` groups.

    Its channels are padded to whole 32-bit lanes.
    """
    oc, icg, *spatial = w.shape
    each = 4 // w.itemsize
    wide = np.zeros((oc, -(-icg // each) * each, *spatial), w.dtype)
    wide[:, :icg] = w
    depth = np.moveaxis(wide, 1, -1).reshape(group, oc // group, -1)
    return pack_vnni(depth.transpose(0, 2, 1), nr)
