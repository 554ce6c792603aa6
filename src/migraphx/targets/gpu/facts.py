"""What the cost models know of devices."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Facts:
    """What the model knows of a device: rates a second of the whole device, sizes in bytes."""

    name: str = "H200"
    processors: int = 132
    shared: int = 227 << 10  # that one block may have
    bandwidth: float = 4.2e12  # of memory, as copies reach it
    cache_bandwidth: float = 9e12  # of the L2 cache, as tiles see it
    cached: float = 40e6  # bytes that it keeps of what one kernel leaves to the next: four fifths of it
    half_flops: float = 700e12  # as tiled products reach it
    float_flops: float = 40e12
    double_flops: float = 40e12
    third_flops: float = 80e12  # of float by three products of TF32; 0 where tensor cores do not know it
    fp8: bool = True  # whether its tensor cores multiply fp8
    wide_tiles: bool = True  # whether these want 64 rows at least
    descriptors: bool = True  # whether it copies tiles by itself

    @property
    def cache_rate(self) -> float:
        """Bytes a second that one processor has of the L2 cache."""
        return self.cache_bandwidth / self.processors

    def flops(self, type: str) -> float:
        """Of sums of products of this type, or of `thirds` of float."""
        if type in ("int8", "uint8") or type.startswith("fp8"):
            return 2 * self.half_flops
        rates = {"float": self.float_flops, "double": self.double_flops, "thirds": self.third_flops}
        return rates.get(type, self.half_flops)


H200 = Facts()
H100 = replace(H200, name="H100", bandwidth=2.9e12)
OLDER = Facts(fp8=False, wide_tiles=False, descriptors=False)
A100 = replace(
    OLDER, name="A100", processors=108, shared=163 << 10, bandwidth=1.7e12, cache_bandwidth=5e12, cached=32e6,
    half_flops=250e12, float_flops=15e12, double_flops=15e12, third_flops=30e12,
)  # fmt: skip
B200 = replace(
    H200, name="B200", processors=148, bandwidth=7e12, half_flops=1400e12, cache_bandwidth=9e12, cached=100e6
)  # fmt: skip
MI300 = replace(
    OLDER, name="MI300X", processors=304, shared=64 << 10, bandwidth=4.0e12, cache_bandwidth=8e12, cached=200e6,
    half_flops=500e12, float_flops=80e12, double_flops=60e12, third_flops=0,
)  # fmt: skip
KNOWN = {"cuda:80": A100, "cuda:90": H200, "cuda:100": B200, "hip:gfx942": MI300}


def facts_of(chip: str, name: str = "") -> Facts:
    """Those of the chip that kernels are compiled for; `name` tells devices of one chip apart."""
    if chip == "cuda:90" and "H100" in name:
        return H100
    if chip in KNOWN:
        return KNOWN[chip]
    known = sorted((int(c.removeprefix("cuda:")), f) for c, f in KNOWN.items() if c.startswith("cuda:"))
    number = chip.removeprefix("cuda:")
    below = [f for n, f in known if number.isdigit() and n <= int(number)]
    return replace(below[-1] if below else A100, shared=99 << 10)
