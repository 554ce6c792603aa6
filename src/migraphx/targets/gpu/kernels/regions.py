"""Regions of images: bilinear samples pooled to a grid, and those that overlap no better one."""

import triton
import triton.language as tl


@triton.jit
def neighbours(v, n):
    """Two neighbours of a coordinate and their weights, double; 0 beyond one element outside."""
    inside = (v >= -1.0) & (v <= n.to(tl.float64))
    at = tl.where(v < 0.0, 0.0, tl.where(v > (n - 1).to(tl.float64), (n - 1).to(tl.float64), v))
    low = tl.where(inside, at, 0.0).to(tl.int64)
    part = at - low.to(tl.float64)
    return low, tl.minimum(low + 1, n - 1), tl.where(inside, 1.0 - part, 0.0), tl.where(inside, part, 0.0)


@triton.jit
def samples_of(length, inside, status, SAMPLES: tl.constexpr, MOST: tl.constexpr, check):
    """How many samples a bin of this length has along an axis."""
    if SAMPLES > 0:
        return tl.where(inside, SAMPLES, 0)
    else:
        n = tl.ceil(length)
        right = n <= MOST
        found = tl.where((n == n) & (n < 9e18), n, 9e18).to(tl.int64)
        report(inside & (right == 0), found, status, check)
        return tl.where(inside & right, tl.maximum(found, 0), 0).to(tl.int32)


