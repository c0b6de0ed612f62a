"""Linear algebra with PyTorch's names: ``gradlib.linalg.solve`` and the others."""

from .ops import linalg as _linalg
from .ops.linalg_solve import LINALG as _LINALG
from .ops.linalg_solve import LinAlgError

globals().update(_LINALG)
__all__ = ["LinAlgError", *sorted(_LINALG)]
_ = _linalg
