"""Transforms: differentiable maps with the determinant of their Jacobian, of which distributions are made.

`TransformedDistribution` draws from one distribution and maps the draws; `constraint_registry` finds the transform from
free numbers to a constraint.
"""

from __future__ import annotations

from ._transform import (
    ComposeTransform,
    IndependentTransform,
    Transform,
    _InverseTransform,
    identity_transform,
)
from ._transforms_numbers import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from ._transforms_vectors import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)
from .constraints import dependent_property

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "Transform",
    "identity_transform",
]

_DOMAIN = """The constraint of what is mapped.

Example:
    >>> gradlib.distributions.ReshapeTransform((4,), (2, 2)).domain
    IndependentConstraint(Real(), 1)
"""
_CODOMAIN = """The constraint of what it is mapped to.

Example:
    >>> gradlib.distributions.ReshapeTransform((4,), (2, 2)).codomain
    IndependentConstraint(Real(), 2)
"""
for _cls in (*[globals()[name] for name in __all__[:-1]], _InverseTransform):
    _cls.__module__ = __name__  # where PyTorch has them, and pickles look for them
    for _name, _text in (("domain", _DOMAIN), ("codomain", _CODOMAIN)):
        if isinstance(_region := _cls.__dict__.get(_name), dependent_property):
            _region.__doc__ = _text
