"""Linear algebra with PyTorch's names: ``gradlib.linalg.solve`` and the others."""

from typing import TYPE_CHECKING, Any

from .ops.linalg_base import LINALG as _LINALG
from .ops.linalg_base import LinAlgError

if TYPE_CHECKING:  # the functions come from the declarations in gradlib/ops

    def __getattr__(name: str) -> Any: ...


globals().update(_LINALG)
__all__ = ["LinAlgError", *sorted(_LINALG)]  # pyright: ignore[reportUnsupportedDunderAll]
