"""NumPy's overlays against the formulas they stand in for: values, gradients, dtypes, layouts.

Every op with an overlay is compared over its samples and over the larger arguments of `LARGE`, with overlays switched
off and on: as they are, strided, in all floating dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import blas
from gradlib.devices.numpy import softmax as softmax_kernels
from gradlib.op.declare import REGISTRY
from gradlib.op.overlays import off, on
from gradlib.op.write_traced import specialize
from gradlib.tape.sparse import COO, Pattern

pytestmark = pytest.mark.host  # NumPy's kernels

OVERLAYS = on("numpy")
NAMES = sorted({name for names in OVERLAYS.names().values() for name in names})
TOLERANCE = {gl.float64: 1e-11, gl.float32: 3e-5, gl.float16: 4e-3, gl.bfloat16: 3e-2}
DTYPES = {str(d).removeprefix("torch."): d for d in TOLERANCE}


class Maker:
    """Tensors for samples: ``t(*shape, low=, high=, dtype=)``, as in declarations."""

    def __init__(self, dtype: Any, strided: bool):
        self.dtype, self.strided = dtype, strided
        self.random = np.random.default_rng(5)

    def __call__(self, *shape, low=-2.0, high=2.0, dtype=None, requires_grad=True) -> gl.Tensor:
        if dtype is not None and not dtype.is_floating_point:
            whole = np.asarray(np.floor(self.random.uniform(low, high, shape)))
            return gl.from_numpy(whole.astype(np.int64))
        values = np.asarray(self.random.uniform(low, high, shape))
        made = gl.from_numpy(values).to(dtype or self.dtype)
        if self.strided and shape:
            wide = gl.full((*shape[:-1], 2 * shape[-1]), 9.0, dtype=made.dtype)
            wide[..., ::2] = made
            made = wide[..., ::2]
        return made.requires_grad_(requires_grad)


def scattered(rows: int, cols: int, count: int, coalesced: bool = True) -> Pattern:
    """Places of a matrix at random, in order if `coalesced`, else with some twice."""
    drawn = np.random.default_rng(1).choice(rows * cols, count, replace=not coalesced)
    keys = np.sort(drawn) if coalesced else drawn
    return Pattern(COO, (rows, cols), np.stack(np.divmod(keys, cols)), coalesced)


def transposed(pattern: Pattern) -> Pattern:
    KEPT.append(pattern)  # a transposed pattern knows its origin as long as that lives
    return pattern.transposed(0, 1)


KEPT: list[Pattern] = []


# Arguments for which kernels go in blocks, of rows and columns that are long, or find nothing in the way.
def well_conditioned(t: Maker, count: int, n: int) -> gl.Tensor:
    return t(count, n, n) / n + 2 * gl.eye(n, dtype=t.dtype)


def positive_definite(t: Maker, count: int, n: int) -> gl.Tensor:
    x = well_conditioned(t, count, n)
    return x @ x.mH + gl.eye(n, dtype=t.dtype)


TAPS = np.arange(2 * 3 * 16).reshape(2, 3, 4, 4) * 7 % 4

LARGE: dict[str, Callable[[Maker], list[tuple]]] = {
    "softmax": lambda t: [
        (t(70, 600), 1),
        (t(70, 600), 0),
        (t(2, 70000), 1),
        (t(5, 40, 300), 1),
        (t(300, 600), 0),
        (t(2, 9, 3), 1),
    ],
    "softmax_grad": lambda t: [
        (t(*s), t(*s), d) for s, d in (((70, 600), 1), ((70, 600), 0), ((2, 300, 450), 1))
    ],
    "scaled_dot_product_attention_op": lambda t: [
        (t(2, 3, 300, 16), t(2, 3, 280, 16), t(2, 3, 280, 8), None, False, 0.25),
        (t(2, 3, 300, 16), t(2, 3, 300, 16), t(2, 3, 300, 8), None, True, 0.25),
        (t(2, 3, 150, 16), t(2, 3, 90, 16), t(2, 3, 90, 8), None, True, 0.25),  # keys end first
        (t(3, 90, 16), t(3, 150, 16), t(3, 150, 8), None, True, 0.25),  # some keys nobody looks at
        (
            t(3, 70, 16),
            t(3, 150, 16),
            t(3, 150, 8),
            None,
            False,
            5.0,
        ),  # too large for exp as they are
        (t(2, 40, 8), t(2, 50, 8), t(2, 50, 8), t(40, 50), False, 0.5),
        (t(2, 70, 8), t(2, 90, 8), t(2, 90, 8), t(70, 1, requires_grad=False) > 0, False, 0.5),
        (t(40, 3, 4), t(40, 5, 4), t(40, 5, 4), t(3, 5, requires_grad=False) > 0.5, False, 0.5),
    ],
    "linear": lambda t: [
        (t(400, 24), t(400, 24), t(400)),
        (t(4, 100, 24), t(400, 24), t(400)),
        (t(4, 100, 24), t(400, 24), None),
        (t(10_000), t(20, 10_000), t(20)),
    ],
    "lstm_step": lambda t: [(t(300, 80), t(300, 20))],
    "gru_step": lambda t: [(t(300, 60), t(300, 60), t(300, 20))],
    "rnn_layer": lambda t: (
        [
            (t(20, 30, 8), t(30, 24), t(24, 8), t(24, 24, low=-0.2, high=0.2), t(24), relu, reverse)
            for relu, reverse in ((False, True), (True, False))
        ]
        + [(t(30, 1, 8), t(1, 6), t(6, 8), t(6, 6, low=-0.4, high=0.4), None, True, False)]
    ),
    "gru_layer": lambda t: [
        (
            t(9, 200, 8),
            t(200, 40),
            t(120, 8),
            t(120, 40, low=-0.2, high=0.2),
            t(120),
            t(120),
            False,
        ),
        (t(30, 1, 8), t(1, 6), t(18, 8), t(18, 6, low=-0.4, high=0.4), None, None, True),
    ],
    "lstm_layer": lambda t: [
        (
            t(9, 200, 8),
            t(200, 40),
            t(200, 40),
            t(160, 8),
            t(160, 40, low=-0.2, high=0.2),
            t(160),
            True,
        ),
        (t(30, 1, 8), t(1, 6), t(1, 6), t(24, 8), t(24, 6, low=-0.4, high=0.4), None, False),
    ],
    "convolution": lambda t: [
        (t(5, 6, 40, 30), t(8, 6, 3, 3), t(8), (1, 1), (1, 1), (1, 1), 1),
        (t(5, 6, 40, 30), t(8, 3, 3, 2), t(8), (2, 1), (0, 1), (1, 2), 2),
        (t(5, 6, 40, 30), t(6, 1, 3, 3), None, (1, 1), (1, 1), (1, 1), 6),
        (t(5, 16, 8, 8), t(8, 16, 3, 3), None, (1, 1), (1, 1), (1, 1), 1),
        (t(5, 16, 8, 8), t(8, 16, 1, 1), t(8), (1, 1), (0, 0), (1, 1), 1),
    ],
    "conv_grad_input": lambda t: [
        (t(5, 8, 40, 30), t(8, 6, 3, 3), (40, 30), (1, 1), (1, 1), (1, 1), 1),
        (t(5, 8, 20, 30), t(8, 3, 2, 3), (40, 30), (2, 1), (0, 1), (1, 1), 2),
        (t(5, 6, 40, 30), t(6, 1, 3, 3), (40, 30), (1, 1), (1, 1), (1, 1), 6),
        (t(5, 16, 8, 8), t(16, 8, 3, 3), (8, 8), (1, 1), (1, 1), (1, 1), 1),
        (t(5, 16, 8, 8), t(16, 8, 1, 1), (8, 8), (1, 1), (0, 0), (1, 1), 1),
    ],
    "conv_grad_weight": lambda t: [
        (t(5, 6, 40, 30), t(5, 8, 40, 30), (3, 3), (1, 1), (1, 1), (1, 1), 1),
        (t(5, 6, 40, 30), t(5, 8, 20, 30), (2, 3), (2, 1), (0, 1), (1, 1), 2),
        (t(5, 6, 40, 30), t(5, 6, 40, 30), (3, 3), (1, 1), (1, 1), (1, 1), 6),
        (t(5, 16, 8, 8), t(5, 8, 8, 8), (3, 3), (1, 1), (1, 1), (1, 1), 1),
        (t(5, 16, 8, 8), t(5, 8, 8, 8), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ],
    "conv_transpose": lambda t: [
        (t(5, 8, 20, 15), t(8, 6, 3, 3), t(6), (40, 30), (2, 2), (1, 1), (1, 1), 1),
        (t(5, 8, 20, 15), t(8, 3, 3, 3), None, (20, 15), (1, 1), (1, 1), (1, 1), 2),
    ],
    "max_pool2d_op": lambda t: [(t(2, 3, 9, 8), (3, 3), (2, 2), (1, 1), (1, 1), False)],
    "max_pool3d_op": lambda t: [
        (t(2, 3, 5, 6, 4), (2, 2, 2), (2, 2, 2), (0, 1, 0), (1, 1, 1), True)
    ],
    "max_pool_with_indices": lambda t: [(t(2, 3, 9, 8), (3, 3), (2, 2), (1, 1), (1, 2), False)],
    "relu": lambda t: [(t(70, 600),), (t(5, 3).detach() > 0,)],
    "argsort": lambda t: [(t(5, 700), 1, False), (t(5, 700), 0, True), (t(5, 70), 1, True)],
    "kth_index": lambda t: [(t(5, 700), 100, 1), (t(5, 300), 2, 0)],
    "topk_index": lambda t: [
        *((t(5, 700), k, 1, largest, True) for k in (3, 100, 600) for largest in (True, False)),
        (t(700, 5), 3, 0, True, True),
    ],
    "var": lambda t: [
        *((t(40, 3000), dim, 1, keepdim) for dim in ((), (0,), (1,)) for keepdim in (True, False)),
        (t(2, 70000), (1,), 0, False),
        (t(30, 20, 40) + 100, (0, 2), 2, False),
    ],
    "cross_entropy_op": lambda t: [
        (t(300, 200), t(300, dtype=gl.int64, low=0, high=200), None, 1, -100),
        (
            t(300, 200),
            t(300, dtype=gl.int64, low=0, high=200),
            t(200, low=0.5, requires_grad=False),
            1,
            7,
        ),
        (t(30, 20, 40), t(30, 40, dtype=gl.int64, low=0, high=20), None, 0, 3),
        (t(2, 70000), t(2, dtype=gl.int64, low=0, high=70000), None, 2, -100),
    ],
    "native_layer_norm": lambda t: [
        (t(300, 200), t(200), t(200), (200,), 1e-5),
        (t(2, 70000), t(70000), None, (70000,), 1e-5),
        (t(3000, 20), None, t(20), (20,), 1e-5),
    ],
    "fused_rms_norm": lambda t: [
        (t(300, 200), t(200), (200,), 1e-5),
        (t(2, 70000), None, (70000,), 1e-5),
    ],
    "native_group_norm": lambda t: [
        (t(40, 6, 300), t(6), t(6), 2, 1e-5),
        (t(2, 4, 20000), None, None, 2, 1e-5),
    ],
    "native_batch_norm": lambda t: [
        (t(3000, 30), t(30), t(30), None, None, True, 1e-5, None),
        (t(40, 5, 30, 10), t(5), t(5), None, None, True, 1e-5, None),
        (
            *(t(40, 5, 30, 10), t(5), None),
            *(t(5, requires_grad=False), t(5, low=0.5, requires_grad=False), False, 1e-5, None),
        ),
    ],
}
LARGE["sparse_mm"] = lambda t: [
    (t(500), t(400, 30), scattered(300, 400, 500)),
    (t(500), t(400, 30), transposed(scattered(400, 300, 500))),
    (t(500), t(400, 1), scattered(300, 400, 500, coalesced=False)),
]
LARGE["median_index"] = LARGE["nanmedian_index"] = lambda t: [
    (t(70, 60), 1),
    (t(600, 9), 0),
    (t(3000), 0),
]
LARGE["median_all"] = LARGE["nanmedian_all"] = lambda t: [(t(70, 60),)]
LARGE["linalg_solve_triangular"] = lambda t: [
    (well_conditioned(t, 3, 40), t(40, 5), True, False),
    (well_conditioned(t, 1, 60), t(2, 60, 1), False, False),
]
LARGE["nll_loss_op"] = LARGE["cross_entropy_op"]
LARGE["nll_loss_grad"] = lambda t: [
    (t(), t(30, dtype=gl.int64, low=0, high=20), None, (30, 20), 1, -100),
    (t(30), t(30, dtype=gl.int64, low=0, high=20), None, (30, 20), 0, 3),
]
LARGE["linalg_cholesky"] = lambda t: [(positive_definite(t, 2, 40),)]
LARGE["linalg_qr"] = lambda t: [
    (well_conditioned(t, 2, 40), "reduced"),
    (well_conditioned(t, 2, 40)[:, :35], "complete"),
]
LARGE["linalg_pinv"] = lambda t: [
    (well_conditioned(t, 2, 40), 1e-5, 0.0, False),
    (well_conditioned(t, 2, 40)[:, :30], 1e-5, 0.0, False),
    (
        well_conditioned(t, 1, 40)[:, :, :30],
        0.9,
        0.0,
        False,
    ),  # what this takes for 0 is no small number
]
LARGE["linalg_lu_factor"] = lambda t: [
    (well_conditioned(t, 3, 40), True),
    (well_conditioned(t, 1, 20)[0], True),
    (t(5, 5), True),
]
LARGE["linalg_solve"] = lambda t: [
    (well_conditioned(t, 3, 40), t(40, 5)),
    (well_conditioned(t, 1, 40)[0], t(40, 5)),
    (well_conditioned(t, 1, 40)[0].mT, t(5, 40).mT),
    (well_conditioned(t, 1, 40)[0], t(3, 40, 5)),
    (well_conditioned(t, 1, 5)[0], t(5, 1)),
]
LARGE["linalg_inv"] = LARGE["linalg_det"] = LARGE["linalg_slogdet"] = lambda t: [
    (well_conditioned(t, 3, 20),),
    (well_conditioned(t, 1, 20)[0],),
    (well_conditioned(t, 1, 20)[0].mT,),
    (well_conditioned(t, 1, 5)[0],),
]
LARGE["cholesky_solve"] = lambda t: [
    (t(n, k), well_conditioned(t, 1, n)[0], upper)
    for upper in (True, False)
    for n, k in ((20, 3), (5, 1))
]
LARGE["cholesky_inverse"] = lambda t: [(well_conditioned(t, 1, 20)[0], u) for u in (True, False)]
LARGE["triangular_solve"] = lambda t: [
    (t(20, k), well_conditioned(t, 1, 20)[0], upper, transpose, k == 1)
    for upper in (True, False)
    for transpose in (True, False)
    for k in (1, 3)
]
LARGE["linalg_eigh"] = LARGE["linalg_eigvalsh"] = lambda t: [
    (positive_definite(t, 2, 20), "L"),
    (positive_definite(t, 1, 20)[0], "U"),
]
LARGE["linalg_eig"] = LARGE["linalg_eigvals"] = lambda t: [(well_conditioned(t, 2, 7),)]
LARGE["linalg_svd"] = lambda t: [(t(2, 20, 9), False), (t(9, 20), True)]
LARGE["linalg_svdvals"] = lambda t: [(t(2, 20, 9),), (t(9, 20),)]
LARGE["linalg_lstsq"] = lambda t: [
    (well_conditioned(t, 1, 20)[0, :, :9], t(20, 3), 1e-5),
    (well_conditioned(t, 2, 20)[:, :17], t(2, 17, 3), 1e-5),
    (well_conditioned(t, 1, 20)[0], t(20, 1), 0.9),
]
LARGE["tril"] = LARGE["triu"] = lambda t: [(t(3, 70, 50), 2), (t(70, 50), -60), (t(600, 500), 0)]
LARGE["triangle"] = lambda t: [(t(3, 70, 50), lower, -1) for lower in (True, False)]
LARGE["pool_put"] = lambda t: [
    (t(2, 3, 4, 4), TAPS, (8, 8), (2, 2), (2, 2), (0, 0), (1, 1), False),
    (t(2, 3, 4, 4), TAPS, (8, 7), (3, 3), (2, 2), (1, 1), (1, 1), False),
]
# where oneMKL is found
LARGE["erf"] = LARGE["erfc"] = lambda t: [(t(200, 400),), (t(20000, low=-30.0, high=30.0),)]
LARGE["gelu"] = lambda t: [(t(200, 400), a) for a in ("none", "tanh")]
LARGE["gelu_grad"] = lambda t: [
    (t(200, 400), t(200, 400, low=-20.0, high=20.0), a) for a in ("none", "tanh")
]
# where numba is asked for
LARGE["silu"] = lambda t: [(t(200, 400),), (t(20000, low=-30.0, high=30.0),)]
LARGE["silu_grad"] = lambda t: [(t(200, 400), t(200, 400, low=-20.0, high=20.0))]
LARGE["cumprod"] = lambda t: [
    *((t(70, 60, low=0.9, high=1.1), dim) for dim in (0, 1)),
    (t(20, 60), 1),
]
LARGE["put_one"] = lambda t: [
    (t(70), t(70, low=0, high=40, dtype=gl.int64), (70, 40), 1, False),
    (t(30, 70, 1), t(30, 70, 1, low=0, high=9, dtype=gl.int64), (30, 70, 9), 2, True),
    (t(70), t(70, low=-40, high=40, dtype=gl.int64), (70, 40), 1, False),
    (t(40), t(40, low=0, high=70, dtype=gl.int64), (70, 40), 0, False),
]
LARGE["amax"] = LARGE["amin"] = lambda t: [
    *(
        (t(*s), dim, keepdim)
        for s in ((300, 70), (3, 100, 90), (2, 9000))
        for dim, keepdim in (((1,), False), ((-1 % len(s),), True))
    ),
]
LARGE["prod"] = lambda t: [
    *(
        (t(70, n, low=0.9, high=1.1), (1,), keepdim)
        for n in (75, 256, 1000)
        for keepdim in (True, False)
    ),
    (t(3, 30, 90, low=-1.5, high=1.5), (2,), False),
    (t(20, 300, low=-9.0, high=9.0).detach().round().requires_grad_(), (1,), False),  # with zeros
]
LARGE["prod_all"] = lambda t: [(t(70, 75, low=0.9, high=1.1),), (t(9001, low=-1.2, high=1.2),)]
LARGE["fmod"] = LARGE["remainder"] = lambda t: [
    (t(70, 75, low=-9.0, high=9.0), t(70, 75)),
    (t(70, 75, low=-9.0, high=9.0), t()),
    (t(), t(70, 75)),
]
LARGE["clamp_number"] = lambda t: [
    (t(70, 75), 0.5, None),
    (t(70, 75), None, 0.5),
    (t(70, 75), 0, 1),
]
LARGE["nan_to_num"] = lambda t: [
    (t(70, 75), None, None, None),
    (1 / t(70, 75).round(), 1.0, None, 7.0),
]
LARGE["sign"] = lambda t: [(t(70, 75),), (t(70, 75).detach().round(),)]
LARGE["glu"] = lambda t: [(t(300, 400), 1), (t(30, 40, 90), 1), (t(4, 40000), 0)]
LARGE["leaky_relu"] = lambda t: [(t(70, 75), s) for s in (0.01, 1.0, 0.0, -0.5)]
LARGE["logsumexp"] = lambda t: [
    *(
        (t(*s, low=-9.0, high=9.0), (len(s) - 1,), k)
        for s in ((300, 400), (2, 40, 900))
        for k in (True, False)
    ),
    (t(2, 70000), (1,), False),
    ((t(300, 400) - 0.5).clamp(max=0).log(), (1,), False),  # nan and infinities
    (t(300, 400), (0,), False),
]
LARGE["mse_loss_op"] = lambda t: [(t(300, 400), t(300, 400), reduction) for reduction in range(3)]
LARGE["vector_norm"] = lambda t: [
    *((t(30, n), 2.0, (1,), keepdim) for n in (300, 2000, 2003) for keepdim in (True, False)),
    (t(9, 30, 40), 2, (2,), False),
    (t(30, 400), 3.0, (1,), False),
]
LARGE["std"] = LARGE["var_mean"] = LARGE["std_mean"] = LARGE["var"]
LARGE["log_softmax"], LARGE["log_softmax_grad"] = LARGE["softmax"], LARGE["softmax_grad"]


def _products(found: list, product: Callable) -> list:
    return [product(*found)] if len(found) > 1 else found  # half types are refused


# What must agree where a kernel may choose: among equal elements, which of them are taken.
MEANING: dict[str, Callable[[tuple, list], list]] = {
    "topk_index": lambda args, found: (
        [args[0].take_along_dim(found[0], args[2])] if args[0].ndim else found
    ),
    # vectors are defined up to a sign or a phase; their gradients are in test_lapack
    "linalg_eigh": lambda args, found: [
        found[0],
        *_products(found, lambda L, V, *_: V * L[..., None, :] @ V.mT),
    ],
    "linalg_eig": lambda args, found: _products(
        found, lambda L, V, *_: (V * L[..., None, :] @ V.inverse()).real
    ),
    "linalg_eigvals": lambda args, found: (
        found if len(found) < 2 else [part.sort().values for part in (found[0].real, found[0].imag)]
    ),
    "linalg_svd": lambda args, found: [
        *found[1:2],
        *_products(
            found,
            lambda U, S, V, *_: U[..., : S.shape[-1]] * S[..., None, :] @ V[..., : S.shape[-1], :],
        ),
    ],
}


def samples(op: Any, t: Maker) -> list[tuple]:
    return [*(op.samples(t) if op.samples else ()), *LARGE[op.name](t)]


def floats(args: tuple) -> list[gl.Tensor]:
    return [a for a in args if isinstance(a, gl.Tensor) and a.requires_grad]


def run(op: Any, args: tuple) -> list:
    """Results and gradients; a refusal as its exception."""
    try:
        made = op.call(*args)
    except (RuntimeError, TypeError, IndexError) as exc:
        return [type(exc)]
    outs = [o for o in (made if isinstance(made, tuple) else (made,)) if o.requires_grad]
    values = list(made) if isinstance(made, tuple) else [made]
    if not outs or not floats(args):
        return values
    random = np.random.default_rng(3)
    seeds = [gl.from_numpy(random.uniform(-1, 1, tuple(o.shape))).to(o.dtype) for o in outs]
    return [*values, *gl.autograd.grad(outs, floats(args), seeds, allow_unused=True)]


def agree(found: list, expected: list, dtype: Any) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if not isinstance(a, gl.Tensor) or not isinstance(b, gl.Tensor):
            assert a is b
            continue
        assert a.dtype is b.dtype and a.shape == b.shape
        x, y = a.detach().double().numpy(), b.detach().double().numpy()
        finite = np.abs(y[np.isfinite(y)])
        atol = TOLERANCE[dtype] * max(1.0, finite.max(initial=0.0))
        np.testing.assert_allclose(x, y, rtol=TOLERANCE[dtype], atol=atol)


@pytest.mark.parametrize("layout", ["dense", "strided"])
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_an_overlay_gives_what_the_formula_gives(name, kind, layout):
    op, dtype = REGISTRY[name], DTYPES[kind]
    t = Maker(dtype, layout == "strided")
    for args in samples(op, t):
        found = run(op, args)
        with off():
            expected = run(op, args)
        means = MEANING.get(name, lambda args, values: values)
        agree(means(args, found), means(args, expected), dtype)


@pytest.mark.parametrize("name", NAMES)
def test_an_overlay_runs(name):
    """It declines some arguments, but not all."""
    op, xp = REGISTRY[name], gl.tape.arrays.backend_for("cpu")
    overlay = OVERLAYS.forward_of(op)
    if overlay is None:
        return
    n, t = len(op.tensors), Maker(gl.float32, False)
    answers = []
    for args in samples(op, t):
        arrays = [a._array if isinstance(a, gl.Tensor) else a for a in args[:n]]
        answers.append(overlay(xp, *arrays, **dict(zip(op.attrs, args[n:], strict=True))))
    assert any(answer is not NotImplemented for answer in answers)


def test_switched_off_only_formulas_run(monkeypatch):
    calls = []
    kernel = softmax_kernels.of_few
    monkeypatch.setattr(softmax_kernels, "of_few", lambda *a: calls.append(1) or kernel(*a))
    x = gl.ones(2, 3, dtype=gl.float64, requires_grad=True)

    def runs() -> int:
        calls.clear()
        gl.softmax(x, 1).sum().backward()
        return len(calls)

    assert runs() == 2  # forward, and the op that its gradient is made of
    with off():
        assert runs() == 0
        with off():
            assert runs() == 0
        assert runs() == 0
    assert runs() == 2


def test_a_watcher_sees_the_overlay_of_a_gradient_that_would_run_without_him(monkeypatch):
    """Also where the formulas of the op are written out for Tensors."""
    x = gl.ones(3, dtype=gl.float64, requires_grad=True)
    op, ran = REGISTRY["sinh"], []
    monkeypatch.setattr(op.node_class, "gradients", op.node_class.gradients)
    monkeypatch.setitem(
        OVERLAYS._found, ("vjp", op), lambda F, g, self: ran.append(1) or (g * np.cosh(self),)
    )
    specialize(op)
    with gl.profiler.profile():
        x.sinh().sum().backward()
    assert ran == [1]
    gl.autograd.grad(x.sinh().sum(), x, create_graph=True)
    assert ran == [1]


def test_an_overlay_asks_only_for_what_is_saved():
    table = type(OVERLAYS)("test")
    table.vjp("softmax")(lambda F, g, self: (g,))
    with pytest.raises(TypeError, match="overlay of softmax asks for"):
        table.vjp_of(REGISTRY["softmax"])


def test_a_bias_is_added_by_the_product_itself(monkeypatch):
    """Where the result is large, and only there; NumPy's wheels bring the library that can."""
    added = []
    gemm = blas._gemm(np.dtype("f4"))
    assert gemm is not None
    monkeypatch.setattr(
        blas, "_gemm", lambda d: lambda *given: added.append(given[3:6]) or gemm(*given)
    )
    x, w, b = gl.ones(3, 200, 64), gl.ones(300, 64), gl.arange(300.0)
    assert gl.nn.functional.linear(x, w, b).tolist() == [[[64.0 + i for i in range(300)]] * 200] * 3
    assert added == [(600, 300, 64)]
    gl.nn.functional.linear(x[0, :4], w, b)
    assert gl.equal(gl.nn.functional.linear(x.mT.contiguous().mT, w, b)[0, 0], b + 64)
    assert len(added) == 1


