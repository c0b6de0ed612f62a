"""``gradlib.special``: special functions under PyTorch's names."""

from __future__ import annotations

from .core.op import REGISTRY
from .ops import special_bessel as _bessel
from .ops.expose import PUBLIC
from .ops.expose import write_out as _write_out
from .ops.softmax import log_softmax as _log_softmax
from .ops.softmax import softmax as _softmax
from .ops.special_gamma import polygamma as polygamma

_SAME = {
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erfinv",
    "exp2": "exp2",
    "expit": "sigmoid",
    "expm1": "expm1",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "gammaln": "lgamma",
    "i0": "i0",
    "log1p": "log1p",
    "logit": "logit",
    "logsumexp": "logsumexp",
    "multigammaln": "mvlgamma",
    "psi": "digamma",
    "round": "round",
    "sinc": "sinc",
    "xlogy": "xlogy",
}
_OWN = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 entr erfcx i0e i1 i1e log_ndtr "
    "modified_bessel_k0 modified_bessel_k1 ndtr "
    "ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0"
).split()
_PAIRS = ("xlog1py", "zeta")


def _unary(name: str):
    op = REGISTRY["special_" + name]

    def call(input, *, out=None):
        return _write_out(out, op.call(input))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"The special function {name} of each element."
    return call


def _binary(name: str):
    op = REGISTRY["special_" + name]

    def call(input, other, *, out=None):
        return _write_out(out, op.call(input, other))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"The special function {name} of (input, other), with broadcasting."
    return call


def softmax(input, dim, *, dtype=None):
    """``gradlib.softmax``."""
    return _softmax(input, dim, dtype)


def log_softmax(input, dim, *, dtype=None):
    """``gradlib.log_softmax``."""
    return _log_softmax(input, dim, dtype)


globals().update({name: PUBLIC[key] for name, key in _SAME.items()})
globals().update({name: _unary(name) for name in _OWN})
globals().update({name: _binary(name) for name in _PAIRS})
globals().update(_bessel.POLYNOMIALS)
modified_bessel_i0 = PUBLIC["i0"]
modified_bessel_i1 = globals()["i1"]
__all__ = sorted(  # pyright: ignore[reportUnsupportedDunderAll]
    {
        *_SAME,
        *_OWN,
        *_PAIRS,
        *_bessel.POLYNOMIALS,
        "log_softmax",
        "modified_bessel_i0",
        "modified_bessel_i1",
        "polygamma",
        "softmax",
    }
)
