"""What torch has no decomposition for, or one that answers otherwise, written in torch's own operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import zip_longest
from typing import Any

import torch
import torch.nn.functional as F
from torch._higher_order_ops.flex_attention import flex_attention, math_attention
from torch.utils._python_dispatch import _disable_current_modes

from torch_migraphx.fx.concrete import memory_order
from torch_migraphx.fx.functions import combinations, corrcoef, cov, gaussian_nll_loss, nanquantile, quantile

aten = torch.ops.aten
DECOMPOSITIONS: dict[torch._ops.OpOverload, Callable[..., Any]] = {}
KEY_PADDING = 1
"""`mask_type` of a mask {batch, keys}; others are broadcast to {batch, heads, queries, keys}."""


def decomposition(*overloads: torch._ops.OpOverload) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of an operator's arguments; NotImplemented leaves the operator as it is."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        DECOMPOSITIONS.update(dict.fromkeys(overloads, function))
        return function

    return register


# ---- random numbers: torch draws them ----


@decomposition(aten.native_dropout.default)
def native_dropout(input: torch.Tensor, p: float, train: bool | None) -> Any:
    """(input / (1 - p) where a number is drawn, else 0; whether it is). The draws are those of eager."""
    if train is False:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    if input.device.type != "cpu":
        return NotImplemented  # its kernel draws in another order than bernoulli's
    kept = torch.empty_like(input, dtype=torch.bool)
    order = memory_order(kept) or []
    if order == sorted(order) or not _drawn_in_memory_order():
        mask = aten.bernoulli.p(kept, 1 - p)
    else:
        order = [*(set(range(kept.ndim)) - set(order)), *order]
        mask = aten.bernoulli.p(kept.permute(order), 1 - p).permute([order.index(d) for d in range(kept.ndim)])
    return input * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


@cache
def _drawn_in_memory_order() -> bool:
    """Whether eager's dropout draws for elements as they lie in memory, which depends on the processor's vendor."""
    with _disable_current_modes(), torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        transposed = torch.empty(64, 2, dtype=torch.bool).t().bernoulli_(0.5)
        torch.manual_seed(0)
        return not torch.equal(transposed, torch.empty(2, 64, dtype=torch.bool).bernoulli_(0.5))


# ---- gradients that torch 2.11 has no decomposition for ----


@decomposition(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_with_indices_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    indices: torch.Tensor,
) -> torch.Tensor:
    """For each element of the input {..., H, W} the sum of the gradients of the windows whose maximum it is.

    `indices` count an image's elements, row by row. Sums of half and bfloat16 are those of floats, rounded once.
    """
    summed = grad_output.dtype if grad_output.dtype == torch.float64 else torch.float32
    empty = torch.zeros(input.shape, dtype=summed, device=input.device).flatten(-2)
    total = empty.scatter_add(-1, indices.flatten(-2), grad_output.to(summed).flatten(-2))
    return total.view(input.shape).to(grad_output.dtype)


# ---- embeddings ----


@decomposition(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(sum (0), mean (1) or maximum (2) of each bag's rows, the bag of each index, the bags' lengths, the same).

    The last is what only a gradient of maxima reads, which is not what torch gives.
    """
    starts = offsets[:-1] if include_last_offset else offsets
    bags, count = starts.shape[0], indices.shape[0]
    bag = torch.searchsorted(starts, torch.arange(count, dtype=starts.dtype), right=True) - 1
    rows = weight[indices]
    counted = torch.ones_like(indices) if padding_idx < 0 else (indices != padding_idx % weight.shape[0]).long()
    lengths = torch.zeros(bags, dtype=torch.int64).index_add(0, bag, counted)
    if mode == 2:
        low = rows.masked_fill((counted == 0)[:, None], -math.inf)
        at = bag[:, None].expand(rows.shape)
        most = torch.full((bags, weight.shape[1]), -math.inf, dtype=weight.dtype).scatter_reduce(0, at, low, "amax")
        return most.masked_fill((lengths == 0)[:, None], 0), bag, lengths, lengths
    factors = counted.to(weight.dtype)
    factors = factors if per_sample_weights is None else factors * per_sample_weights
    total = torch.zeros(bags, weight.shape[1], dtype=weight.dtype).index_add(0, bag, rows * factors[:, None])
    total = total / lengths.clamp(min=1)[:, None].to(weight.dtype) if mode == 1 else total
    return total, bag, lengths, lengths


