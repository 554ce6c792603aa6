"""Samples of the converters of linear algebra."""

import torch

from tests.torch_migraphx.fx.converters.samples import Sample, f

D = torch.float64
SQUARE = f(2, 4, 4) + 3 * torch.eye(4)
POSITIVE = SQUARE @ SQUARE.mT
LOW, HIGH = torch.linalg.cholesky(POSITIVE), torch.linalg.cholesky(POSITIVE, upper=True)
TALL, WIDE = f(2, 5, 3), f(3, 5, dtype=D)
LU, PIVOTS = torch.linalg.lu_factor(SQUARE)
REFLECTIONS, FACTORS = torch.geqrf(TALL)
SOLVE: list[Sample] = [
    {"input": SQUARE, "other": f(2, 4, 3)},
    {"input": SQUARE, "other": f(2, 4)},  # a vector for each matrix
    {"input": SQUARE[0], "other": f(5, 4, 3)},
    {"input": SQUARE, "other": f(3, 4), "left": False},
]
LINALG: dict[str, list[Sample]] = {
    "linalg.inv_ex": [{"input": SQUARE, "check_errors": True}, {"input": SQUARE[0].double()}],
    "linalg.solve_ex": [*SOLVE, {"input": SQUARE, "other": f(4, 2), "check_errors": True}],
    "linalg.cholesky_ex": [{"input": POSITIVE}, {"input": POSITIVE[0], "upper": True, "check_errors": True}],
    "linalg.cholesky": [{"input": POSITIVE}, {"input": POSITIVE, "upper": True}],
    "linalg.cholesky_solve": [
        {"input": f(2, 4, 3), "input2": LOW},
        {"input": f(4, 1), "input2": HIGH, "upper": True},
    ],
    "linalg.cholesky_inverse": [{"input": LOW}, {"input": HIGH[0], "upper": True}],
    "linalg.lu_factor_ex": [{"input": TALL}, {"input": WIDE, "check_errors": True}],
    "linalg.lu": [{"input": TALL}, {"input": WIDE}, {"input": SQUARE[0]}],
    "linalg.lu_unpack": [
        {"LU_data": LU, "LU_pivots": PIVOTS},
        {"LU_data": LU[0], "LU_pivots": PIVOTS[0], "unpack_data": False},
        {"LU_data": LU[0], "LU_pivots": PIVOTS[0], "unpack_pivots": False},
    ],
    "linalg.lu_solve": [
        {
            "input": LU,
            "pivots": PIVOTS,
            "other": f(2, 3, 4) if not left else f(2, 4, 3),
            "left": left,
            "adjoint": turned,
        }
        for left in (True, False)
        for turned in (False, True)
    ],
    "linalg.solve_triangular": [
        {"input": SQUARE, "other": f(2, 4, 4), "upper": upper, "left": left, "unitriangular": upper}
        for left in (True, False)
        for upper in (True, False)
    ],
    "linalg.triangular_solve": [
        {"input": f(4, 2), "matrix": SQUARE, "upper": False},
        {"input": f(4, 2), "matrix": SQUARE[0], "transpose": True, "unitriangular": True},
    ],
    "linalg.qr": [{"input": x, "mode": mode} for x in (TALL, WIDE) for mode in ("reduced", "complete", "r")],
    "linalg.svd": [{"input": TALL, "full_matrices": True, "compute_uv": False, "driver": None}],
    "linalg.eigh": [{"input": POSITIVE}, {"input": SQUARE, "UPLO": "U"}, {"input": SQUARE[0], "compute_v": False}],
    "linalg.eig": [{"input": SQUARE}, {"input": f(0, 3, 3)}],
    "linalg.pinv": [
        {"input": TALL},
        {"input": WIDE, "rtol": torch.tensor(0.3, dtype=D)},
        {"input": TALL, "atol": torch.tensor([0.5, 2.5]), "rtol": torch.tensor(0.1)},
        {"input": TALL, "atol": torch.tensor([0.0, 2.5])},
        {"input": POSITIVE, "hermitian": True},
    ],
    "linalg.det_whole": [{"input": SQUARE}, {"input": f(0, 3, 3)}],
    "linalg.slogdet_whole": [{"input": SQUARE}, {"input": -POSITIVE[0, :3, :3]}],
    "linalg.householder_product": [
        {"input": REFLECTIONS, "factors": FACTORS},
        {"input": REFLECTIONS[0], "factors": FACTORS[0, :2]},
    ],
    "linalg.ormqr": [
        {"input": REFLECTIONS, "factors": FACTORS, "other": f(2, 5, 2)},
        {"input": REFLECTIONS, "factors": FACTORS, "other": f(2, 2, 5), "left": False, "transpose": True},
    ],
    "linalg.matrix_exp": [{"input": f(2, 4, 4)}, {"input": 20 * f(3, 3, dtype=D)}],
}
