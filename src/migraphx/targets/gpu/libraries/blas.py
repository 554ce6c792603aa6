"""cuBLASLt: matrix products, with a bias, a residual and ReLU where these are just what our epilogue says.

Of fp8 each row and each column of the sums is multiplied by a number of its own before that.

Its matrices are column-major: c {M, N} = a {M, K} b {K, N} is c^T = b^T a^T there. The algorithm is asked for once,
when the program is compiled, and kept: its 64 bytes mean the same to the same version of the library only.

It gets no workspace. With one, large products count their tiles there and clear the counter first: a node of another
kind in the graph, behind which kernels do not overlap (1.5 to 3 us on an H200), and that makes a launch of the graph
take the host 20 us in place of 4. What needs one for parts of a deep product has few rows: our kernels are as quick.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from ctypes import byref, c_float, c_int, c_int8, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock
from typing import Any

from migraphx.ir.size import divides
from migraphx.targets.common.views import View
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.libraries.find import load
from migraphx.targets.gpu.library import Append, Unusable, declare, needed

TYPES = {"half": 2, "bf16": 14, "float": 0, "fp8e4m3fn": 28}  # cudaDataType_t
SCALED = "fp8e4m3fn"  # whose products are scaled
COMPUTE_FLOAT = 68  # cublasComputeType_t: sums in float, never TF32
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS, BIAS_TYPE = 3, 4, 7, 8, 26  # cublasLtMatmulDescAttributes_t
SCALE_A, SCALE_B, FAST_SUMS, SCALE_MODE_A, SCALE_MODE_B = 17, 18, 25, 31, 32
OUTER_VECTORS = 3  # cublasLtMatmulMatrixScale_t: a number a row, and one a column
SOMEWHERE = 1 << 20  # an address that stands for those of a run, without which the library proposes nothing
BATCH_COUNT, BATCH_STEP = 5, 6  # cublasLtMatrixLayoutAttribute_t
ALIGNMENT_A = 5  # cublasLtMatmulPreferenceAttributes_t; those of B, C and D follow
EPILOGUES = {"": 1, "relu": 2, "bias": 4, "bias relu": 6}
WANTED = 6  # algorithms of a product
KEPT = 4096  # guesses


class _Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = [
        ("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int), ("waves", c_float),
        ("reserved", c_int * 4),
    ]  # fmt: skip


@dataclass(frozen=True)
class Matrix:
    """A column-major matrix, its columns `step` elements apart, matrices of a batch `batch_step`."""

    rows: int
    columns: int
    step: int
    batch_step: int


@declare
@dataclass(frozen=True)
class Gemm:
    """c = epilogue(a b + residual) of row-major matrices.

    Pointers: a, b, of fp8 the factors of columns and of rows (floats), the bias and the residual if there are any, c.
    `sizes`: batch, M, N, K; `a`, `b`: elements between rows, between columns, between matrices of the batch; `c`,
    `residual`: between rows and between matrices, the latter empty where there is none. `algorithm` is the library's
    own text for how it computes; without it the library is asked when the program is loaded, as for a program that is
    for many lengths. `result`: the type of all but a and b, where it is not theirs.
    """

    type: str
    sizes: tuple[int, int, int, int]
    a: tuple[int, int, int]
    b: tuple[int, int, int]
    c: tuple[int, int]
    epilogue: str = ""
    residual: tuple[int, ...] = ()
    algorithm: str = ""
    version: int = 0
    result: str = ""

    @property
    def scaled(self) -> bool:
        return self.type == SCALED

    def prepare(self, device: Accelerator) -> Append:
        with device.current():
            library = needed(blas(device.index), "cuBLASLt", self.version, "nvidia-cublas")
            return library.append(self if self.algorithm else library.guess(self))

    def matrices(self) -> tuple[tuple[Matrix, bool], tuple[Matrix, bool], Matrix, Matrix]:
        """The library's first operand (b) and its second (a), each with whether it is transposed; addend; result."""
        _, m, n, k = self.sizes
        (a_m, a_k, a_batch), (b_k, b_n, b_batch), (c_m, c_batch) = self.a, self.b, self.c
        first = (Matrix(k, n, b_n, b_batch), True) if b_k == 1 else (Matrix(n, k, b_k, b_batch), False)
        second = (Matrix(k, m, a_m, a_batch), False) if a_k == 1 else (Matrix(m, k, a_k, a_batch), True)
        return first, second, Matrix(n, m, *(self.residual or self.c)), Matrix(n, m, c_m, c_batch)