@decomposition(aten.embedding_renorm.default)
def embedding_renorm(self: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float) -> torch.Tensor:
    """The table with the rows that are read scaled down to the norm `max_norm`, where theirs is larger."""
    norms = torch.linalg.vector_norm(self, norm_type, 1, keepdim=True)
    read = torch.zeros(self.shape[0], dtype=torch.bool).index_fill(0, indices.reshape(-1), True)
    return torch.where((norms > max_norm) & read[:, None], self * (max_norm / (norms + 1e-7)), self)


@decomposition(aten.miopen_batch_norm.default)
def miopen_batch_norm(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    exponential_average_factor: float,
    epsilon: float,
) -> Any:
    """What a graph that was traced on an AMD GPU has; outside of training its statistics are empty."""
    if training:
        return NotImplemented
    made = F.batch_norm(input, running_mean, running_var, weight, bias, eps=epsilon)
    return made, weight.new_zeros(0), weight.new_zeros(0)


# ---- products ----


@decomposition(aten._trilinear.default)
def trilinear(
    i1: torch.Tensor,
    i2: torch.Tensor,
    i3: torch.Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> torch.Tensor:
    """The product of three tensors, each with new dimensions, summed over some."""
    for d1, d2, d3 in zip_longest(*map(sorted, (expand1, expand2, expand3))):
        i1, i2, i3 = (x if d is None else x.unsqueeze(d) for x, d in ((i1, d1), (i2, d2), (i3, d3)))
    return (i1 * i2 * i3).sum(sumdim)


@decomposition(aten._grouped_mm.default)
def grouped_mm(
    x: torch.Tensor,
    y: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Products of groups of rows (or columns, or of the depth) that end at `offs` with a matrix of their own."""
    if offs is None:
        made = torch.bmm(x, y)
        return made if bias is None else made + bias[:, None]
    if x.dim() == 2 and y.dim() == 2:
        depth = torch.arange(x.shape[1])
        ends = offs.long()[:, None]
        starts = F.pad(offs.long(), (1, 0))[:-1, None]
        own = ((depth >= starts) & (depth < ends))[:, None, :]
        return torch.matmul(x.masked_fill(~own, 0), y)
    if x.dim() == 3:
        return _rows_by_group(y.t(), x.transpose(1, 2), offs, None).t()
    return _rows_by_group(x, y, offs, bias)


def _rows_by_group(x: torch.Tensor, y: torch.Tensor, offs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Rows of x {rows, K}, of which those up to offs[g] are group g's, times y[g] {K, N}.

    The rows are cut into tiles of one group each: as long as an average group, so that at most two copies of y are
    read, whatever the groups' lengths. A tile that has too few rows computes some in vain. Where there are fewer rows
    than groups, as in a step of decoding, a tile is a row. Numbers of rows may be symbols: what is computed of them
    beside sizes is a tensor, for torch would make a number of a symbol there.
    """
    rows, groups = x.shape[0], y.shape[0]
    if rows == 0:
        return x.new_empty(0, y.shape[2])
    size = (rows + groups - 1) // groups
    most = (rows + groups * (size - 1)) // size
    row, column, tile = map(torch.arange, (rows, size, most))
    last, ends = column.amax(), offs.long()
    own = torch.searchsorted(ends, row, right=True).clamp(max=groups - 1)
    starts = F.pad(ends, (1, 0))[:-1]
    last_tile = ((ends - starts + last) // (last + 1)).cumsum(0)
    first_tile = F.pad(last_tile, (1, 0))[:-1]
    group = torch.searchsorted(last_tile, tile, right=True).clamp(max=groups - 1)
    first = starts[group] + (tile - first_tile[group]) * (last + 1)
    made = torch.bmm(x[torch.minimum(first[:, None] + column, row.amax())], y[group])
    made = made if bias is None else made + bias[group][:, None]
    at = torch.where(row < ends[-1], first_tile[own] * (last + 1) + row - starts[own], 0)  # the others are nobody's
    return made.reshape(most * size, y.shape[2])[at]


# ---- losses ----


@decomposition(aten.multilabel_margin_loss_forward.default)
def multilabel_margin_loss(input: torch.Tensor, target: torch.Tensor, reduction: int) -> tuple[torch.Tensor, ...]:
    """(The loss of each row's labels up to the first -1, which numbers are labels): torch's own counts those behind."""
    rows, labels = torch.atleast_2d(input), torch.atleast_2d(target)
    counted = (labels == -1).long().cumsum(1) == 0
    named = labels.masked_fill(~counted, 0)
    chosen = ((torch.arange(rows.shape[1]) == named[:, :, None]) & counted[:, :, None]).any(1)
    margins = (1 - rows.gather(1, named)[:, :, None] + rows[:, None, :]).clamp(min=0)
    kept = counted[:, :, None] & ~chosen[:, None, :]
    losses = margins.masked_fill(~kept, 0).sum((1, 2)) / rows.shape[1]
    own = losses if input.dim() == 2 else losses[0]
    made = (own, losses.mean(), losses.sum())[reduction]
    return made, chosen.to(input.dtype).reshape(target.shape)


# ---- the kernels of torch.nn.TransformerEncoderLayer ----


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    heads: int,
    mask: torch.Tensor | None,
    mask_type: int | None,
) -> torch.Tensor:
    """Attention of {batch, length, heads * size}; a mask is True, or has the number, where nothing is seen."""

    def split(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(2, (heads, -1)).transpose(1, 2)  # of no elements, too

    if mask is not None and mask_type == KEY_PADDING:
        mask = mask[:, None, None, :]
    seen = ~mask if mask is not None and mask.dtype == torch.bool else mask
    made = F.scaled_dot_product_attention(split(query), split(key), split(value), seen)
    return made.transpose(1, 2).reshape(query.shape)


@decomposition(aten._native_multi_head_attention.default)
def native_multi_head_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """(answer, nothing): with `need_weights` the weights too, for which the operator stays whole."""
    if need_weights:
        return NotImplemented
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (F.linear(x, w, bias) for x, w, bias in parts)
    made = _attention(q, k, v, num_head, mask, mask_type)
    return F.linear(made, proj_weight, proj_bias), None


@decomposition(aten._transformer_encoder_layer_fwd.default)
def transformer_encoder_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    def attended(x: torch.Tensor) -> torch.Tensor:
        q, k, v = F.linear(x, qkv_weight, qkv_bias).chunk(3, -1)
        return F.linear(_attention(q, k, v, num_heads, mask, mask_type), proj_weight, proj_bias)

    def fed_forward(x: torch.Tensor) -> torch.Tensor:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    def normed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    if norm_first:
        x = src + attended(normed(src, norm_weight_1, norm_bias_1))
        return x + fed_forward(normed(x, norm_weight_2, norm_bias_2))
    x = normed(src + attended(src), norm_weight_1, norm_bias_1)
    return normed(x + fed_forward(x), norm_weight_2, norm_bias_2)


# ---- the rest ----


@decomposition(aten.histc.default)
def histc(input: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """How many elements lie in each of `bins` equal parts of [min, max]; of all there are where min equals max."""
    x = input.reshape(-1)
    low: Any = float(min)
    high: Any = float(max)
    if min == max and x.numel():
        low, high = torch.aminmax(x)
        alike = low == high
        low, high = torch.where(alike, low - 1, low), torch.where(alike, high + 1, high)
    place = ((x - low) / (high - low) * bins).long().clamp(0, bins - 1)
    counted = ((x >= low) & (x <= high)).to(x.dtype)
    return torch.zeros(bins, dtype=x.dtype).index_add(0, place, counted)


def istft(
    input: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """Frames of their spectra, added where they lie and divided by the windows' squares; unchecked: these may be 0."""
    if return_complex:
        raise NotImplementedError("a complex signal")
    size = n_fft if win_length is None else win_length
    step = size // 4 if hop_length is None and win_length is None else n_fft // 4 if hop_length is None else hop_length
    own = torch.ones(size) if window is None else window
    own = F.pad(own, ((n_fft - size) // 2, n_fft - size - (n_fft - size) // 2))
    spectra = input.transpose(-1, -2)
    if onesided is False or (onesided is None and input.shape[-2] == n_fft):
        spectra = spectra[..., : n_fft // 2 + 1]
    frames = torch.fft.irfft(spectra, n_fft, norm="ortho" if normalized else None) * own
    count = frames.shape[-2]
    whole = n_fft + step * (count - 1)
    at = (torch.arange(count)[:, None] * step + torch.arange(n_fft)).reshape(-1)
    flat = frames.reshape(-1, count * n_fft)
    signal = torch.zeros(flat.shape[0], whole, dtype=flat.dtype).index_add(1, at, flat)
    weight = torch.zeros(whole, dtype=own.dtype).index_add(0, at, (own * own).repeat(count))
    first = n_fft // 2 if center else 0
    end = first + length if length is not None else whole - first
    made = (signal / weight)[:, first : min(end, whole)]
    made = F.pad(made, (0, end - whole)) if end > whole else made
    return made.reshape(*input.shape[:-2], made.shape[1])


# ---- numbers' bits ----

INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The integers of as many bytes."""


@decomposition(aten.nextafter.default)
def nextafter(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The next number after input towards other: its bits, one more or less."""
    type = torch.result_type(input, other)
    x, y = torch.broadcast_tensors(input.to(type), other.to(type))
    kind = INTEGERS[type.itemsize]
    away = (y > x) == (x > 0)
    moved = (x.view(kind) + torch.where(away, 1, -1).to(kind)).view(type)
    least = torch.ones_like(x, dtype=kind).view(type)
    moved = torch.where(x == 0, torch.copysign(least, y), moved)
    return torch.where(x == y, y, torch.where(x.isnan() | y.isnan(), x + y, moved))


@decomposition(aten.frexp.Tensor)
def frexp(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(m, e) with self = m 2^e and |m| in [0.5, 1); (self, 0) for 0, infinities and NaN."""
    info, kind = torch.finfo(self.dtype), INTEGERS[self.dtype.itemsize]
    fraction = -round(math.log2(info.eps))
    below, most = info.bits - 1 - fraction, (1 << (info.bits - 1 - fraction)) - 1
    small = self.abs() < info.tiny
    shift = fraction + 2
    bits = torch.where(small, self * 2.0**shift, self).view(kind)
    half = (1 << (below - 1)) - 2
    exponent = ((bits >> fraction) & most) - half - torch.where(small, shift, 0).to(kind)
    mantissa = ((bits & ~(most << fraction)) | (half << fraction)).view(self.dtype)
    plain = (self == 0) | ~self.isfinite()
    return torch.where(plain, self, mantissa), torch.where(plain, 0, exponent.to(torch.int32))


# ---- counting ----


@decomposition(aten.nonzero_static.default)
def nonzero_static(self: torch.Tensor, *, size: int, fill_value: int = -1) -> torch.Tensor:
    """The places {size, dims} of the first elements that are not 0, row by row; rows of `fill_value` behind them."""
    found = (self != 0).reshape(-1)
    place = found.long().cumsum(0) - 1
    place = torch.where(found & (place < size), place, size)
    flat = torch.full((size + 1,), -1).scatter(0, place, torch.arange(found.shape[0]))[:size]
    steps = [math.prod(self.shape[d + 1 :]) for d in range(self.dim())]
    columns = [torch.div(flat, s, rounding_mode="floor") % n for s, n in zip(steps, self.shape, strict=True)]
    made = torch.stack(columns, 1) if columns else flat[:, None][:, :0]
    return torch.where((flat >= 0)[:, None], made, fill_value)


@decomposition(aten.mode.default)
def mode(self: torch.Tensor, dim: int = -1, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """(The least of the values that occur most often, the last place where it stands); of NaN alone any of these."""
    if self.dim() == 0:
        return self.clone(), torch.zeros((), dtype=torch.int64)
    if self.shape[dim] == 0 or self.dtype == torch.bool:
        return NotImplemented
    x = self.movedim(dim, -1)
    most = math.inf if x.is_floating_point() else torch.iinfo(x.dtype).max
    same = (x[..., :, None] == x[..., None, :]) | torch.eye(x.shape[-1], dtype=torch.bool)  # NaN is itself alone
    counts = same.sum(-1)
    often = (counts == counts.amax(-1, keepdim=True)) & ~x.isnan()
    value = torch.where(often, x, most).amin(-1, keepdim=True)
    value = torch.where(often.any(-1, keepdim=True), value, x[..., -1:])
    equal = (x == value) | (x.isnan() & value.isnan())
    place = torch.where(equal, torch.arange(x.shape[-1]), -1).amax(-1, keepdim=True)
    if not keepdim:
        return value.squeeze(-1), place.squeeze(-1)
    return value.movedim(-1, dim), place.movedim(-1, dim)


@decomposition(aten.index_reduce.default)
def index_reduce(
    self: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    """scatter_reduce of whole slices."""
    lens = [-1 if d == dim % self.dim() else 1 for d in range(self.dim())]
    place = index.long().reshape(lens).expand(source.shape)
    return torch.scatter_reduce(self, dim, place, source, reduce, include_self=include_self)


@decomposition(aten.histogram.bin_ct)
def histogram(
    self: torch.Tensor,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> Any:
    """(How many elements, or their weights, lie in equal bins; the bins' edges). The last bin has both of its edges."""
    x = self.reshape(-1)
    if range is not None:
        edges = torch.linspace(range[0], range[1], bins + 1, dtype=self.dtype)
    elif x.numel():
        low, high = torch.aminmax(x)
        alike, place = low == high, torch.arange(bins + 1)
        low, high = torch.where(alike, low - 0.5, low), torch.where(alike, high + 0.5, high)
        step = (high - low) / bins
        edges = torch.where(place < (bins + 1) // 2, low + step * place, high - step * (bins - place))
    else:
        return NotImplemented
    place = torch.searchsorted(edges, x, right=True) - 1
    place = torch.where(x == edges[-1], bins - 1, place)
    counted = torch.ones_like(x) if weight is None else weight.reshape(-1)
    counted = torch.where((place >= 0) & (place < bins), counted, 0)
    made = torch.zeros(bins, dtype=self.dtype).index_add(0, place.clamp(0, bins - 1), counted)
    return made / (made.sum() * edges.diff()) if density else made, edges


# ---- connectionist temporal classification ----


@decomposition(aten._ctc_loss.default, aten._ctc_loss.Tensor)
def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(-log of the probability of each target {N}, the log of that of each beginning {N, T, 2 S + 1}).

    `log_probs` is {T, N, C}; targets are {N, S}, or one behind the other. The longest text with blanks round its
    letters has 2 S + 1 places; a step stays, goes on by one, or by two over a blank between two different letters.
    Source: Graves et al., Connectionist Temporal Classification, ICML 2006, section 4.1.
    """
    if log_probs.dim() == 2:
        return NotImplemented
    inputs, lengths = (torch.as_tensor(x).long() for x in (input_lengths, target_lengths))
    if targets.dim() == 1:
        starts = F.pad(lengths.cumsum(0), (1, 0))[:-1, None]
        longest = targets.shape[0] if isinstance(target_lengths, torch.Tensor) else max(target_lengths)
        targets = targets[(starts + torch.arange(longest)).clamp(max=max(targets.shape[0] - 1, 0))]
    steps = log_probs.shape[0]
    letters = F.pad(torch.stack([torch.full_like(targets, blank), targets], 2).flatten(1), (0, 1), value=blank)
    places = letters.shape[1]
    skips = (letters != blank) & (letters != F.pad(letters, (2, 0), value=blank)[:, :places])
    heard = log_probs.gather(2, letters.long().expand(steps, -1, -1))
    now = torch.where(torch.arange(places) < 2, heard[0], -math.inf)
    rows = [now]
    for t in range(1, steps):
        before = F.pad(now, (2, 0), value=-math.inf)
        ways = torch.stack([now, before[:, 1:-1], before[:, :-2].masked_fill(~skips, -math.inf)])
        now = ways.logsumexp(0) + heard[t]
        rows.append(now)
    alpha = torch.stack(rows, 1)
    last = alpha.gather(1, (inputs - 1)[:, None, None].expand(-1, 1, places))[:, 0]
    ends = (2 * lengths[:, None] - torch.arange(2)).clamp(min=0)
    both = last.gather(1, ends)
    both = torch.where((lengths == 0)[:, None] & (torch.arange(2) == 1), -math.inf, both)
    loss = -both.logsumexp(1)
    return torch.where(loss == math.inf, 0, loss) if zero_infinity else loss, alpha


def reduced_ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """torch's own looks at the lengths as numbers; a mean is of the losses for each letter."""
    if log_probs.dim() == 2:
        raise NotImplementedError("one item without a batch")
    loss, _ = ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    if reduction == "mean":
        return (loss / torch.as_tensor(target_lengths).clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss


# ---- experts ----


def rows_by_group(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """transformers' own products of groups of rows, behind the last of which are zeros."""
    made = _rows_by_group(input, weight, offs, None)
    return torch.where((torch.arange(input.shape[0]) < offs[-1])[:, None], made, 0)


COMPOSITES: dict[Any, Callable[..., Any]] = {
    "transformers.grouped_mm_fallback": rows_by_group,
    **dict.fromkeys((torch.quantile, "quantile", aten.quantile.default, aten.quantile.scalar), quantile),
    **dict.fromkeys((torch.nanquantile, "nanquantile", aten.nanquantile.default, aten.nanquantile.scalar), nanquantile),
    **dict.fromkeys((torch.combinations, "combinations", aten.combinations.default), combinations),
    **dict.fromkeys((torch.cov, "cov", aten.cov.default), cov),
    **dict.fromkeys((torch.corrcoef, "corrcoef", aten.corrcoef.default), corrcoef),
    F.ctc_loss: reduced_ctc_loss,
    F.gaussian_nll_loss: gaussian_nll_loss,
    torch.istft: istft,
    "istft": istft,
    aten.istft.default: istft,
    flex_attention: math_attention,
}
"""By function, method, overload or operator's name: what torch takes apart by looking at data, or not at all."""
