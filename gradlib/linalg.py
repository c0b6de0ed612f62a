"""Linear algebra with PyTorch's names: ``gradlib.linalg.solve`` and the others."""

from typing import TYPE_CHECKING, Any

from .op.expose import overridable as _overridable
from .operators.linalg.base import LINALG as _LINALG
from .operators.linalg.base import LinAlgError

if TYPE_CHECKING:  # the functions come from the declarations in gradlib/operators

    def __getattr__(name: str) -> Any: ...


globals().update(_LINALG)
__all__ = ["LinAlgError", *sorted(_LINALG)]  # pyright: ignore[reportUnsupportedDunderAll]
_overridable(globals())