def fits(a: View, b: View, c: View) -> bool:
    """Whether the library takes these matrices {.., M, K}, {.., K, N}, {.., M, N}: a contiguous side, no overlaps.

    That side is the depth for fp8, of whole lines.
    """
    wide = all(max(v.strides[-2:]) >= min_length(v) and 1 in v.strides[-2:] for v in (a, b))
    if a.type == SCALED:
        along = a.strides[-1] == b.strides[-2] == 1 and divides(16, a.lens[-1]) and divides(16, c.lens[-1])
        same = a.type == b.type and c.type in ("half", "bf16") and along
    else:
        same = a.type == b.type == c.type and a.type in TYPES
    aligned = all(divides(16, v.byte_offset) and not v.moves for v in (a, b, c))
    return same and aligned and wide and c.strides[-1] == 1 and c.strides[-2] >= c.lens[-1]


def min_length(view: View) -> int:
    """How long the contiguous side of a matrix is."""
    return view.lens[-1] if view.strides[-1] == 1 else view.lens[-2]


def algorithms_on(device: Accelerator) -> Callable[[Gemm], list[Gemm]] | None:
    """The library's ways to compute a product on a device: none where it is not installed."""
    if not device.chip.startswith("cuda:"):
        return None

    def algorithms(gemm: Gemm) -> list[Gemm]:
        with device.current():  # the library is loaded when it is first asked
            library = blas(device.index)
            return library.algorithms(gemm) if library else []

    return algorithms


@cache
def blas(index: int) -> Blas | None:
    """The library on the device of this number, whose context is current; None where it is not installed."""
    found = load("cublasLt")
    try:
        return Blas(found) if found else None
    except (RuntimeError, AttributeError):
        return None


