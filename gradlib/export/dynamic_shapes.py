"""Dim: sizes of examples that stand for other sizes, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._refused import refuse
from ..tape.tensor import Tensor

__all__ = ["Dim", "dims"]

__getattr__ = refuse(
    __name__,
    more="ShapesCollection",
    why="Give export() dynamic_shapes with gradlib.export.Dim.",
)


class _Hint:
    """A size that varies, or not, without a name.

    Called, it gives one with limits.
    """

    def __init__(self, kind: str, min: int | None = None, max: int | None = None) -> None:
        self.kind, self.min, self.max = kind, 0 if min is None else min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> _Hint:
        return _Hint(self.kind, min, max)

    def __repr__(self) -> str:
        return f"DimHint({self.kind})"


class Dim:
    """A size that varies: where it stands for several dimensions, these are equal.

    `Dim.AUTO` and `Dim.DYNAMIC` vary without a name, `Dim.STATIC` (or None, or a number) is that of the example.

    Args:
        name: an identifier.
        min: the smallest size.
        max: the largest size.

    Raises:
        AssertionError: `max` is not above `min`, or `name` is no identifier.
        NotImplementedError: one is computed of another (``2 * dim``).

    Example:
        >>> batch = gradlib.export.Dim("batch", min=1, max=64)
        >>> program = gradlib.export.export(
        ...     nn.Linear(2, 1), (gradlib.ones(3, 2),), dynamic_shapes={"input": {0: batch}}
        ... )
        >>> program.module()(gradlib.ones(5, 2)).shape
        torch.Size([5, 1])
    """

    AUTO, DYNAMIC, STATIC = _Hint("AUTO"), _Hint("DYNAMIC"), _Hint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.min, self.max = 0 if min is None else min, max
        assert max is None or max > self.min, (
            f"Cannot create Dim with inconsistent min={min}, max={max}"
        )
        assert name.isidentifier(), f"Dim name must be a valid identifier, got {name}"
        self.__name__ = name

    def _derive(self, *others: Any) -> Dim:
        raise NotImplementedError(
            f"gradlib.export knows no sizes that are computed of others, as of {self.__name__}: use a Dim of its own, "
            "or Dim.AUTO"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _derive

    def __repr__(self) -> str:
        limits = "" if self.min == 2 else f", min={self.min}"
        limits += f", max={self.max}" if self.max is not None else ""
        return f"Dim('{self.__name__}'{limits})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several `Dim` with the same limits.

    Args:
        names: their names.
        min: the smallest size.
        max: the largest size.

    Example:
        >>> gradlib.export.dims("batch", "time")
        (Dim('batch', min=0), Dim('time', min=0))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


def varying(value: Any, spec: Any, where: str) -> Any:
    """`spec` for each leaf of a value: a dict from dimensions to `Dim` or `_Hint`, empty where nothing varies.

    Raises:
        ValueError: `spec` has not the structure of `value`, or names a dimension that is not there.
    """
    if isinstance(value, Tensor):
        if spec is None:
            return {}
        if isinstance(spec, tuple | list):
            if len(spec) != value.ndim:
                raise ValueError(
                    f"{where}: {len(spec)} sizes for a tensor of {value.ndim} dimensions"
                )
            spec = dict(enumerate(spec))
        if not isinstance(spec, Mapping):
            raise ValueError(f"{where}: expected None, a dict, a tuple or a list, but got {spec!r}")
        found = {}
        for dim, size in spec.items():
            if not isinstance(dim, int) or not -value.ndim <= dim < value.ndim:
                raise ValueError(f"{where}: no dimension {dim!r} in a tensor of {value.ndim}")
            if isinstance(size, int) and size != value.shape[dim]:
                raise ValueError(
                    f"{where}: the size {size} of dimension {dim} is {value.shape[dim]} in the example"
                )
            if isinstance(size, Dim) or (isinstance(size, _Hint) and size.kind != "STATIC"):
                found[dim % value.ndim] = size
            elif size is not None and not isinstance(size, int | _Hint):
                raise ValueError(f"{where}: {size!r} is no size")
        return found
    if isinstance(value, Mapping):
        if spec is not None and (not isinstance(spec, Mapping) or set(spec) != set(value)):
            raise ValueError(f"{where}: dynamic_shapes has other keys than the argument")
        return {k: varying(v, spec and spec[k], f"{where}[{k!r}]") for k, v in value.items()}
    if isinstance(value, tuple | list):
        if spec is not None and (not isinstance(spec, tuple | list) or len(spec) != len(value)):
            raise ValueError(f"{where}: dynamic_shapes has another length than the argument")
        return [varying(v, spec and spec[i], f"{where}[{i}]") for i, v in enumerate(value)]
    if spec not in (None, Dim.STATIC):
        raise ValueError(f"{where}: sizes for an argument that is no tensor")
    return {}


def other_size(size: int, dim: Dim | _Hint) -> int:
    """Another size within the limits, for a second example; `size` itself if there is none."""
    low, high = dim.min, dim.max
    tried = (2 * size, size + 1, size - 1, size + 2)
    fitting = [s for s in tried if s != size and s > 1 and s >= low and (high is None or s <= high)]
    return fitting[0] if fitting else size
