"""The parameters of every kernel, by headers: the fields of its struct there, in the same order (a test compares)."""

from __future__ import annotations

from math import prod

from migraphx.ir.size import hint_of, likely_less
from migraphx.targets.cpu.emit.params import (
    ConstBool,
    ConstDouble,
    ConstFloat,
    ConstInt,
    Four,
    Params,
    Pointer,
    Three,
    Whole,
)
from migraphx.targets.cpu.headers import constant

# ---- products ----


WINOGRAD_WORDS = constant("WINOGRAD_WORDS", "winograd_words.hpp")
TAPS_TILES = constant("TAPS_TILES", "winograd.hpp")
TAPS_CHANNELS = 64
FEW_PIXELS, MANY_PIXELS = (constant(name, "planar.hpp") for name in ("FEW_PIXELS", "MANY_PIXELS"))


class Gemm(Params, header="gemm.hpp"):
    m: int
    n: int
    k: int
    lda: int


class PickedGemm(Params, header="gemm.hpp"):
    batches: int
    m: int
    n: int
    k: int
    lda: int
    step: int
    size: int


class BatchedDot(Params, header="gemm.hpp"):
    m: int
    n: int
    k: int
    batch: Four
    a_batch: Four
    a_row: int
    a_k: int
    b_batch: Four
    b_k: int
    b_col: int


class Int4Gemm(Params, header="int4.hpp"):
    m: int
    n: int
    k: int
    lda: int
    block: int


