"""A mode for indexing by tensors inside vmap: gradlib's indexing needs none."""

from __future__ import annotations

from .._refused import refuse

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """A context manager that changes nothing: ``x[i]`` with a batched `i` works inside vmap as it is.

    Example:
        >>> x = gradlib.tensor([5, 6, 7])
        >>> with TransformGetItemToIndex():
        ...     gradlib.vmap(lambda i: x[i])(gradlib.tensor([2, 0]))
        tensor([7, 5])
    """

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


__getattr__ = refuse(
    __name__,
    more="ModIndex mod_index trace_wrapped",
    why="Index tensors as they are.",
)
