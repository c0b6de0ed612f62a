"""``gradlib.special``: special functions under PyTorch's names."""

from __future__ import annotations

from .op.declare import REGISTRY
from .op.describe import described as _described_op
from .op.expose import PUBLIC
from .op.expose import overridable as _overridable
from .op.expose import write_out as _write_out
from .operators.nn.softmax import log_softmax as _log_softmax
from .operators.nn.softmax import softmax as _softmax
from .operators.special import bessel as _bessel
from .operators.special.gamma import polygamma as polygamma
from .ops.aten import PLACES as _PLACES

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
# name, what it is of each element x, arguments of an example, what that shows
_OWN = (
    (
        "airy_ai",
        "The Airy function Ai, the solution of y'' = x y that vanishes for large x (DLMF 9.2)",
        "0.0, 1.0",
        "tensor([0.3550, 0.1353])",
    ),
    (
        "bessel_j0",
        "The Bessel function of the first kind of order 0 (DLMF 10.2)",
        "0.0, 1.0",
        "tensor([1.0000, 0.7652])",
    ),
    (
        "bessel_j1",
        "The Bessel function of the first kind of order 1 (DLMF 10.2)",
        "0.0, 1.0",
        "tensor([0.0000, 0.4401])",
    ),
    (
        "bessel_y0",
        "The Bessel function of the second kind of order 0: -inf at 0, nan below it (DLMF 10.2)",
        "1.0, 2.0",
        "tensor([0.0883, 0.5104])",
    ),
    (
        "bessel_y1",
        "The Bessel function of the second kind of order 1: -inf at 0, nan below it (DLMF 10.2)",
        "1.0, 2.0",
        "tensor([-0.7812, -0.1070])",
    ),
    ("entr", "-x log(x), and 0 at 0, -inf below it", "0.0, 0.5", "tensor([0.0000, 0.3466])"),
    (
        "erfcx",
        "exp(x^2) erfc(x): the complementary error function scaled, which does not vanish for large x",
        "0.0, 10.0",
        "tensor([1.0000, 0.0561])",
    ),
    (
        "i0e",
        "exp(-|x|) I0(x): the modified Bessel function of order 0, scaled",
        "0.0, 1.0",
        "tensor([1.0000, 0.4658])",
    ),
    (
        "i1",
        "I1: the modified Bessel function of the first kind of order 1 (DLMF 10.25)",
        "0.0, 1.0",
        "tensor([0.0000, 0.5652])",
    ),
    (
        "i1e",
        "exp(-|x|) I1(x): the modified Bessel function of order 1, scaled",
        "0.0, 1.0",
        "tensor([0.0000, 0.2079])",
    ),
    (
        "log_ndtr",
        "log(ndtr(x)), exact where ndtr(x) is tiny",
        "0.0, -20.0",
        "tensor([  -0.6931, -203.9172])",
    ),
    (
        "modified_bessel_k0",
        "K0: the modified Bessel function of the second kind of order 0; inf at 0 (DLMF 10.25)",
        "1.0, 2.0",
        "tensor([0.4210, 0.1139])",
    ),
    (
        "modified_bessel_k1",
        "K1: the modified Bessel function of the second kind of order 1; inf at 0 (DLMF 10.25)",
        "1.0, 2.0",
        "tensor([0.6019, 0.1399])",
    ),
    (
        "ndtr",
        "The area below the standard normal density up to x: (1 + erf(x / sqrt(2))) / 2",
        "0.0, 1.0",
        "tensor([0.5000, 0.8413])",
    ),
    (
        "ndtri",
        "The x at which ndtr(x) is the element: the inverse of ndtr, nan outside of [0, 1]",
        "0.5, 0.975",
        "tensor([0.0000, 1.9600])",
    ),
    (
        "scaled_modified_bessel_k0",
        "exp(x) K0(x): the modified Bessel function of the second kind of order 0, scaled",
        "1.0, 2.0",
        "tensor([1.1445, 0.8416])",
    ),
    (
        "scaled_modified_bessel_k1",
        "exp(x) K1(x): the modified Bessel function of the second kind of order 1, scaled",
        "1.0, 2.0",
        "tensor([1.6362, 1.0335])",
    ),
    (
        "spherical_bessel_j0",
        "sin(x) / x, and 1 at 0: the spherical Bessel function of order 0",
        "0.0, 1.0",
        "tensor([1.0000, 0.8415])",
    ),
)
_PAIRS = (
    (
        "xlog1py",
        "input * log(1 + other), and 0 where `input` is 0 and `other` is no nan",
        "0.0, 2.0",
        "-1.0, 1.0",
        "tensor([0.0000, 1.3863])",
    ),
    (
        "zeta",
        "The Hurwitz zeta function: the sum of 1 / (k + other)^input over k = 0, 1, ..., for input > 1 (DLMF 25.11)",
        "2.0, 4.0",
        "1.0, 1.0",
        "tensor([1.6449, 1.0823])",
    ),
)


def _described(op, name: str, what: str, *example: str) -> str:
    """The docstring of a function; `example`: its arguments and what it gives."""
    given = ", ".join(f"gradlib.tensor([{values}])" for values in example[:-1])
    return _described_op(op, what + ".", (f"gradlib.special.{name}({given})", example[-1]))


def _unary(name: str, *texts: str):
    op = REGISTRY["special_" + name]

    def call(input, *, out=None):
        return _write_out(out, op.call(input))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _described(op, name, *texts)
    return call


def _binary(name: str, *texts: str):
    op = REGISTRY["special_" + name]

    def call(input, other, *, out=None):
        return _write_out(out, op.call(input, other))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _described(op, name, *texts)
    return call


def softmax(input, dim, *, dtype=None):
    """``gradlib.softmax``: exp(input) / sum(exp(input)) along `dim`, which has no default here.

    Shapes, dtypes and errors are the same.

    Example:
        >>> gradlib.special.softmax(gradlib.zeros(4), 0)
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return _softmax(input, dim, dtype)


def log_softmax(input, dim, *, dtype=None):
    """``gradlib.log_softmax``: the logarithm of `softmax` along `dim`, which has no default here.

    Shapes, dtypes and errors are the same.

    Example:
        >>> gradlib.special.log_softmax(gradlib.zeros(4), 0)
        tensor([-1.3863, -1.3863, -1.3863, -1.3863])
    """
    return _log_softmax(input, dim, dtype)


globals().update({name: PUBLIC[key] for name, key in _SAME.items()})
globals().update({row[0]: _unary(*row) for row in _OWN})
globals().update({row[0]: _binary(*row) for row in _PAIRS})
globals().update(_bessel.POLYNOMIALS)
modified_bessel_i0 = PUBLIC["i0"]
modified_bessel_i1 = globals()["i1"]
__all__ = sorted(  # pyright: ignore[reportUnsupportedDunderAll]
    {
        *_SAME,
        *[row[0] for row in _OWN + _PAIRS],
        *_bessel.POLYNOMIALS,
        "log_softmax",
        "modified_bessel_i0",
        "modified_bessel_i1",
        "polygamma",
        "softmax",
    }
)
_PLACES.append(globals().get)
_overridable(globals())
