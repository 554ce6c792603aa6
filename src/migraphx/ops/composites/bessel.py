"""Bessel functions and what goes with the normal distribution, in double precision whatever the type.

The tables are sums of Chebyshev polynomials; what is left out is below 1e-16. They were interpolated in 40 digits at 64
points of the interval that the function beside each names. Far away functions go by the reciprocal of their argument.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from migraphx.ir.builder import Builder, composite
from migraphx.ir.module import Instruction
from migraphx.ops.composites.special import in_double

Value = Instruction

I0E = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357,
    -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05,
    -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08,
    -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11,
    -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14,
    -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17,
    -4.4153416464793395e-18,
)  # fmt: skip
I0E_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
    -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18,
    -7.233180487874754e-18,
)  # fmt: skip
I1E = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
    -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
    -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
)  # fmt: skip
I1E_FAR = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18,
    7.517296310842105e-18,
)  # fmt: skip
K0 = (
    -0.2676636966169514, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926, 2.286212103119452e-05,
    2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11, 4.2598161427910826e-14,
    1.3744654358807508e-16,
)  # fmt: skip
K1 = (
    0.7626501136694739, -0.3531559607765449, -0.12261118082265715, -0.006975723859639864, -0.0001730288957513052,
    -2.4334061415659684e-06, -2.213387630734726e-08, -1.4114883926335278e-10, -6.666901694199329e-13,
    -2.427449850519366e-15,
)  # fmt: skip
K0_FAR = (
    1.2201515410329777, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802, 1.39498137188765e-05,
    -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08, 8.574034017414225e-09,
    -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11, 1.8559491149549264e-11,
    -4.514597883374519e-12, 1.1403405882073441e-12, -2.9800969231481784e-13, 8.032890775068375e-14,
    -2.2275133267462965e-14, 6.340076476276646e-15, -1.848593377920907e-15, 5.5120559994043335e-16,
    -1.6782311257549006e-16, 5.2103917776435543e-17, -1.6475805939842632e-17,
)  # fmt: skip
K1_FAR = (
    1.3603130952422213, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162,
    -1.936197974166083e-05, 2.406484947837217e-06, -3.5019606030878126e-07, 5.7410841254500495e-08,
    -1.0345762465678097e-08, 2.0150497551970347e-09, -4.1903547593419254e-10, 9.218315187605315e-11,
    -2.129967838427791e-11, 5.139639673482343e-12, -1.2891739609498229e-12, 3.348419666052243e-13,
    -8.976705182010146e-14, 2.4771544242195988e-14, -7.0198370892147685e-15, 2.038703166239861e-15,
    -6.057047270643018e-16, 1.8380935752430455e-16, -5.689462849193648e-17, 1.7940510478863572e-17,
)  # fmt: skip
J0 = (
    0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977, 0.15806710233209725,
    -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504, 3.246032882100508e-05,
    -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09, 7.848696314479465e-11,
    -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16, 1.2218515873961411e-17,
)  # fmt: skip
J1 = (
    0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791, 0.022213639654966037,
    -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05, 1.9858774049915165e-06,
    -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10, 3.160154580348003e-12,
    -7.221755239651773e-14, 1.4232144003513942e-15, -2.4441972916190464e-17,
)  # fmt: skip
Y0 = (
    -0.03314611320328494, -0.2744743055297453, 0.17903431407718265, 0.26156734625504663, -0.17730201278114358,
    0.04719668959576339, -0.007287962479552079, 0.0007531135932577742, -5.632079141056987e-05,
    3.206532537654801e-06, -1.44072332740187e-07, 5.248794787330516e-09, -1.5837552541812015e-10,
    4.02633081830612e-12, -8.747341203310769e-14, 1.6434898714919468e-15, -2.6977881152566837e-17,
)  # fmt: skip
Y1 = (
    0.0025380132357417816, -0.01608717304766875, -0.09591204536083074, 0.08445197259652346, -0.028328123944594365,
    0.005289897544167113, -0.0006414551451326356, 5.505982873338744e-05, -3.53808001868935e-06,
    1.7707804556154404e-07, -7.11055004989928e-09, 2.344337905911516e-10, -6.4651518414115946e-12,
    1.51429151205002e-13, -3.0511859694473254e-15, 5.34668038572867e-17,
)  # fmt: skip
P0 = (
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16, -1.0011513723467786e-16,
    1.6305919233744186e-17,
)  # fmt: skip
Q0 = (
    -0.12444683684269607, 0.0005470815954089319, -5.9315987288485175e-06, 1.4377965798375193e-07,
    -5.817532749493056e-09, 3.376097523734991e-10, -2.565397936797308e-11, 2.404916100281365e-12,
    -2.6690625482579414e-13, 3.4041800321963686e-14, -4.87994410531204e-15, 7.729703176242605e-16,
    -1.3348852171502517e-16, 2.4865952389390515e-17, -4.952892629886516e-18,
)  # fmt: skip
P1 = (
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08,
    -1.8718907491063067e-09, 8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13,
    -4.6842237839904895e-14, 5.452674896044717e-15, -7.221180842274018e-16, 1.0667689114335412e-16,
    -1.7312313216116335e-17,
)  # fmt: skip
Q1 = (
    0.3742222965562826, -0.0007702178839325664, 7.3108922063643636e-06, -1.676782510726674e-07,
    6.583354662120443e-09, -3.749090950541556e-10, 2.8121750359748866e-11, -2.61145253946232e-12,
    2.8774212663332235e-13, -3.649001916061838e-14, 5.206626366226707e-15, -8.215318025458595e-16,
    1.4141084390211833e-16, -2.626761589838529e-17, 5.2192649196714085e-18,
)  # fmt: skip
ERFCX = (
    1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189, -0.026658668435305753,
    0.009074997670705265, -0.002413163540417608, 0.0004907758365258086, -6.916973302501202e-05,
    4.139027986073072e-06, 7.740383066199228e-07, -2.1886401049226326e-07, 1.076499946575279e-08,
    4.521959811295483e-09, -7.754400208161412e-10, -6.318088335685348e-11, 2.8687950142646113e-11,
    1.9455869777837063e-13, -9.654696843713995e-13, 3.2525450847083794e-14, 3.347807000030017e-14,
    -1.8646276025294e-15, -1.2508703182071658e-15, 7.410198822726964e-17, 5.0601822727946194e-17,
)  # fmt: skip


def _summed(b: Builder, factors: Sequence[float], t: Value) -> Value:
    """The sum of Chebyshev's polynomials of t, from -1 to 1, with these factors (Clenshaw's recurrence)."""
    twice = b.add(t, t)
    last, before = b.full(0, t), b.full(0, t)
    for factor in factors[:0:-1]:
        last, before = b.sub(b.add(b.mul(twice, last), b.full(factor, t)), before), last
    return b.sub(b.add(b.mul(t, last), b.full(factors[0], t)), before)


def _near(b: Builder, factors: Sequence[float], x: Value, end: float) -> Value:
    """Of x from 0 to `end`."""
    inside = b.min(x, b.full(end, x))
    return _summed(b, factors, b.sub(b.mul(inside, b.full(2 / end, x)), b.full(1, x)))


def _far(b: Builder, factors: Sequence[float], x: Value, start: float, power: int = 1) -> Value:
    """Of x from `start` on, by the power of `start / x`."""
    part = b.div(b.full(start, x), b.max(x, b.full(start, x)))
    return _near(b, factors, b.mul(part, part) if power == 2 else part, 1.0)


def _grown(b: Builder, x: Value, near: Sequence[float], far: Sequence[float], odd: bool) -> Value:
    """exp(-|x|) times the modified function of the first kind."""
    size = b.abs(x)
    first = _near(b, near, size, 8.0)
    first = b.mul(first, x) if odd else first
    last = b.div(_far(b, far, size, 8.0), b.sqrt(b.max(size, b.full(8.0, x))))
    last = b.where(b.less(x, b.full(0, x)), b.neg(last), last) if odd else last
    return b.where(b.less(b.full(8.0, x), size), last, b.where(b.isnan(x), x, first))


@composite
@in_double
def bessel_i0e(b: Builder, x: Value) -> Value:
    """exp(-|x|) I0(x), of the modified Bessel function (aten::special_i0e)."""
    return _grown(b, x, I0E, I0E_FAR, odd=False)


@composite
@in_double
def bessel_i1e(b: Builder, x: Value) -> Value:
    """exp(-|x|) I1(x), of the modified Bessel function (aten::special_i1e)."""
    return _grown(b, x, I1E, I1E_FAR, odd=True)


def _unscaled(b: Builder, scaled: Value, x: Value) -> Value:
    """exp(|x|) times a function, in two steps: the first alone may overflow. Infinite where x is."""
    half = b.exp(b.mul(b.abs(x), b.full(0.5, x)))
    return b.where(b.isinf(x), b.mul(half, b.sign(scaled)), b.mul(b.mul(scaled, half), half))


@composite
@in_double
def bessel_i0(b: Builder, x: Value) -> Value:
    """The modified Bessel function I0 (aten::i0)."""
    return b.where(b.isinf(x), b.abs(x), _unscaled(b, b.bessel_i0e(x), x))


@composite
@in_double
def bessel_i1(b: Builder, x: Value) -> Value:
    """The modified Bessel function I1 (aten::special_i1)."""
    return b.where(b.isinf(x), x, _unscaled(b, b.bessel_i1e(x), x))


def _fallen(b: Builder, x: Value, near: Value, far: Sequence[float], scaled: bool) -> Value:
    """The modified function of the second kind, or exp(x) times it: inf at 0, NaN below."""
    factor = b.exp(b.full(0, x) if scaled else b.neg(x))
    last = b.mul(b.div(_far(b, far, x, 2.0), b.sqrt(b.max(x, b.full(2.0, x)))), factor)
    first = b.mul(near, b.exp(x)) if scaled else near
    made = b.where(b.less(b.full(2.0, x), x), last, first)
    made = b.where(b.equal(x, b.full(0, x)), b.full(math.inf, x), made)
    return b.where(b.less_or_equal(b.full(0, x), x), made, b.full(math.nan, x))


def _k0(b: Builder, x: Value, scaled: bool) -> Value:
    low = b.min(b.max(x, b.full(0, x)), b.full(2.0, x))
    grown = b.mul(b.bessel_i0e(low), b.exp(low))
    near = b.sub(_near(b, K0, b.mul(low, low), 4.0), b.mul(b.log(b.mul(low, b.full(0.5, x))), grown))
    return _fallen(b, x, near, K0_FAR, scaled)


def _k1(b: Builder, x: Value, scaled: bool) -> Value:
    low = b.min(b.max(x, b.full(0, x)), b.full(2.0, x))
    grown = b.mul(b.bessel_i1e(low), b.exp(low))
    near = b.div(_near(b, K1, b.mul(low, low), 4.0), low)
    return _fallen(b, x, b.add(near, b.mul(b.log(b.mul(low, b.full(0.5, x))), grown)), K1_FAR, scaled)


@composite
@in_double
def bessel_k0(b: Builder, x: Value) -> Value:
    """The modified Bessel function K0 (aten::special_modified_bessel_k0)."""
    return _k0(b, x, scaled=False)


@composite
@in_double
def bessel_k0e(b: Builder, x: Value) -> Value:
    """exp(x) K0(x) (aten::special_scaled_modified_bessel_k0)."""
    return _k0(b, x, scaled=True)


@composite
@in_double
def bessel_k1(b: Builder, x: Value) -> Value:
    """The modified Bessel function K1 (aten::special_modified_bessel_k1)."""
    return _k1(b, x, scaled=False)


@composite
@in_double
def bessel_k1e(b: Builder, x: Value) -> Value:
    """exp(x) K1(x) (aten::special_scaled_modified_bessel_k1)."""
    return _k1(b, x, scaled=True)


def _wave(b: Builder, x: Value, order: int, second: bool) -> Value:
    """J, or with `second` Y, of x from 8 on: sqrt(2 / pi x) (P cos h - Q sin h) with h = x - (2 order + 1) pi / 4."""
    angle = b.sub(x, b.full((2 * order + 1) * math.pi / 4, x))
    p, q = ((P0, Q0), (P1, Q1))[order]
    even, odd = _far(b, p, x, 8.0, 2), b.div(_far(b, q, x, 8.0, 2), x)
    cos, sin = b.cos(angle), b.sin(angle)
    sums = b.add(b.mul(even, sin), b.mul(odd, cos)) if second else b.sub(b.mul(even, cos), b.mul(odd, sin))
    return b.mul(sums, b.sqrt(b.div(b.full(2 / math.pi, x), x)))


@composite
@in_double
def bessel_j0(b: Builder, x: Value) -> Value:
    """The Bessel function J0 (aten::special_bessel_j0)."""
    size = b.abs(x)
    near = _near(b, J0, b.mul(size, size), 64.0)
    return b.where(b.less_or_equal(size, b.full(8.0, x)), near, _wave(b, size, 0, second=False))


@composite
@in_double
def bessel_j1(b: Builder, x: Value) -> Value:
    """The Bessel function J1 (aten::special_bessel_j1)."""
    size = b.abs(x)
    near = b.mul(_near(b, J1, b.mul(size, size), 64.0), x)
    wave = _wave(b, size, 1, second=False)
    far = b.where(b.less(x, b.full(0, x)), b.neg(wave), wave)
    return b.where(b.less_or_equal(size, b.full(8.0, x)), near, far)


def _above_zero(b: Builder, x: Value, near: Value, far: Value) -> Value:
    """-inf at 0, NaN below."""
    made = b.where(b.less_or_equal(x, b.full(8.0, x)), near, far)
    made = b.where(b.equal(x, b.full(0, x)), b.full(-math.inf, x), made)
    return b.where(b.less(x, b.full(0, x)), b.full(math.nan, x), made)


@composite
@in_double
def bessel_y0(b: Builder, x: Value) -> Value:
    """The Bessel function Y0 (aten::special_bessel_y0)."""
    turned = b.mul(b.mul(b.log(x), b.full(2 / math.pi, x)), b.bessel_j0(x))
    near = b.add(_near(b, Y0, b.mul(x, x), 64.0), turned)
    return _above_zero(b, x, near, _wave(b, x, 0, second=True))


@composite
@in_double
def bessel_y1(b: Builder, x: Value) -> Value:
    """The Bessel function Y1 (aten::special_bessel_y1)."""
    turned = b.mul(b.sub(b.mul(b.log(x), b.bessel_j1(x)), b.recip(x)), b.full(2 / math.pi, x))
    near = b.add(b.mul(_near(b, Y1, b.mul(x, x), 64.0), x), turned)
    return _above_zero(b, x, near, _wave(b, x, 1, second=True))


@composite
@in_double
def spherical_bessel_j0(b: Builder, x: Value) -> Value:
    """sin(x) / x; 1 at 0 (aten::special_spherical_bessel_j0)."""
    zero = b.equal(x, b.full(0, x))
    made = b.where(zero, b.full(1, x), b.div(b.sin(x), b.where(zero, b.full(1, x), x)))
    return b.where(b.isinf(x), b.full(0, x), made)


@composite
@in_double
def erfcx(b: Builder, x: Value) -> Value:
    """exp(x^2) (1 - erf(x)) (aten::special_erfcx; Shepherd and Laframboise, Math. Comp. 36, 1981, without -1..0)."""
    size = b.min(b.abs(x), b.full(1e300, x))
    part = b.div(b.sub(size, b.full(3.75, x)), b.add(size, b.full(3.75, x)))
    right = b.div(_summed(b, ERFCX, part), b.add(b.full(1, x), b.mul(b.full(2, x), size)))
    right = b.where(b.isnan(x), x, b.where(b.isinf(x), b.full(0, x), right))
    left = b.sub(b.mul(b.full(2, x), b.exp(b.mul(x, x))), right)
    return b.where(b.less(x, b.full(0, x)), left, right)


@composite
@in_double
def erfc(b: Builder, x: Value) -> Value:
    """1 - erf(x), with all its digits where it is small (aten::erfc)."""
    size = b.where(b.isnan(x), x, b.min(b.abs(x), b.full(30.0, x)))  # 0 from 28 on
    near = b.div(b.nearbyint(b.mul(size, b.full(16.0, x))), b.full(16.0, x))  # whose square is exact
    rest = b.mul(b.sub(size, near), b.add(size, near))
    tail = b.mul(b.mul(b.exp(b.neg(b.mul(near, near))), b.exp(b.neg(rest))), b.erfcx(size))
    return b.where(b.less(x, b.full(0, x)), b.sub(b.full(2, x), tail), tail)


@composite
@in_double
def log_ndtr(b: Builder, x: Value) -> Value:
    """The logarithm of the normal distribution up to x (aten::special_log_ndtr)."""
    z = b.mul(x, b.full(math.sqrt(0.5), x))
    tail = b.mul(b.erfcx(b.abs(z)), b.full(0.5, x))
    squared = b.mul(z, z)
    low = b.sub(b.log(tail), squared)
    left = b.log1p(b.neg(b.mul(tail, b.exp(b.neg(squared)))))  # above 0
    return b.where(b.less(x, b.full(0, x)), low, left)


@composite
@in_double
def ndtri(b: Builder, x: Value) -> Value:
    """The normal distribution's quantile (aten::special_ndtri).

    Abramowitz and Stegun 26.2.23, then three steps of Newton's on the logarithm.
    """
    right = b.less(b.full(0.5, x), x)
    p = b.where(right, b.sub(b.full(1, x), x), x)
    logarithm = b.log(p)
    t = b.sqrt(b.mul(b.full(-2, x), logarithm))
    over = b.add(b.mul(b.add(b.mul(t, b.full(0.010328, x)), b.full(0.802853, x)), t), b.full(2.515517, x))
    under = b.add(b.mul(b.add(b.mul(t, b.full(0.001308, x)), b.full(0.189269, x)), t), b.full(1.432788, x))
    z = b.sub(b.div(over, b.add(b.mul(under, t), b.full(1, x))), t)
    for _ in range(3):
        slope = b.div(b.full(math.sqrt(2 / math.pi), x), b.erfcx(b.mul(z, b.full(-math.sqrt(0.5), x))))
        z = b.sub(z, b.div(b.sub(b.log_ndtr(z), logarithm), slope))
    z = b.where(b.equal(p, b.full(0, x)), b.full(-math.inf, x), z)
    z = b.where(b.less(p, b.full(0, x)), b.full(math.nan, x), z)
    return b.where(right, b.neg(z), z)