def test_without_a_library_to_call_linear_is_numpys(monkeypatch):
    monkeypatch.setattr(blas, "_gemm", lambda d: None)
    out = gl.nn.functional.linear(gl.ones(600, 64), gl.ones(300, 64), gl.arange(300.0))
    assert out.tolist() == [[64.0 + i for i in range(300)]] * 600


@pytest.mark.parametrize("size", [1.0, 60.0, 1e4])
def test_attention_of_scores_of_any_size(size):
    """Those that exp takes as they are, and those that it does not: against float64."""
    random = np.random.default_rng(2)
    q, k, v = (random.standard_normal((2, 3, 130, 8)) for _ in range(3))
    q *= size / np.linalg.norm(q, axis=-1, keepdims=True)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    exact = [gl.from_numpy(a).requires_grad_() for a in (q, k, v)]
    single = [a.detach().float().requires_grad_() for a in exact]
    attention = gl.nn.functional.scaled_dot_product_attention
    with off():
        wanted = attention(*exact, is_causal=True, scale=1.0)
    found = attention(*single, is_causal=True, scale=1.0)
    # a score of 60 is known to 4e-6, and so is what exp makes of it
    close = {"rtol": 0, "atol": 2e-6 * max(1.0, size)}
    np.testing.assert_allclose(found.detach().double(), wanted.detach(), **close)
    wanted.sum().backward()
    found.sum().backward()
    for a, b in zip(single, exact, strict=True):
        scale = max(1.0, float(b.grad.abs().max()))
        np.testing.assert_allclose(a.grad.double() / scale, b.grad / scale, **close)