class Conv(Params, header="conv.hpp"):
    n: int
    ic: int
    oc: int
    groups: int
    pixel: int
    in_: Three
    out: Three
    kernel: Three
    stride: Three
    dilation: Three
    pad: Three

    @property
    def winograd_kernel(self) -> bool:
        """Whether the kernel is 3x3, of frames perhaps, as winograd.hpp takes it."""
        return self.kernel[1:] == (3, 3)

    @property
    def fits_winograd(self) -> bool:
        """Whether winograd.hpp can take it, of floats."""
        return self.winograd_kernel and self.stride[1:] == self.dilation[1:] == (1, 1) and self.groups == 1

    @property
    def by_frames(self) -> bool:
        """Whether each frame of the output is made of one of the input, of the same number."""
        return self.kernel[0] == 1 and self.pad[0] == 0 and self.in_[0] == self.out[0]

    @property
    def winograd_tiles(self) -> int:
        """Tiles of 4x4 pixels that winograd.hpp computes."""
        return self.n * self.out[0] * -(-self.out[1] // 4) * -(-self.out[2] // 4)

    @property
    def suits_winograd(self) -> bool:
        """Whether winograd.hpp is expected to beat conv.hpp.

        Measured, with weights that come from outside L2: it gains 2.2 to 2.9 times at 56x56 and 28x28.
        """
        return self.fits_winograd and self.ic >= 16 and self.oc >= 16 and not likely_less(self.winograd_tiles, 16)

    @property
    def suits_winograd_of_taps(self) -> bool:
        """Whether weights had better be transformed on the way, for so few tiles, and this should beat conv.hpp.

        Measured on a Zen 4: it gains 1.2 to 1.3 times at 7x7, and at 14x14 as much over transformed weights.
        """
        many, pixels = self.ic >= TAPS_CHANNELS and self.oc >= TAPS_CHANNELS, self.n * prod(self.out)
        gains = not likely_less(9 * pixels, 48 * self.winograd_tiles + 100)  # multiply-adds a weight, and the transform
        fits = self.fits_winograd and self.by_frames
        return fits and many and gains and likely_less(self.winograd_tiles, TAPS_TILES)

    @property
    def fits_winograd_of_words(self) -> bool:
        """Whether winograd_words.hpp can take it; channels are counted in words."""
        return self.fits_winograd and self.by_frames and self.ic <= WINOGRAD_WORDS

    @property
    def suits_winograd_of_words(self) -> bool:
        """Whether winograd_words.hpp is expected to beat conv.hpp.

        Measured on AVX2: it gains 1.5 to 2 times from 7x7 to 56x56, of 64 to 512 channels; 1.3 to 1.9 times of 16 and
        32, from 4x4 on; of 8 and fewer nothing.
        """
        tiles = self.n * self.out[0] * -(-self.out[1] // 2) * -(-self.out[2] // 2)
        return self.fits_winograd_of_words and tiles >= 16 and self.ic >= 4 and self.oc >= 8


class Planar(Params, header="planar.hpp"):
    n: int
    ic: int
    oc: int
    x_image: int
    x_plane: int
    x_row: int
    in_h: int
    in_w: int
    out_h: int
    out_w: int
    kernel_h: int
    stride_h: int
    pad_h: int
    pad_w: int

    @property
    def tiles(self) -> tuple[int, int]:
        """FEW and MANY of planar.hpp: a tile takes as long to begin as a pixel, and rows end with whole ones."""
        width = hint_of(self.out_w)

        def best(most: int) -> int:
            return min(range(most, most // 2, -1), key=lambda n: -(-width // n) * (n + 1))

        return best(FEW_PIXELS), best(MANY_PIXELS)


class Depthwise(Params, header="depthwise.hpp"):
    n: int
    c: int
    pixel: int
    in_: Three
    out: Three
    kernel: Three
    stride: Three
    dilation: Three
    pad: Three

    @property
    def special(self) -> tuple[int, int, int]:
        """K, S and TILE of depthwise.hpp: what it has code of its own for along a row, else zeros; pixels of a tile."""
        common = self.stride[2] in (1, 2) and self.dilation[2] == 1 and self.kernel[2] in (3, 5, 7)
        width = hint_of(self.out[2])
        tile = min(8, 7, key=lambda n: -width % n)
        return (self.kernel[2], self.stride[2], tile) if common else (0, 0, tile)

    @property
    def planes(self) -> bool:
        """PLANES of depthwise.hpp: whether its special code is to sum several planes."""
        return self.special[0] > 0 and self.kernel[0] != 1


# ---- windows, images ----


class Strides(Params, header="attention.hpp", struct="Strides"):
    batch: int
    head: int
    row: int


class Attention(Params, header="attention.hpp"):
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    dim: int
    value_dim: int
    q: Strides
    k: Strides
    v: Strides
    out: Strides
    mask_batch: int
    mask_head: int
    mask_row: int
    mask_key: int
    scale: ConstFloat
    causal: ConstBool
    zero_rows: ConstBool
    causal_offset: ConstInt


class Pool(Params, header="pooling.hpp"):
    n: int
    c: int
    x_n: int
    x_step: Three
    in_: Three
    out: Three
    kernel: Three
    stride: Three
    dilation: Three
    pad: Three
    pad_end: Three
    divisor: ConstInt
    count_pad: bool
    p: Whole


class Resize(Params, header="resize.hpp"):
    n: int
    c: int
    out_h: int
    out_w: int
    x_n: int
    x_h: int
    x_w: int


class Resample(Params, header="resize.hpp"):
    outer: int
    length: int
    out: int
    inner: int


class Lrn(Params, header="lrn.hpp"):
    pixels: int
    c: int
    x_step: int
    size: int
    alpha: ConstDouble
    beta: ConstDouble
    bias: ConstDouble


class Interleave(Params, header="interleave.hpp"):
    n: int
    pixels: int
    x_image: int
    x_plane: int
    y_image: int


class Transpose(Params, header="transpose.hpp"):
    n: int
    rows: int
    columns: int
    x_image: int
    x_row: int
    y_image: int
    y_column: int


class RoiAlign(Params, header="regions.hpp"):
    rois: int
    images: int
    channels: int
    height: int
    width: int
    out_height: int
    out_width: int
    samples: int
    image_check: int
    samples_check: int
    most: int
    scale: ConstDouble
    half: ConstBool
    largest: ConstBool


class Suppression(Params, header="regions.hpp"):
    images: int
    classes: int
    boxes: int
    centered: ConstBool


class Det(Params, header="linalg.hpp", function="det"):
    count: int
    n: int


# ---- indices, order, random numbers ----


class Gather(Params, header="indexing.hpp"):
    outer: int
    length: int
    inner: int
    count: int
    check: int


class EmbeddingBag(Params, header="indexing.hpp"):
    batches: int
    bags: int
    taps: int
    width: int
    length: int
    check: int
    index_batch: int
    index_bag: int
    index_tap: int
    weight_batch: int
    weight_bag: int
    weight_tap: int


class GatherNd(Params, header="indexing.hpp"):
    batches: int
    tuples: int
    depth: int
    inner: int
    check: int
    lens: Pointer


class Scan(Params, header="indexing.hpp"):
    outer: int
    length: int
    inner: int
    exclusive: bool
    reverse: bool


class TopK(Params, header="indexing.hpp"):
    outer: int
    length: int
    inner: int
    k: int
    largest: bool


class ArgExtreme(Params, header="indexing.hpp", function="arg_extreme"):
    outer: int
    length: int
    inner: int


class OneHot(Params, header="indexing.hpp", function="one_hot"):
    outer: int
    depth: int
    inner: int


class NonZero(Params, header="indexing.hpp", function="non_zero"):
    rank: int
    lens: Pointer


class Scatter(Params, header="scatter.hpp"):
    rank: int
    axis: int
    length: int
    check: int
    lens: Pointer


class ScatterRows(Params, header="scatter.hpp"):
    outer: int
    length: int
    inner: int
    count: int
    per: int
    check: int


class ScatterNd(Params, header="scatter.hpp"):
    tuples: int
    depth: int
    inner: int
    check: int
    lens: Pointer


class RandomUniform(Params, header="random.hpp", function="random_uniform"):
    count: int


class Multinomial(Params, header="random.hpp", function="multinomial"):
    rows: int
    classes: int
    samples: int
