"""In-place methods as functions: ``gradlib.exp_(x)`` is ``x.exp_()``."""

from __future__ import annotations

from ..op.expose import PUBLIC, function
from ..tape.tensor import Tensor


def _written(name: str) -> None:
    """Publish the in-place method `name` as a function of the same name."""
    method = getattr(Tensor, name)

    def write(input, *args, **kwargs):
        if not isinstance(input, Tensor):
            raise TypeError(
                f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
            )
        return method(input, *args, **kwargs)

    write.__name__ = write.__qualname__ = name
    write.__doc__ = method.__doc__
    function(name)(write)


_IN_PLACE = """
    abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh as_strided asin asinh atan atanh ceil clamp
    clamp_max clamp_min clip conj_physical cos cosh deg2rad detach erf erfc exp exp2 expm1 fix floor frac gcd i0 lcm
    ldexp log log10 log1p log2 logit nan_to_num neg negative rad2deg reciprocal relu resize_as round rsqrt sigmoid sin
    sinc sinh sqrt square tan tanh trunc xlogy
"""


def publish() -> None:
    """Publish them all, once all methods exist."""
    for name in _IN_PLACE.split():
        if name + "_" not in PUBLIC:
            _written(name + "_")
