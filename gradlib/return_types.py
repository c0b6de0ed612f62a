"""Named results of functions that return several tensors: ``gradlib.return_types.max`` and the others."""

from __future__ import annotations

from collections import namedtuple
from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the classes are made below, from a table

    def __getattr__(name: str) -> Any: ...


class _Named(tuple if TYPE_CHECKING else object):
    """A tuple with names that prints as PyTorch prints it."""

    __slots__ = ()
    _fields: tuple[str, ...]

    def __repr__(self) -> str:
        body = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
        return f"torch.return_types.{type(self).__name__}(\n{body})"


_base = cache(partial(namedtuple, "result"))  # one for the same fields: Python compiles each


def _define(name: str, fields: str) -> type:
    text = (
        f"What functions called ``{name}`` return: the tuple ({', '.join(fields.split())}).\n\n"
        "Its entries also have these names: ``result." + fields.split()[0] + "``."
    )
    return type(
        name, (_Named, _base(fields)), {"__slots__": (), "__module__": __name__, "__doc__": text}
    )


_PAIRS = "max min median nanmedian mode kthvalue sort topk cummax cummin"
for _name in _PAIRS.split():
    globals()[_name] = _define(_name, "values indices")
for _name, _fields in {
    "aminmax": "min max",
    "cholesky_ex": "L info",
    "linalg_cholesky_ex": "L info",
    "eig": "eigenvalues eigenvectors",
    "linalg_eig": "eigenvalues eigenvectors",
    "linalg_eigh": "eigenvalues eigenvectors",
    "frexp": "mantissa exponent",
    "geqrf": "a tau",
    "histogram": "hist bin_edges",
    "histogramdd": "hist bin_edges",
    "linalg_inv_ex": "inverse info",
    "linalg_ldl_factor": "LD pivots",
    "linalg_ldl_factor_ex": "LD pivots info",
    "linalg_lstsq": "solution residuals rank singular_values",
    "_lu_with_info": "LU pivots info",
    "linalg_lu": "P L U",
    "linalg_lu_factor": "LU pivots",
    "linalg_lu_factor_ex": "LU pivots info",
    "lu_unpack": "P L U",
    "linalg_qr": "Q R",
    "qr": "Q R",
    "linalg_slogdet": "sign logabsdet",
    "slogdet": "sign logabsdet",
    "linalg_solve_ex": "result info",
    "linalg_svd": "U S Vh",
    "svd": "U S V",
    "triangular_solve": "solution cloned_coefficient",
}.items():
    globals()[_name] = _define(_name, _fields)