@triton.jit
def roi_align(
    x, rois, image, out, status, total, images, channels, height, width, image_check, samples_check,
    SCALE: tl.constexpr, HALF: tl.constexpr, LARGEST: tl.constexpr, SAMPLES: tl.constexpr, MOST: tl.constexpr,
    OUT_HEIGHT: tl.constexpr, OUT_WIDTH: tl.constexpr, TYPE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """x [images][channels][height][width], rois [rois][4] as x1 y1 x2 y2, image [rois] -> [rois][channels][bins]."""
    u = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = u < total
    roi = u // (channels * (OUT_HEIGHT * OUT_WIDTH))
    channel = u // (OUT_HEIGHT * OUT_WIDTH) % channels
    by = (u // OUT_WIDTH % OUT_HEIGHT).to(tl.float64)
    bx = (u % OUT_WIDTH).to(tl.float64)
    scale = tl.full([], SCALE, tl.float64)
    x1 = widen(tl.load(rois + roi * 4, inside, 0), TYPE).to(tl.float64) * scale
    y1 = widen(tl.load(rois + (roi * 4 + 1), inside, 0), TYPE).to(tl.float64) * scale
    w = widen(tl.load(rois + (roi * 4 + 2), inside, 0), TYPE).to(tl.float64) * scale - x1
    h = widen(tl.load(rois + (roi * 4 + 3), inside, 0), TYPE).to(tl.float64) * scale - y1
    if HALF:
        x1 -= 0.5
        y1 -= 0.5
    else:
        w = tl.where(w < 1.0, 1.0, w)
        h = tl.where(h < 1.0, 1.0, h)
    bin_height = h / OUT_HEIGHT
    bin_width = w / OUT_WIDTH
    ny = samples_of(bin_height, inside, status, SAMPLES, MOST, samples_check)
    nx = samples_of(bin_width, inside, status, SAMPLES, MOST, samples_check)
    given = tl.load(image + roi, inside, 0).to(tl.int64)
    known = (given >= 0) & (given < images)
    report(inside & (known == 0), given, status, image_check)
    plane = x + (tl.where(known, given, 0) * channels + channel) * height * width
    total_of = tl.zeros([BLOCK], tl.float64)
    top = tl.full([BLOCK], float("-inf"), tl.float64)
    for j in range(tl.max(ny)):
        y = y1 + bin_height * (by + (j + 0.5) / tl.maximum(ny, 1).to(tl.float64))
        y_low, y_high, wy_low, wy_high = neighbours(y, height)
        for i in range(tl.max(nx)):
            live = inside & (j < ny) & (i < nx)
            at = x1 + bin_width * (bx + (i + 0.5) / tl.maximum(nx, 1).to(tl.float64))
            x_low, x_high, wx_low, wx_high = neighbours(at, width)
            a = wy_low * wx_low * widen(tl.load(plane + (y_low * width + x_low), live, 0), TYPE).to(tl.float64)
            b = wy_low * wx_high * widen(tl.load(plane + (y_low * width + x_high), live, 0), TYPE).to(tl.float64)
            c = wy_high * wx_low * widen(tl.load(plane + (y_high * width + x_low), live, 0), TYPE).to(tl.float64)
            d = wy_high * wx_high * widen(tl.load(plane + (y_high * width + x_high), live, 0), TYPE).to(tl.float64)
            total_of += tl.where(live, (a + b) + (c + d), 0.0)
            top = tl.where(live, tl.maximum(top, tl.maximum(tl.maximum(a, b), tl.maximum(c, d))), top)
    count = ny.to(tl.float64) * nx.to(tl.float64)
    if LARGEST:
        pooled = top
    else:
        pooled = total_of / tl.where(count > 0, count, 1.0)
    pooled = tl.where(count > 0, pooled, 0.0)
    tl.store(out + u, narrow(convert(pooled, TYPE), TYPE), inside)


# ---- boxes ----------------------------------------------------------------------------------------------------------


@triton.jit
def sides(boxes, at, inside, CENTERED: tl.constexpr, TYPE: tl.constexpr):
    """The lower and the upper corner of boxes given by two corners, or by centre and size."""
    a = widen(tl.load(boxes + at, inside, 0), TYPE).to(tl.float32)
    b = widen(tl.load(boxes + (at + 1), inside, 0), TYPE).to(tl.float32)
    c = widen(tl.load(boxes + (at + 2), inside, 0), TYPE).to(tl.float32)
    d = widen(tl.load(boxes + (at + 3), inside, 0), TYPE).to(tl.float32)
    if CENTERED:
        return a - c * 0.5, b - d * 0.5, a + c * 0.5, b + d * 0.5
    else:
        return tl.minimum(a, c), tl.minimum(b, d), tl.maximum(a, c), tl.maximum(b, d)


@triton.jit
def best_boxes(
    boxes, scores, most, overlap, least, picks, counts, free, classes, count,
    CENTERED: tl.constexpr, BOX: tl.constexpr, SCORE: tl.constexpr, OVERLAP: tl.constexpr, LEAST: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A class of an image a program: its boxes kept, best first, and how many; `free`: which may still be."""
    row = tl.program_id(0).to(tl.int64)
    boxes += row // classes * count * 4
    scores += row * count
    picks += row * count
    free += row * count
    lane = tl.arange(0, BLOCK)
    limit = widen(tl.load(overlap), OVERLAP).to(tl.float32)
    lowest = widen(tl.load(least), LEAST).to(tl.float32)
    wanted = tl.load(most).to(tl.int64)
    best = tl.full([], -1, tl.int32)
    top = tl.full([], float("-inf"), tl.float32)
    for start in range(0, count, BLOCK):
        i = start + lane
        score = widen(tl.load(scores + i, i < count, 0), SCORE).to(tl.float32)
        still = (i < count) & (score > lowest)
        tl.store(free + i, still.to(tl.uint8), i < count)
        largest = tl.max(tl.where(still, score, float("-inf")), 0)
        first = tl.min(tl.where(still & (score == largest), i, 2147483647), 0)
        better = (largest > top) | ((best < 0) & (first < 2147483647))
        best = tl.where(better, first, best)
        top = tl.where(better, largest, top)
    kept = tl.full([], 0, tl.int32)
    while (best >= 0) & (kept < wanted):
        tl.store(picks + kept, best.to(tl.int64))
        kept += 1
        tl.debug_barrier()
        zero = tl.zeros([1], tl.int32)
        x0, y0, x1, y1 = sides(boxes, best * 4 + zero, zero == 0, CENTERED, BOX)
        area = (x1 - x0) * (y1 - y0)
        chosen = best
        best = tl.full([], -1, tl.int32)
        top = tl.full([], float("-inf"), tl.float32)
        for start in range(0, count, BLOCK):
            i = start + lane
            u0, v0, u1, v1 = sides(boxes, i * 4, i < count, CENTERED, BOX)
            both = tl.maximum(tl.minimum(u1, x1) - tl.maximum(u0, x0), 0.0)
            both = both * tl.maximum(tl.minimum(v1, y1) - tl.maximum(v0, y0), 0.0)
            shared = both > limit * ((u1 - u0) * (v1 - v0) + area - both)
            still = (tl.load(free + i, i < count, 0) != 0) & (shared == 0) & (i != chosen)
            tl.store(free + i, still.to(tl.uint8), i < count)
            score = widen(tl.load(scores + i, i < count, 0), SCORE).to(tl.float32)
            largest = tl.max(tl.where(still, score, float("-inf")), 0)
            first = tl.min(tl.where(still & (score == largest), i, 2147483647), 0)
            better = (largest > top) | ((best < 0) & (first < 2147483647))
            best = tl.where(better, first, best)
            top = tl.where(better, largest, top)
        tl.debug_barrier()
    tl.store(counts + row, kept)


@triton.jit
def kept_boxes(picks, counts, out, rows, classes, count, BLOCK: tl.constexpr):
    """The boxes kept of all classes behind one another, as rows (image, class, box) of out."""
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    before = tl.full([], 0, tl.int64)
    for start in range(0, row, BLOCK):
        before += tl.sum(tl.load(counts + (start + lane), start + lane < row, 0).to(tl.int64), 0)
    own = tl.load(counts + row)
    for start in range(0, own, BLOCK):
        k = start + lane
        box = tl.load(picks + (row.to(tl.int64) * count + k), k < own, 0)
        place = out + (before + k) * 3
        tl.store(place, (row // classes).to(tl.int64) + 0 * box, k < own)
        tl.store(place + 1, (row % classes).to(tl.int64) + 0 * box, k < own)
        tl.store(place + 2, box, k < own)
