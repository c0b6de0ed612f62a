"""Types of TorchScript that programs use in annotations."""

from __future__ import annotations

import typing
from typing import Any

from .._refused import refuse
from ..tape.tensor import Tensor
from ._script import Final

Any_, Dict, List, Optional, Tuple, Union = (
    typing.Any, typing.Dict, typing.List, typing.Optional, typing.Tuple, typing.Union,  # noqa: UP006
)  # fmt: skip

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "BroadcastingList4",
    "BroadcastingList5",
    "BroadcastingList6",
    "Dict",
    "Final",
    "List",
    "Optional",
    "Tensor",
    "Tuple",
    "Union",
    "is_tensor",
]


class BroadcastingListCls:
    """``BroadcastingList2[int]``: one number, or a list of two.

    In Python it is an annotation that says nothing.
    """

    def __getitem__(self, types: Any) -> Any:
        return None


BroadcastingList1 = BroadcastingListCls()
BroadcastingList2 = BroadcastingListCls()
BroadcastingList3 = BroadcastingListCls()
BroadcastingList4 = BroadcastingListCls()
BroadcastingList5 = BroadcastingListCls()
BroadcastingList6 = BroadcastingListCls()


def is_tensor(ann: Any) -> bool:
    """Whether an annotation is Tensor or a class of tensors.

    Example:
        >>> is_tensor(gradlib.Tensor), is_tensor(int)
        (True, False)
    """
    return isinstance(ann, type) and issubclass(ann, Tensor)


__getattr__ = refuse(
    __name__,
    more="EvalEnv get_enum_value_type is_function_or_method is_vararg",
    why="There is no compiler that would read annotations; inspect.signature does.",
)