class Blas:
    """The dozen functions that we call. Methods stand inside a device's context."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        library.cublasLtGetVersion.restype = c_size_t
        self.version: int = library.cublasLtGetVersion()
        self.handle = c_void_p()
        self._guesses: dict[Gemm, Gemm] = {}
        self.call("Create", byref(self.handle))

    def _made(self, owner: object, name: str, *arguments: Any) -> c_void_p:
        """An object of the library's, which lives as long as its owner."""
        made = c_void_p()
        self.call(f"{name}Create", byref(made), *arguments)
        weakref.finalize(owner, getattr(self.library, f"cublasLt{name}Destroy"), made).atexit = False
        return made

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, f"cublasLt{name}")(*arguments)
        if status:
            raise RuntimeError(f"cublasLt{name} failed with status {status}")

    def set(self, name: str, what: Any, attribute: int, value: Any) -> None:
        self.call(f"{name}SetAttribute", what, c_int(attribute), byref(value), c_size_t(sizeof(value)))

    def _layout(self, owner: object, matrix: Matrix, type: str, batch: int) -> c_void_p:
        sizes = c_uint64(matrix.rows), c_uint64(matrix.columns), c_int64(matrix.step)
        made = self._made(owner, "MatrixLayout", c_int(TYPES[type]), *sizes)
        if batch > 1:
            self.set("MatrixLayout", made, BATCH_COUNT, c_int32(batch))
            self.set("MatrixLayout", made, BATCH_STEP, c_int64(matrix.batch_step))
        return made

    def described(self, owner: object, gemm: Gemm) -> tuple[c_void_p, list[c_void_p]]:
        """The product, and its matrices: the two operands, what is added, the result."""
        description = self._made(owner, "MatmulDesc", c_int(COMPUTE_FLOAT), c_int(TYPES["float"]))
        (first, first_turned), (second, second_turned), addend, result = gemm.matrices()
        self.set("MatmulDesc", description, TRANSPOSE_A, c_int32(first_turned))
        self.set("MatmulDesc", description, TRANSPOSE_B, c_int32(second_turned))
        self.set("MatmulDesc", description, EPILOGUE, c_uint32(EPILOGUES[gemm.epilogue]))
        outer = gemm.result or gemm.type
        if "bias" in gemm.epilogue:
            self.set("MatmulDesc", description, BIAS_TYPE, c_int32(TYPES[outer]))
        if gemm.scaled:
            self.set("MatmulDesc", description, FAST_SUMS, c_int8(1))
            for mode, place in ((SCALE_MODE_A, SCALE_A), (SCALE_MODE_B, SCALE_B)):
                self.set("MatmulDesc", description, mode, c_int32(OUTER_VECTORS))
                self.set("MatmulDesc", description, place, c_uint64(SOMEWHERE))
        matrices = ((first, gemm.type), (second, gemm.type), (addend, outer), (result, outer))
        return description, [self._layout(owner, m, type, gemm.sizes[0]) for m, type in matrices]

    def algorithms(self, gemm: Gemm) -> list[Gemm]:
        """What the library proposes, the best guess first; not to be asked for while a stream is captured."""
        owner, count, found = Owner(), c_int(), (_Found * WANTED)()
        try:  # versions before 12.9 do not know vectors of factors
            description, (first, second, addend, result) = self.described(owner, gemm)
            preference = self._made(owner, "MatmulPreference")
            for k in range(4):
                self.set("MatmulPreference", preference, ALIGNMENT_A + k, c_uint32(16))
            self.call(
                "MatmulAlgoGetHeuristic", self.handle, description, first, second, addend, result, preference,
                c_int(WANTED), found, byref(count),
            )  # fmt: skip
        except RuntimeError:
            return []
        texts = [bytes(f.algorithm).hex() for f in found[: count.value] if f.state == 0]
        return [replace(gemm, algorithm=text, version=self.version) for text in texts]

    def guess(self, gemm: Gemm) -> Gemm:
        """With the algorithm that the library likes best; Unusable where it has none."""
        if gemm not in self._guesses:
            found = self.algorithms(gemm)
            if not found:
                raise Unusable(f"cuBLASLt has no algorithm for a product of {gemm.sizes}")
            while len(self._guesses) >= KEPT:
                self._guesses.pop(next(iter(self._guesses)))
            self._guesses[gemm] = found[0]
        return self._guesses[gemm]

    def append(self, gemm: Gemm) -> Append:
        """What appends the product to a stream."""
        return Product(self, gemm)


class Owner:
    """Of objects of the library's: they live as long as it does."""


class Product(Owner):
    """A product that is ready to be appended to streams, by any thread."""

    def __init__(self, blas: Blas, gemm: Gemm) -> None:
        self._blas, self._gemm, self._lock = blas, gemm, Lock()
        self._description, self._matrices = blas.described(self, gemm)
        self._algorithm = (c_uint64 * 8).from_buffer_copy(bytes.fromhex(gemm.algorithm))

    def __call__(self, pointers: Sequence[int], stream: int) -> None:
        with self._lock:  # some addresses are attributes of the description
            self._append(pointers, stream)

    def _append(self, pointers: Sequence[int], stream: int) -> None:
        a, b, *more, c = pointers
        first, second, addend, result = self._matrices
        if self._gemm.scaled:
            for place, address in zip((SCALE_A, SCALE_B), more[:2], strict=True):
                self._blas.set("MatmulDesc", self._description, place, c_uint64(address))
            del more[:2]
        if "bias" in self._gemm.epilogue:
            self._blas.set("MatmulDesc", self._description, BIAS, c_uint64(more[0]))
        added, beta = (more[-1], c_float(1)) if self._gemm.residual else (c, c_float(0))
        self._blas.call(
            "Matmul", self._blas.handle, self._description, byref(c_float(1)), c_void_p(b), first, c_void_p(a), second,
            byref(beta), c_void_p(added), addend, c_void_p(c), result, byref(self._algorithm), None, c_size_t(0),
            c_void_p(stream),
        )  # fmt: skip
