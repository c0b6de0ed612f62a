"""functionalize: functions whose results never share memory with what they change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..tape import memory, pytree
from ..tape.storage import version_of
from ..tape.tensor import Tensor


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """A function that does what `func` does, as if it were made of out-of-place operations.

    What `func` changes in place among its arguments is changed, but no result is a view of that: the results are
    values of their own. Operations run as they are written; PyTorch rewrites them for its tracers.

    Args:
        func: a function of tensors and containers of tensors.
        remove: "mutations" or "mutations_and_views", which give the same here.

    Raises:
        RuntimeError: `remove` is neither.

    Example:
        >>> x = gradlib.ones(2)
        >>> y = gradlib.func.functionalize(lambda x: x.add_(1))(x)
        >>> y is x, x, y
        (False, tensor([2., 2.]), tensor([2., 2.]))
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced "
            "with their out-of-place equivalents.\n     remove='mutations_and_views': In addition to the above, all "
            "aliasing operators {view} will be replaced with their non-aliasing counterparts, {view}_copy.\n"
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, _ = pytree.flatten((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, Tensor) and not x.is_inference()]
        before = [version_of(x) for x in tensors]
        result = func(*args, **kwargs)
        changed = [
            x for x, version in zip(tensors, before, strict=True) if version_of(x) != version
        ]
        written = {memory.key(x._array) for x in changed}
        if not written:
            return result

        def apart(value: Any) -> Any:
            shares = isinstance(value, Tensor) and memory.key(value._array) in written
            return value.clone() if shares else value

        return pytree.tree_map(apart, result)

    return wrapped
