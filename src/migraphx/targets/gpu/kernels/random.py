"""Random numbers: the Mersenne twister MT19937 (Matsumoto and Nishimura, 1998), and draws from weights."""

import triton
import triton.language as tl


@triton.jit
def twisted(state, i, inside):
    """The new words i of the state, of those in memory; i + 1 and i + 397 go round."""
    y = tl.load(state + i, inside, 0) & 0x80000000
    y = y | (tl.load(state + (i + 1) % 624, inside, 0) & 0x7FFFFFFF)
    return tl.load(state + (i + 397) % 624, inside, 0) ^ (y >> 1) ^ tl.where((y & 1) != 0, 0x9908B0DF, 0).to(tl.uint32)


@triton.jit
def tempered(y):
    y = y ^ (y >> 11)
    y = y ^ ((y << 7) & 0x9D2C5680)
    y = y ^ ((y << 15) & 0xEFC60000)
    return y ^ (y >> 18)


@triton.jit
def random_uniform(seed, out, state, count, TYPE: tl.constexpr):
    """Numbers in [0, 1) from the seed's lower 32 bits, 53 bits a number, as NumPy's RandomState.

    One program has the stream. Of the 624 words of its state a third is renewed at once, from those before it.
    """
    lane = tl.arange(0, 256)
    word = tl.load(seed).to(tl.uint32)
    tl.store(state, word)
    number = tl.full([], 0, tl.uint32)
    for i in range(1, 624):
        number += 1
        word = (word ^ (word >> 30)) * 1812433253 + number
        tl.store(state + i, word)
    tl.debug_barrier()
    pair = tl.arange(0, 512)
    for start in range(0, count, 312):
        for part in range(3):
            at = part * 227 + lane
            inside = (lane < 227) & (at < 624)
            words = twisted(state, at, inside)
            tl.debug_barrier()
            tl.store(state + at, words, inside)
            tl.debug_barrier()
        wanted = (pair < 312) & (start + pair < count)
        high = tempered(tl.load(state + 2 * pair, wanted, 0)) >> 5
        low = tempered(tl.load(state + 2 * pair + 1, wanted, 0)) >> 6
        drawn = (high.to(tl.float64) * 67108864.0 + low.to(tl.float64)) * (1.0 / 9007199254740992.0)
        tl.store(out + (start + pair), narrow(convert(drawn, TYPE), TYPE), wanted)
        tl.debug_barrier()


@triton.jit
def random_seed(out, status, SEED: tl.constexpr):
    """Another number each time: mixed (splitmix64) from the number of the status word that is counted up."""
    mixed = tl.atomic_add(status + SEED, tl.full([], 1, tl.int64)).to(tl.uint64) * 0x9E3779B97F4A7C15
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB
    tl.store(out, ((mixed ^ (mixed >> 31)) >> 33).to(out.dtype.element_ty))


@triton.jit
def multinomial(
    sums, numbers, out, total, classes, samples, steps, SUM: tl.constexpr, NUMBER: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The first class whose cumulative weight sums[n][..] exceeds numbers[n][s] times the total."""
    u = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = u < total
    row = sums + u // samples * classes
    wanted = widen(tl.load(numbers + u, inside, 0), NUMBER).to(tl.float64)
    wanted = wanted * widen(tl.load(row + (classes - 1), inside, 0), SUM).to(tl.float64)
    low = tl.zeros_like(u)
    high = low + (classes - 1)
    for _ in range(steps):
        middle = (low + high) // 2
        going = inside & (low < high)
        above = widen(tl.load(row + middle, going, 0), SUM).to(tl.float64) > wanted
        high = tl.where(going & above, middle, high)
        low = tl.where(going & (above == 0), middle + 1, low)
    tl.store(out + u, low.to(out.dtype.element_ty), inside)
